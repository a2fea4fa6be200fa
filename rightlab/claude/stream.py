"""The CLI's output read into typed events (spec agent-runtime 3.3). What is not known is kept, never dropped."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rightlab.claude.events import (
    ApiRetry,
    AssistantText,
    Event,
    Init,
    McpServer,
    Other,
    PermissionDenied,
    Progress,
    Result,
    Thinking,
    ToolResult,
    ToolUse,
)

__all__ = ["parse_line", "parse_stream"]

Json = dict[str, Any]


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
