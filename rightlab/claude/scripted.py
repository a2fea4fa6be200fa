"""The scripted model: a Messages API whose answers come from rules, for the demo, tests and notebooks.

``gateway.upstream: scripted:builtin`` answers as a small persona that says it is scripted;
``scripted:FILE`` reads rules from a YAML file::

    name: weather demo            # optional, shown in status
    otherwise: builtin            # when no rule matches: "error" (default) or the builtin persona
    usage: {output: 30}           # optional figures for every answer; what is left out is estimated
    rules:
      - match: umbrella           # short for {text: umbrella}
        reply: "Take one."        # in the reply schema if one is asked for, else as text
      - match: {regex: "weather in (\\\\w+)"}
        steps:                    # one action per step of a turn; the last one repeats
          - tools: [{name: Bash, input: {command: "date"}}]
          - reply: "The tool said: {{tool_result}}"
      - match: flaky
        sequence:                 # one action per time the rule is used; the last one repeats
          - error: {status: 529, retry_after: 1}
          - reply: "Fine now."

``match`` (all keys given must hold; no ``match`` matches everything; texts are compared without case):
``text`` a part of the person's last words, ``regex`` searched in them (also in the raw stdin), ``system`` a
part of the system prompt, ``tool_result`` a part of an answer to the last tool calls (or ``true``: any),
``tool_error`` whether one failed, ``tool`` a tool on offer, ``model`` a part of the model's name, ``schema``
one of reply, bootstrap, cron, other, none, ``step`` the step of the turn from 0, ``request`` the number of
the request from 1. ``times: N`` beside ``match`` retires the rule after N uses.

An action is made of: ``reply`` (text, or rich content), ``values`` (more properties of a structured reply by
name), ``structured`` (the exact StructuredOutput input), ``text`` (plain assistant text), ``thinking``,
``tools`` (calls: name, input), ``usage`` (input, output, cache_read, cache_write_5m, cache_write_1h),
``delay`` (seconds before the first byte), ``chunk`` (characters per delta), ``pace`` (seconds between
deltas), ``stop_reason``, ``error`` (status, type, message, retry_after, should_retry, in_stream) and ``drop``
(start or middle: the connection is cut). In texts ``{{text}}``, ``{{tool_result}}``, ``{{step}}``,
``{{model}}``, ``{{request}}`` and ``{{1}}`` .. ``{{9}}`` (groups of ``regex``) are filled in.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from rightlab.claude.messages_api import ApiError
from rightlab.claude.scripted_request import STRUCTURED_OUTPUT, Seen
from rightlab.claude.scripted_schema import fill_schema, schema_problem
from rightlab.errors import ConfigError

__all__ = ["Action", "FailWith", "Match", "Rule", "Script", "ToolCall", "UsageNumbers", "load_script"]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class UsageNumbers(_Strict):
    """Token figures a script fixes; None ones are estimated."""

    input: int | None = Field(default=None, ge=0)
    output: int | None = Field(default=None, ge=0)
    cache_read: int | None = Field(default=None, ge=0)
    cache_write_5m: int | None = Field(default=None, ge=0)
    cache_write_1h: int | None = Field(default=None, ge=0)


class FailWith(_Strict):
    """An API error. ``in_stream``: sent as an event after half of the answer, with status 200."""

    status: int = Field(default=500, ge=400, le=599)
    type: str = ""
    message: str = ""
    retry_after: float | None = None
    should_retry: bool | None = None
    in_stream: bool = False

    def api_error(self) -> ApiError:
        message = self.message or f"scripted failure {self.status}"
        return ApiError(
            self.status, message, self.type, retry_after=self.retry_after, should_retry=self.should_retry
        )


class ToolCall(_Strict):
    """A call of a tool the CLI offers, e.g. ``Bash`` or ``mcp__right__send_message``."""

    name: str
    input: dict[str, Any] = Field(default_factory=dict)


class Action(_Strict):
    """What one answer is made of; see the module's text."""

    reply: str | dict[str, Any] | None = None
    values: dict[str, Any] = Field(default_factory=dict)
    structured: dict[str, Any] | None = None
    text: str | None = None
    thinking: str | None = None
    tools: tuple[ToolCall, ...] = ()
    usage: UsageNumbers | None = None
    delay: float = Field(default=0.0, ge=0, le=3600)
    chunk: int = Field(default=40, ge=1)
    pace: float = Field(default=0.0, ge=0, le=60)
    stop_reason: str | None = None
    error: FailWith | None = None
    drop: Literal["start", "middle"] | None = None

    def content(self, seen: Seen, groups: Sequence[str] = ()) -> list[dict[str, Any]]:
        """The API content blocks of this action in answer to ``seen``."""
        fill = _filler(seen, groups)
        blocks: list[dict[str, Any]] = []
        if self.thinking is not None:
            blocks.append({"type": "thinking", "thinking": fill(self.thinking), "signature": "scripted"})
        if self.text is not None:
            blocks.append({"type": "text", "text": fill(self.text)})
        calls = [(call.name, _deep(call.input, fill)) for call in self.tools]
        if self.structured is not None:
            calls.append((STRUCTURED_OUTPUT, _deep(self.structured, fill)))
        elif self.reply is not None:
            reply = _deep(self.reply, fill)
            if seen.schema is not None:
                calls.append(
                    (STRUCTURED_OUTPUT, structured_reply(seen.schema, reply, _deep(self.values, fill)))
                )
            else:
                blocks.append({"type": "text", "text": reply if isinstance(reply, str) else _plain(reply)})
        for number, (name, value) in enumerate(calls):
            call_id = f"toolu_{seen.digest[:20]}_{number}"
            blocks.append({"type": "tool_use", "id": call_id, "name": name, "input": value})
        return blocks or [{"type": "text", "text": "(scripted: an empty answer)"}]


