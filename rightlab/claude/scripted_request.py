"""What a script looks at in a request: who spoke last, which step of the turn it is, which tools exist."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import orjson

__all__ = ["STRUCTURED_OUTPUT", "Seen", "ToolResult"]

STRUCTURED_OUTPUT = "StructuredOutput"
"""The CLI's tool for ``--json-schema``: its input schema is the schema, verbatim (spec platform B)."""

_NUDGE = "[structured-output-enforce]"
_REMINDER = re.compile(r"\s*<system-reminder>.*?</system-reminder>\s*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ToolResult:
    """An answer of a tool to the model's last calls; ``text`` is its text content."""

    tool: str
    text: str
    is_error: bool


class Seen:
    """A read-only view of one Messages request. ``number`` counts the requests of the script, from 1."""

    def __init__(self, body: Mapping[str, Any], number: int = 1) -> None:
        self.body = body
        self.number = number

    @property
    def model(self) -> str:
        return str(self.body.get("model", ""))

    @cached_property
    def digest(self) -> str:
        """A hash of the conversation so far, in hex: what is named after it is new in every conversation's step.

        Claude Code drops a tool call whose id its session holds already, also one from before a restart.
        """
        messages = orjson.dumps(self.body.get("messages") or [], option=orjson.OPT_SORT_KEYS)
        return hashlib.sha256(messages).hexdigest()

    @cached_property
    def system(self) -> str:
        """All system blocks, joined by blank lines."""
        return "\n\n".join(_texts(self.body.get("system")))

    @cached_property
    def tools(self) -> dict[str, Mapping[str, Any]]:
        """The tools on offer, by name, with their input schemas."""
        found = {}
        for tool in self.body.get("tools") or []:
            schema = tool.get("input_schema")
            found[str(tool.get("name"))] = schema if isinstance(schema, Mapping) else {}
        return found

    @property
    def schema(self) -> Mapping[str, Any] | None:
        """The schema a structured reply must have, when one is asked for."""
        return self.tools.get(STRUCTURED_OUTPUT)

    @cached_property
    def _prompt_index(self) -> int:
        """Where the last message of a person stands; -1 when there is none."""
        messages = self.body.get("messages") or []
        for index in range(len(messages) - 1, -1, -1):
            if messages[index].get("role") == "user" and _spoken(messages[index].get("content")):
                return index
        return -1

    @cached_property
    def raw_text(self) -> str:
        """The last user text as sent: what the CLI got on stdin, reminders left out."""
        if self._prompt_index < 0:
            return ""
        return "\n".join(_spoken(self.body["messages"][self._prompt_index].get("content")))

    @cached_property
    def text(self) -> str:
        """The person's words: the texts of a ``messages:`` document (spec agent-runtime 1.10), else all."""
        return _unwrapped(self.raw_text)

    @cached_property
    def step(self) -> int:
        """How often the model has answered since the person spoke: 0 for the first request of a turn."""
        messages = (self.body.get("messages") or [])[self._prompt_index + 1 :]
        return sum(1 for message in messages if message.get("role") == "assistant")

    @cached_property
    def tool_results(self) -> list[ToolResult]:
        """The answers to the model's last calls; empty at the start of a turn."""
        names: dict[str, str] = {}
        results: list[ToolResult] = []
        for message in (self.body.get("messages") or [])[self._prompt_index + 1 :]:
            content = message.get("content")
            blocks = content if isinstance(content, list) else []
            if message.get("role") == "assistant":
                names = {str(b.get("id")): str(b.get("name")) for b in blocks if b.get("type") == "tool_use"}
                results = []
            for block in blocks:
                if block.get("type") == "tool_result":
                    name = names.get(str(block.get("tool_use_id")), "")
                    text = "\n".join(_texts(block.get("content")))
                    results.append(ToolResult(name, text, bool(block.get("is_error"))))
        return results


def _texts(content: Any) -> list[str]:
    if isinstance(content, str):
        return [content]
    if not isinstance(content, list):
        return []
    return [str(b.get("text", "")) for b in content if isinstance(b, Mapping) and b.get("type") == "text"]


def _spoken(content: Any) -> list[str]:
    """The texts of a user message that a person wrote: no tool answers, reminders or nudges of the CLI."""
    if isinstance(content, list) and any(
        isinstance(block, Mapping) and block.get("type") == "tool_result" for block in content
    ):
        return []
    texts = (_REMINDER.sub("", text).strip() for text in _texts(content))
    return [text for text in texts if text and not text.startswith(_NUDGE)]


def _unwrapped(raw: str) -> str:
    start = re.search(r"^messages:\s*$", raw, re.MULTILINE)
    if start is None:
        return raw
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        document = YAML(typ="safe", pure=True).load(raw[start.start() :])
    except YAMLError:
        return raw
    messages = document.get("messages") if isinstance(document, dict) else None
    if not isinstance(messages, list):
        return raw
    texts = [str(m["text"]) for m in messages if isinstance(m, dict) and m.get("text")]
    return "\n".join(texts) or raw
