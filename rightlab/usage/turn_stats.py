"""The TURN STATS block of the prefilter's prompt (spec agent-runtime 6.4, 6.5; contract "What is exact")."""

from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

from rightlab.clock import Clock, SystemClock, iso
from rightlab.errors import UsageError
from rightlab.store import Store
from rightlab.usage.percentiles import MIN_SAMPLE, Summary, summarize
from rightlab.usage.samples import known

__all__ = ["TurnStats", "this_turn", "turn_stats"]


@dataclass(frozen=True, slots=True)
class TurnStats:
    """Percentiles of the foreground turns of the last ``days`` days up to this moment; ``n`` counts the turns.

    A metric has an n of its own: elapsed ms (and an unknown cost) may be missing while the others are there.
    """

    n: int
    days: int
    turns: Summary
    cost_usd: Summary
    elapsed_ms: Summary
    min_sample: int = MIN_SAMPLE

    @property
    def sufficient(self) -> bool:
        return self.n >= self.min_sample

    def text(self) -> str:
        """The block, without a line break at its end."""
        if not self.sufficient:
            return (
                f"TURN STATS: insufficient history (n={self.n}, need {self.min_sample}). Treat this turn as\n"
                "average complexity."
            )
        return "\n".join(
            (
                f"TURN STATS (P50/P90/P99 over last {self.days}d foreground turns, n={self.n})",
                f"  turns:        {self._triple(self.turns)}",
                f"  cost_usd:     {self._triple(self.cost_usd)}",
                f"  elapsed_ms:   {self._triple(self.elapsed_ms)}",
            )
        )

    def _triple(self, summary: Summary) -> str:
        if not summary.sufficient:
            return f"unavailable (n={summary.n}, need {self.min_sample})"
        return " / ".join(_raw(value) for value in (summary.p50, summary.p90, summary.p99))


def turn_stats(
    store: Store, *, days: int = 14, min_sample: int = MIN_SAMPLE, clock: Clock | None = None
) -> TurnStats:
    """The figures of the interactive turns of the last ``days`` times 24 hours. Raises UsageError, StoreError."""
    if days < 1 or min_sample < 1:
        raise UsageError(f"days is {days} and the minimum sample {min_sample}", fix="Both are at least 1.")
    now = (clock or SystemClock()).now()
    rows = store.rows(
        "SELECT num_turns, total_cost_usd, wall_elapsed_ms FROM usage_events"
        " WHERE source = 'interactive' AND ts >= ? AND ts <= ?",
        iso(now - timedelta(days=days)),
        iso(now),
    )
    turns, costs, elapsed = ([known(row[place]) for row in rows] for place in range(3))
    return TurnStats(
        len(rows),
        days,
        summarize(turns, min_sample),
        summarize(costs, min_sample),
        summarize(elapsed, min_sample),
        min_sample,
    )


def this_turn(num_turns: float | None, cost_usd: float | None, elapsed_ms: float | None) -> str:
    """The current turn's own values, to stand beside the block."""
    values = (("turns", num_turns), ("cost_usd", cost_usd), ("elapsed_ms", elapsed_ms))
    said = ", ".join(f"{name}={'unknown' if value is None else _raw(value)}" for name, value in values)
    return f"THIS TURN: {said}"


def _raw(value: float | None) -> str:
    """A number as it is: no unit, no exponent, no digits that only rounding made."""
    text = format(Decimal(f"{value:.12g}"), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text