class Match(_Strict):
    """When a rule applies: every key given must hold."""

    text: str | None = None
    regex: str | None = None
    system: str | None = None
    tool_result: str | bool | None = None
    tool_error: bool | None = None
    tool: str | None = None
    model: str | None = None
    schema_: Literal["reply", "bootstrap", "cron", "other", "none"] | None = Field(
        default=None, alias="schema"
    )
    step: int | None = None
    request: int | None = None

    @model_validator(mode="after")
    def _regex_compiles(self) -> "Match":
        try:
            re.compile(self.regex or "")
        except re.error as error:
            raise ValueError(f"regex: {error}") from error
        return self

    def groups(self, seen: Seen) -> tuple[str, ...] | None:
        """The groups of ``regex`` (empty without one) when everything holds, else None."""
        results = seen.tool_results
        checks = (
            self.text is None or self.text.casefold() in seen.text.casefold(),
            self.system is None or self.system.casefold() in seen.system.casefold(),
            self.model is None or self.model.casefold() in seen.model.casefold(),
            self.tool is None or self.tool in seen.tools,
            self.step is None or self.step == seen.step,
            self.request is None or self.request == seen.number,
            self.schema_ is None or self.schema_ == schema_kind(seen.schema),
            self.tool_error is None or self.tool_error == any(result.is_error for result in results),
            self._result_holds(seen),
        )
        if not all(checks):
            return None
        if self.regex is None:
            return ()
        pattern = re.compile(self.regex, re.IGNORECASE | re.DOTALL)
        found = pattern.search(seen.text) or pattern.search(seen.raw_text)
        return None if found is None else tuple(group or "" for group in found.groups())

    def _result_holds(self, seen: Seen) -> bool:
        if self.tool_result is None:
            return True
        if isinstance(self.tool_result, bool):
            return bool(seen.tool_results) is self.tool_result
        wanted = self.tool_result.casefold()
        return any(wanted in result.text.casefold() for result in seen.tool_results)


