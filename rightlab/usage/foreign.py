"""Rows of other tools, known by their content: ccusage's sums and OpenTelemetry's GenAI spans.

Spec usage-and-baselines 3.3 and 3.4. Each tool counts in its own way; here everything becomes ours, where input
does not include what was read from or written to the cache.
"""

import math
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, time
from typing import Any

from rightlab.usage.reading import MAX_TOTAL, Request, clean

__all__ = ["AGGREGATED", "is_foreign", "rows_of"]

AGGREGATED = 0
"""``Request.steps`` of a sum: nobody knows of how many requests, so it is in no count and no percentile."""

_SUMS = ("daily", "weekly", "monthly", "sessions", "blocks", "projects")
_INPUT = "gen_ai.usage.input_tokens"
_OUTPUT = "gen_ai.usage.output_tokens"
_READ = "gen_ai.usage.cache_read.input_tokens"
_WRITTEN = "gen_ai.usage.cache_creation.input_tokens"

Row = Request | str
"""A request, or what is wrong with one."""


def is_foreign(row: Mapping[str, Any]) -> bool:
    """Whether a row without a type is one of those read here."""
    return "resourceSpans" in row or "attributes" in row or ("totals" in row and _kind(row) is not None)


def rows_of(row: Mapping[str, Any], path: str, line: int) -> Iterator[Row]:
    """The requests or sums of one such row."""
    if "totals" in row:
        yield from _ccusage(row, path, line)
    else:
        for span, attributes in _spans(row):
            yield from _span(span, attributes, path, line)


def _kind(row: Mapping[str, Any]) -> str | None:
    return next((name for name in _SUMS if isinstance(row.get(name), list | dict)), None)


# --- ccusage


def _ccusage(row: Mapping[str, Any], path: str, line: int) -> Iterator[Row]:
    name = _kind(row)
    entries = row[name] if name is not None else []
    groups = entries.items() if isinstance(entries, dict) else [(None, entries)]
    for project, listed in groups:
        for place, entry in enumerate(listed if isinstance(listed, list) else []):
            if not isinstance(entry, dict) or entry.get("isGap"):
                continue
            of = str(
                next((entry[n] for n in ("date", "week", "month", "sessionId", "id") if entry.get(n)), place)
            )
            parts = entry.get("modelBreakdowns")
            for part in parts if isinstance(parts, list) and parts else [entry]:
                if isinstance(part, dict):
                    yield _sum(part, entry, clean(f"ccusage:{name}:{project}:{of}"), path, line)


def _sum(part: Mapping[str, Any], entry: Mapping[str, Any], key: str, path: str, line: int) -> Row:
    models = entry.get("modelsUsed") or entry.get("models")
    model = part.get("modelName") or (models[0] if isinstance(models, list) and len(models) == 1 else None)
    model = clean(model) if isinstance(model, str) else "several models"
    counts = part.get("tokenCounts")
    counts = counts if isinstance(counts, dict) else part
    try:
        tokens = [
            _count(counts, ("inputTokens",)),
            _count(counts, ("outputTokens",)),
            _count(counts, ("cacheReadTokens", "cacheReadInputTokens")),
            _count(counts, ("cacheCreationTokens", "cacheCreationInputTokens")),
        ]
    except ValueError as error:
        return f"{key}: {error}"
    cost = next((part[n] for n in ("cost", "totalCost", "costUSD") if part.get(n) is not None), None)
    known = isinstance(cost, int | float) and math.isfinite(cost) and (cost > 0 or not any(tokens))
    return _request(
        f"{key}|{model}",
        path,
        line,
        # Its day is one of the zone it ran in; noon is on that day nearly everywhere.
        _noon(entry.get("date")),
        model,
        tokens,
        # A model it knows no price of costs nothing there; that is no price.
        cost=float(cost) if known and cost is not None else None,
        priced=False,
        steps=AGGREGATED,
    )


def _noon(value: Any) -> int | None:
    try:
        day = date.fromisoformat(value)
    except (TypeError, ValueError):
        return None
    return int(datetime.combine(day, time(12), UTC).timestamp()) * 1_000_000


# --- OpenTelemetry


def _spans(row: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Spans with their attributes: of one flat row, or of an OTLP export."""
    attributes = row.get("attributes")
    if isinstance(attributes, dict):
        yield row, attributes
    for resource in _dicts(row.get("resourceSpans")):
        for scope in _dicts(resource.get("scopeSpans")):
            for span in _dicts(scope.get("spans")):
                yield (
                    span,
                    {str(one.get("key")): _value(one.get("value")) for one in _dicts(span.get("attributes"))},
                )


def _span(span: Mapping[str, Any], attributes: Mapping[str, Any], path: str, line: int) -> Iterator[Row]:
    if _INPUT not in attributes and _OUTPUT not in attributes:
        return
    model = attributes.get("gen_ai.response.model") or attributes.get("gen_ai.request.model")
    context = span.get("context")
    inner = context if isinstance(context, dict) else {}
    key = attributes.get("gen_ai.response.id") or span.get("spanId") or inner.get("span_id")
    try:
        read, written = _count(attributes, (_READ,)), _count(attributes, (_WRITTEN,))
        sent, out = _count(attributes, (_INPUT,)), _count(attributes, (_OUTPUT,))
    except ValueError as error:
        yield str(error)
        return
    if sent < read + written:
        yield f"{_INPUT} {sent} is less than the cache's {read + written}, which it must include"
        return
    yield _request(
        clean(str(key)) if key else f"{path}:{line}",
        path,
        line,
        _moment(span),
        clean(model) if isinstance(model, str) and model else "unknown",
        [sent - read - written, out, read, written],
        session=attributes.get("gen_ai.conversation.id"),
    )


def _moment(span: Mapping[str, Any]) -> int | None:
    nanos = span.get("startTimeUnixNano")
    try:
        if nanos is not None:
            return int(nanos) // 1000
        at = datetime.fromisoformat(span.get("start_time") or span.get("timestamp") or "")
    except (TypeError, ValueError):
        return None
    return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1e6)


def _value(value: Any) -> Any:
    """An OTLP value; its integers are text."""
    if not isinstance(value, dict):
        return None
    if "intValue" in value:
        try:
            return int(value["intValue"])
        except (TypeError, ValueError):
            return value["intValue"]
    return next((value[n] for n in ("stringValue", "doubleValue", "boolValue") if n in value), None)


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _count(values: Mapping[str, Any], names: tuple[str, ...]) -> int:
    """A count, 0 when none is told. Raises ValueError for one that cannot be."""
    for name in names:
        value = values.get(name)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float) or value != value // 1:
            raise ValueError(f"{name} is no count: {str(value)[:40]!r}; left out")
        if not 0 <= value <= MAX_TOTAL:
            raise ValueError(f"{name} cannot be {value}; left out")
        return int(value)
    return 0


def _request(
    key: str,
    path: str,
    line: int,
    ts: int | None,
    model: str,
    tokens: list[int],
    *,
    session: Any = None,
    cost: float | None = None,
    priced: bool = True,
    steps: int = 1,
) -> Request:
    return Request(
        key=key,
        file=path,
        line=line,
        ts=ts,
        model=model,
        project=None,
        session=clean(session) if isinstance(session, str) else None,
        agent=None,
        sidechain=False,
        version=None,
        request_id=None,
        input=tokens[0],
        output=tokens[1],
        read=tokens[2],
        write_5m=tokens[3],
        write_1h=0,
        searches=0,
        fetches=0,
        standard=priced,
        differs=False,
        cost=cost,
        steps=steps,
    )
