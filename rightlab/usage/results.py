"""Results of ``claude -p`` as requests: one for each model of each run (spec usage-and-baselines 3.2).

A result's totals are those of the whole session so far, also across processes (platform B): what one run
used is its ``usage``, its ``model_usage_since_last_result``, or the difference from the result before.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rightlab.usage.prices import tokens_of
from rightlab.usage.reading import MAX_TOTAL, Request, clean

__all__ = ["RUN", "requests_of_results"]

RUN = "run:"
"""How the keys of these requests begin; up to the ``|`` they name the run."""

_COUNTS = (
    "inputTokens",
    "outputTokens",
    "cacheReadInputTokens",
    "cacheCreationInputTokens",
    "cacheCreationEphemeral5mInputTokens",
    "cacheCreationEphemeral1hInputTokens",
    "webSearchRequests",
)
_ALL = (
    *_COUNTS,
    "input_tokens",
    "output_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
    "cache_creation",
)


def requests_of_results(
    runs: Iterable[Mapping[str, Any]], path: str, base: int
) -> Iterator[Request | tuple[int, str]]:
    """The requests of the results of one file, in their order; ``base`` is added to their line numbers.

    A result whose counts cannot be is told as its line and what is wrong.
    """
    before: dict[str, Mapping[str, Any]] = {}
    for run in runs:
        line = run["line"] + base
        session = clean(str(run.get("session_id")))
        uuid = clean(str(run.get("uuid") or f"{session}:{path}:{line}"))
        total = run.get("modelUsage")
        total = total if isinstance(total, dict) else {}
        steps = run.get("num_turns")
        for model, entry, cost in _used(run, total, before.get(session)):
            wrong = next((name for name in _ALL if not _possible(entry.get(name))), None)
            if wrong is not None:
                yield line, f"{wrong} cannot be {str(entry[wrong])[:40]}; the result is left out"
                continue
            tokens = tokens_of(entry)
            yield Request(
                key=f"{RUN}{uuid}|{clean(model)}",
                file=path,
                line=line,
                ts=None,
                model=clean(model),
                project=None,
                session=session,
                agent=None,
                sidechain=False,
                version=None,
                request_id=None,
                input=tokens.input,
                output=tokens.output,
                read=tokens.read,
                write_5m=tokens.write_5m,
                write_1h=tokens.write_1h,
                searches=entry.get("webSearchRequests") or 0,
                fetches=0,
                standard=True,
                differs=False,
                cost=cost,
                steps=steps if isinstance(steps, int) and steps > 1 else 1,
            )
        before[session] = total


def _used(
    run: Mapping[str, Any], total: Mapping[str, Any], before: Mapping[str, Any] | None
) -> list[tuple[str, Mapping[str, Any], float | None]]:
    """Model, counts and the CLI's own cost of one run."""
    since = run.get("model_usage_since_last_result")
    if isinstance(since, dict) and since:
        return [(model, entry, _cost(entry)) for model, entry in since.items() if isinstance(entry, dict)]
    if before is not None:
        found: list[tuple[str, Mapping[str, Any], float | None]] = []
        for model, entry in total.items():
            if isinstance(entry, dict):
                known = before.get(model)
                rest = _minus(entry, known if isinstance(known, dict) else {})
                if any(rest.values()):
                    found.append((model, rest, _cost(rest)))
        return found
    usage = run.get("usage")
    if len(total) == 1 and isinstance(usage, dict):
        ((model, entry),) = total.items()
        # The session's first run: its total is its own. Of a later one only the counts are known.
        first = isinstance(entry, dict) and entry.get("outputTokens") == usage.get("output_tokens")
        return [(model, usage, _cost(entry) if first else None)]
    return [(model, entry, _cost(entry)) for model, entry in total.items() if isinstance(entry, dict)]


def _minus(entry: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: entry[name] - before.get(name, 0)
        for name in (*_COUNTS, "costUSD")
        if isinstance(entry.get(name), int | float) and isinstance(before.get(name, 0), int | float)
    }


def _cost(entry: Mapping[str, Any]) -> float | None:
    """The CLI's figure; None where it had no price of its own and took another model's."""
    value = entry.get("costUSD")
    if entry.get("costBasis") == "unknown" or isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return max(0.0, float(value)) if math.isfinite(value) else None


def _possible(value: Any) -> bool:
    if isinstance(value, dict):
        return all(_possible(one) for one in value.values())
    return value is None or (type(value) is int and 0 <= value <= MAX_TOTAL)