class Rule(Action):
    """A match and what to do: an action of its own, or ``steps``, or ``sequence``."""

    match: Match = Field(default_factory=Match)
    times: int | None = Field(default=None, ge=1)
    steps: tuple[Action, ...] = ()
    sequence: tuple[Action, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _short_match(cls, data: Any) -> Any:
        if isinstance(data, Mapping) and isinstance(data.get("match"), str):
            return {**data, "match": {"text": data["match"]}}
        return data

    @model_validator(mode="after")
    def _one_kind(self) -> "Rule":
        own = self.model_fields_set - {"match", "times", "steps", "sequence"}
        if bool(own) + bool(self.steps) + bool(self.sequence) != 1:
            raise ValueError("a rule has an action of its own, or steps, or sequence: exactly one of them")
        return self

    def action(self, seen: Seen, used: int) -> Action:
        """What to do now; ``used`` is how often this rule was used before."""
        if self.steps:
            return self.steps[min(seen.step, len(self.steps) - 1)]
        if self.sequence:
            return self.sequence[min(used, len(self.sequence) - 1)]
        return self


class Persona(Protocol):
    """Something that always has an answer."""

    def action(self, seen: Seen) -> Action: ...


class Script(_Strict):
    """A list of rules, tried in order."""

    name: str = "script"
    otherwise: Literal["error", "builtin"] = "error"
    usage: UsageNumbers | None = None
    rules: tuple[Rule, ...] = ()


def load_script(source: "str | Path | Sequence[Mapping[str, Any]] | Script | None") -> Script:
    """A script from ``"builtin"`` (or None), a YAML file, or a list of rules as plain data.

    Raises:
        ConfigError: no such file, not YAML, or a rule that breaks the format (names the rule and the key).
    """
    if isinstance(source, Script):
        return source
    if source is None or source == "builtin":
        return Script(name="builtin", otherwise="builtin")
    if isinstance(source, str | Path):
        return _validated(_read(Path(source)), str(source))
    return _validated({"rules": list(source)}, "script")


def _read(path: Path) -> Any:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        data = YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(
            f"the script cannot be read: {error.strerror}", where=path, fix="Check gateway.upstream."
        ) from error
    except (YAMLError, UnicodeDecodeError) as error:
        first = " ".join(str(error).split())[:200]
        raise ConfigError(f"the script is not YAML: {first}", where=path) from error
    if isinstance(data, list):
        return {"rules": data}
    return data if data is not None else {}


def _validated(data: Any, where: str) -> Script:
    try:
        return Script.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "document"
        raise ConfigError(
            f"{place}: {first['msg']}", where=where, fix="See rightlab.claude.scripted."
        ) from error


def schema_kind(schema: Mapping[str, Any] | None) -> str:
    """Which of the project's schemas (spec agent-runtime 2.3-2.5) this is, by its properties."""
    if schema is None:
        return "none"
    names = set(schema.get("properties", {}))
    if "bootstrap_stage" in names:
        return "bootstrap"
    if {"content", "used_skill_receipts"} <= names:
        return "reply"
    return "cron" if "delivery" in names else "other"


def structured_reply(schema: Mapping[str, Any], reply: Any, values: Mapping[str, Any]) -> Any:
    """An object of ``schema`` that says ``reply`` (a text or rich content); ``values`` by property name.

    Where the schema cannot hold what was asked for, the nearest valid object is used.
    """
    text = reply if isinstance(reply, str) else _plain(reply)
    rich = {"text": text} if isinstance(reply, str) else reply
    filled = fill_schema(schema, text=text, values={"content": rich, **values})
    return filled if schema_problem(filled, schema) is None else fill_schema(schema, text=text)


def _plain(content: Mapping[str, Any]) -> str:
    """The texts of rich content, a line each."""
    found: list[str] = []

    def walk(value: Any) -> None:
        if isinstance(value, Mapping):
            if isinstance(value.get("text"), str):
                found.append(value["text"])
            for item in value.values():
                walk(item)
        elif isinstance(value, list):
            for item in value:
                walk(item)

    walk(content)
    return "\n".join(found)


def _filler(seen: Seen, groups: Sequence[str]) -> Callable[[str], str]:
    def value(match: re.Match[str]) -> str:
        name = match.group(1)
        if name.isdigit():
            return groups[int(name) - 1] if 0 < int(name) <= len(groups) else ""
        return {
            "text": seen.text,
            "tool_result": "\n".join(result.text for result in seen.tool_results),
            "step": str(seen.step),
            "model": seen.model,
            "request": str(seen.number),
        }[name]

    pattern = re.compile(r"\{\{(text|tool_result|step|model|request|[1-9])\}\}")
    return lambda text: pattern.sub(value, text)


def _deep(value: Any, fill: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return fill(value)
    if isinstance(value, Mapping):
        return {key: _deep(item, fill) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_deep(item, fill) for item in value]
    return value
