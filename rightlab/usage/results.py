"""Results of ``claude -p`` as requests: one for each model of each run (spec usage-and-baselines 3.2).

A result's totals are those of the whole session so far, also across processes (platform B): what one run
used is its ``usage``, its ``model_usage_since_last_result``, or the difference from the result before.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rightlab.usage.prices import tokens_of
from rightlab.usage.reading import Request

__all__ = ["requests_of_results"]

_COUNTS = (
    "inputTokens",
    "outputTokens",
    "cacheReadInputTokens",
    "cacheCreationInputTokens",
    "cacheCreationEphemeral5mInputTokens",
    "cacheCreationEphemeral1hInputTokens",
    "webSearchRequests",
    "costUSD",
)


def requests_of_results(runs: Iterable[Mapping[str, Any]], path: str, base: int) -> Iterator[Request]:
    """The requests of the results of one file, in their order; ``base`` is added to their line numbers."""
    before: dict[str, Mapping[str, Any]] = {}
    for run in runs:
        session = str(run.get("session_id"))
        uuid = str(run.get("uuid") or f"{session}:{path}:{run['line'] + base}")
        total = run.get("modelUsage")
        total = total if isinstance(total, dict) else {}
        for model, entry, cost in _used(run, total, before.get(session)):
            tokens = tokens_of(entry)
            if min(tokens.input, tokens.output, tokens.read, tokens.write_5m, tokens.write_1h) < 0:
                continue
            yield Request(
                f"{uuid}|{model}", path, run["line"] + base, None, model, None, session, None, False, None, None,
                tokens.input, tokens.output, tokens.read, tokens.write_5m, tokens.write_1h,
                _number(entry, "webSearchRequests"), 0, True, False, cost, max(1, _number(run, "num_turns")),
            )  # fmt: skip
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
        (model, entry), whole = next(iter(total.items())), total[next(iter(total))]
        same = isinstance(whole, dict) and tokens_of(whole).output == tokens_of(usage).output
        # The session's first run: its total is its own. Of a later one only the counts are known.
        return [(model, usage, _cost(entry) if same else None)]
    return [(model, entry, _cost(entry)) for model, entry in total.items() if isinstance(entry, dict)]


def _minus(entry: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: entry[name] - before.get(name, 0)
        for name in _COUNTS
        if isinstance(entry.get(name), int | float) and isinstance(before.get(name, 0), int | float)
    }


def _cost(entry: Mapping[str, Any]) -> float | None:
    """The CLI's figure; None where it had no price of its own and took another model's."""
    value = entry.get("costUSD")
    if entry.get("costBasis") == "unknown" or isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return max(0.0, float(value))


def _number(values: Mapping[str, Any], name: str) -> int:
    value = values.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
