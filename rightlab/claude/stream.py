"""The CLI's output as typed events (spec agent-runtime 3.3). What is not known is kept, never dropped."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = [
    "ApiRetry",
    "AssistantText",
    "Event",
    "Init",
    "McpServer",
    "Other",
    "PermissionDenied",
    "Progress",
    "Result",
    "Thinking",
    "ToolResult",
    "ToolUse",
    "parse_line",
    "parse_stream",
]

Json = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Event:
    """Anything the CLI said. ``raw`` is its JSON object ({} for a line that is none)."""

    session_id: str | None = None
    raw: Json = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True)
class McpServer:
    """An MCP server as the CLI saw it at its start: connected, failed, pending, needs-auth, ..."""

    name: str
    status: str


@dataclass(frozen=True, kw_only=True)
class Init(Event):
    """The CLI is up; nothing was asked of the model yet. ``model`` is the full id an alias stands for."""

    model: str | None = None
    tools: tuple[str, ...] = ()
    mcp_servers: tuple[McpServer, ...] = ()
    api_key_source: str | None = None
    version: str | None = None
    cwd: str | None = None

    def mcp_status(self, name: str = "right") -> str | None:
        """The status of one server; None when it is not listed. The CLI says nothing else of a failure."""
        return next((server.status for server in self.mcp_servers if server.name == name), None)


@dataclass(frozen=True, kw_only=True)
class AssistantText(Event):
    """One text block. ``api_error``: written by the CLI itself about a failed request, not by the model."""

    text: str
    message_id: str | None = None
    parent_tool_use_id: str | None = None
    api_error: bool = False


@dataclass(frozen=True, kw_only=True)
class Thinking(Event):
    """One thinking block; its text may be empty."""

    text: str = ""
    message_id: str | None = None
    parent_tool_use_id: str | None = None


@dataclass(frozen=True, kw_only=True)
class ToolUse(Event):
    """The model calls a tool. ``parent_tool_use_id`` is set inside a subagent."""

    tool_use_id: str
    name: str
    input: Json = field(default_factory=dict)
    message_id: str | None = None
    parent_tool_use_id: str | None = None


@dataclass(frozen=True, kw_only=True)
class ToolResult(Event):
    """What a tool gave back, as text."""

    tool_use_id: str
    text: str = ""
    is_error: bool = False
    parent_tool_use_id: str | None = None

    @property
    def schema_rejected(self) -> bool:
        """Whether the CLI refused a structured reply; three in a row are a loop (spec 3.5)."""
        return self.is_error and "does not match required schema" in self.text


@dataclass(frozen=True, kw_only=True)
class Progress(Event):
    """A sign of life from the model without content (thinking_tokens, status, partial messages)."""

    subtype: str


@dataclass(frozen=True, kw_only=True)
class ApiRetry(Event):
    """A failed request that the CLI will make again after ``delay_ms``."""

    attempt: int = 0
    max_retries: int = 0
    delay_ms: float = 0.0
    status: int | None = None
    error: str | None = None


@dataclass(frozen=True, kw_only=True)
class PermissionDenied(Event):
    """The CLI refused a tool call; the turn goes on."""

    tool: str | None = None


@dataclass(frozen=True, kw_only=True)
class Other(Event):
    """Anything else: ``kind`` is its type (and subtype), or ``unparsed`` with the line in ``text``."""

    kind: str
    text: str = ""


@dataclass(frozen=True, kw_only=True)
class Result(Event):
    """The one terminal event of a run.

    ``is_error`` alone says whether it failed: ``subtype`` may be ``success`` all the same. A turn that went
    well may have ``structured_output`` None.

    ``usage`` is this turn's, in the API's own words (input_tokens, output_tokens, cache_read_input_tokens,
    cache_creation_input_tokens, cache_creation, server_tool_use). Taken from ``model_usage`` where the CLI
    gives it, as only that counts a last request that was cut off, and subagents.
    ``model_usage`` is per model since the last result; None when the CLI did not say.
    ``cost_usd`` is this turn's, in US dollars, by the CLI's own prices; None when it gave none or does not
    know the model. ``session_cost_usd`` is the running total of the session and never to be summed.
    """

    subtype: str = ""
    is_error: bool = False
    text: str = ""
    structured_output: Any = None
    num_turns: int = 0
    usage: Json = field(default_factory=dict)
    model_usage: dict[str, Json] | None = None
    cost_usd: float | None = None
    session_cost_usd: float | None = None
    duration_ms: float | None = None
    duration_api_ms: float | None = None
    ttft_ms: float | None = None
    time_to_request_ms: float | None = None
    api_error_status: int | None = None
    terminal_reason: str | None = None
    stop_reason: str | None = None
    errors: tuple[str, ...] = ()
    permission_denials: tuple[Json, ...] = ()
    subagents: Json = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return not self.is_error

    @property
    def exit_code(self) -> int:
        """What the run counts as (spec 3.3): from ``is_error``, not from the process, which may be killed."""
        return int(self.is_error)


def parse_stream(lines: Iterable[str | bytes]) -> Iterator[Event]:
    """The events in ``lines`` (stream-json, or the one object of ``--output-format json``), in order.

    An assistant or user line gives one event per content block. Blank lines are skipped; a line that is no
    JSON object is an :class:`Other` of kind ``unparsed``.
    """
    for line in lines:
        yield from parse_line(line)


def parse_line(line: str | bytes) -> list[Event]:
    """The events of one line; never raises, whatever the line holds."""
    text = line.decode("utf-8", "replace") if isinstance(line, bytes) else line
    text = text.strip()
    if not text:
        return []
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict):
        return [Other(kind="unparsed", text=text)]
    kind = data.get("type")
    if kind == "result":
        return [_result(data)]
    if kind == "system":
        return [_system(data)]
    if kind in ("assistant", "user"):
        return _blocks(data, kind)
    if kind == "stream_event":
        return [Progress(subtype="stream_event", **_common(data))]
    return [Other(kind=str(kind), **_common(data))]


def _common(data: Json) -> Json:
    session = data.get("session_id")
    return {"session_id": session if isinstance(session, str) else None, "raw": data}


def _system(data: Json) -> Event:
    common = _common(data)
    subtype = str(data.get("subtype") or "")
    if subtype == "init":
        servers = tuple(
            McpServer(str(item.get("name")), str(item.get("status")))
            for item in _list(data.get("mcp_servers"))
            if isinstance(item, dict)
        )
        return Init(
            model=_text(data.get("model")),
            tools=tuple(str(tool) for tool in _list(data.get("tools"))),
            mcp_servers=servers,
            api_key_source=_text(data.get("apiKeySource")),
            version=_text(data.get("claude_code_version")),
            cwd=_text(data.get("cwd")),
            **common,
        )
    if subtype == "api_retry":
        return ApiRetry(
            attempt=_count(data.get("attempt")),
            max_retries=_count(data.get("max_retries")),
            delay_ms=_number(data.get("retry_delay_ms")) or 0.0,
            status=_status(data.get("error_status")),
            error=_text(data.get("error")),
            **common,
        )
    if subtype == "permission_denied":
        return PermissionDenied(tool=_text(data.get("tool_name")), **common)
    if subtype in ("thinking_tokens", "status"):
        return Progress(subtype=subtype, **common)
    return Other(kind=f"system/{subtype}", **common)


def _blocks(data: Json, kind: str) -> list[Event]:
    message = data.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    events = [_block(data, kind, block) for block in _list(content)]
    return events or [Other(kind=kind, **_common(data))]


def _block(data: Json, kind: str, block: Any) -> Event:
    common = _common(data)
    if not isinstance(block, dict):
        return Other(kind=kind, text=str(block), **common)
    message = data.get("message")
    place: Json = {"parent_tool_use_id": _text(data.get("parent_tool_use_id"))}
    message_id = _text(message.get("id")) if isinstance(message, dict) else None
    what = block.get("type")
    if kind == "assistant" and what == "text":
        return AssistantText(
            text=str(block.get("text") or ""),
            message_id=message_id,
            api_error=bool(data.get("is_api_error_message")),
            **place,
            **common,
        )
    if what in ("thinking", "redacted_thinking"):
        return Thinking(text=str(block.get("thinking") or ""), message_id=message_id, **place, **common)
    if what in ("tool_use", "server_tool_use"):
        given = block.get("input")
        return ToolUse(
            tool_use_id=str(block.get("id") or ""),
            name=str(block.get("name") or ""),
            input=given if isinstance(given, dict) else {},
            message_id=message_id,
            **place,
            **common,
        )
    if what == "tool_result":
        return ToolResult(
            tool_use_id=str(block.get("tool_use_id") or ""),
            text=_flat(block.get("content")),
            is_error=bool(block.get("is_error")),
            **place,
            **common,
        )
    return Other(kind=f"{kind}/{what}", text=_flat(block.get("text")), **common)


def _flat(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = [str(item.get("text") or "") for item in _list(content) if isinstance(item, dict)]
    return "\n".join(part for part in parts if part)


def _result(data: Json) -> Result:
    models = _models(data.get("model_usage_since_last_result"))
    usage = data.get("usage")
    known = dict(usage) if isinstance(usage, dict) else {}
    if models:
        known.update(_summed(models))
    result = data.get("result")
    return Result(
        subtype=str(data.get("subtype") or ""),
        is_error=bool(data.get("is_error")),
        text=result if isinstance(result, str) else "",
        structured_output=data.get("structured_output"),
        num_turns=_count(data.get("num_turns")),
        usage=known,
        model_usage=models,
        cost_usd=_cost(models, known),
        session_cost_usd=_number(data.get("total_cost_usd")),
        duration_ms=_number(data.get("duration_ms")),
        duration_api_ms=_number(data.get("duration_api_ms")),
        ttft_ms=_number(data.get("ttft_ms")),
        time_to_request_ms=_number(data.get("time_to_request_ms")),
        api_error_status=_status(data.get("api_error_status")),
        terminal_reason=_text(data.get("terminal_reason")),
        stop_reason=_text(data.get("stop_reason")),
        errors=tuple(str(item) for item in _list(data.get("errors"))),
        permission_denials=tuple(
            item for item in _list(data.get("permission_denials")) if isinstance(item, dict)
        ),
        subagents=data["subagent_stats"] if isinstance(data.get("subagent_stats"), dict) else {},
        **_common(data),
    )


def _models(value: Any) -> dict[str, Json] | None:
    if not isinstance(value, dict):
        return None
    return {str(model): dict(entry) for model, entry in value.items() if isinstance(entry, dict)}


def _summed(models: Mapping[str, Json]) -> Json:
    def total(key: str) -> int:
        return sum(_count(entry.get(key)) for entry in models.values())

    split = all("cacheCreationEphemeral1hInputTokens" in entry for entry in models.values())
    made: Json = {
        "input_tokens": total("inputTokens"),
        "output_tokens": total("outputTokens"),
        "cache_read_input_tokens": total("cacheReadInputTokens"),
        "cache_creation_input_tokens": total("cacheCreationInputTokens"),
    }
    if split:
        made["cache_creation"] = {
            "ephemeral_5m_input_tokens": total("cacheCreationEphemeral5mInputTokens"),
            "ephemeral_1h_input_tokens": total("cacheCreationEphemeral1hInputTokens"),
        }
    return made


_TOKEN_KEYS = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


def _cost(models: Mapping[str, Json] | None, usage: Mapping[str, Any]) -> float | None:
    """The turn's own cost. A model the CLI does not know it prices as another: no price of ours."""
    if not models:
        spent = any(_count(usage.get(key)) for key in _TOKEN_KEYS)
        return None if spent or not usage else 0.0
    costs = [_number(entry.get("costUSD")) for entry in models.values()]
    guessed = any(entry.get("costBasis") == "unknown" for entry in models.values())
    known = [cost for cost in costs if cost is not None]
    return None if guessed or len(known) < len(costs) else sum(known)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    # Comparing takes integers of any size; NaN and infinities fail it.
    return value if -1e300 < value < 1e300 else None


def _count(value: Any) -> int:
    number = _number(value)
    return int(number) if number is not None and 0 <= number < 1e15 else 0


def _status(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
