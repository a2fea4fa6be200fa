"""What stands out: days and turns far beyond the usual, the dearest sessions (spec usage-and-baselines 1, 2; 12.2)."""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Literal

from rightlab.usage.rows import Day, UsageRow

__all__ = [
    "FACTOR",
    "FLOOR_USD",
    "Session",
    "Spike",
    "cache_hit_ratio",
    "dearest",
    "dearest_sessions",
    "predecessors",
    "spiky_days",
    "spiky_turns",
]

FACTOR = 2.0
"""A day or a turn of so many times the median stands out."""
FLOOR_USD = 0.05
"""Below so much money nothing does."""


@dataclass(frozen=True, slots=True)
class Spike:
    """A day or turn that cost ``cost_usd`` where ``median_usd`` is usual. ``row`` is the turn's row of the ledger."""

    kind: Literal["day", "turn"]
    day: date
    cost_usd: float
    median_usd: float
    row: UsageRow | None = None

    @property
    def times(self) -> float:
        return self.cost_usd / self.median_usd


@dataclass(frozen=True, slots=True)
class Session:
    """The turns of one session. ``cost_usd`` is the known part or None; ``unknown`` rows are not in it."""

    session: str
    turns: int
    cost_usd: float | None
    unknown: int
    cache_hit_ratio: float | None


def spiky_days(
    days: Iterable[Day], *, factor: float = FACTOR, floor_usd: float = FLOOR_USD, today: date | None = None
) -> list[Spike]:
    """The days of at least ``factor`` times the median of the other days that cost something, in order.

    A day is never part of what it is judged by, and nor is ``today``, which is not over (btsouth/ceiling PR#299). One
    other day is enough; without one, or when nothing else cost anything, there is no verdict.
    """
    costly = [(day.day, day.cost_usd) for day in days if day.cost_usd]
    found = []
    for day, cost in sorted(costly):
        others = [other for at, other in costly if at not in (day, today)]
        if not others or cost < floor_usd:
            continue
        median = statistics.median(others)
        if median > 0 and cost >= factor * median:
            found.append(Spike("day", day, cost, median))
    return found


def spiky_turns(
    rows: Sequence[UsageRow],
    *,
    factor: float = FACTOR,
    floor_usd: float = FLOOR_USD,
    min_sample: int = 20,
) -> list[Spike]:
    """The rows beyond ``factor`` times the P90 of the rows of their source, dearest first.

    Two times a median is nothing odd for one turn, as it is for a day. Sources with fewer than ``min_sample`` rows of
    known cost give none.
    """
    from rightlab.usage.percentiles import percentile

    by_source: dict[str, list[UsageRow]] = {}
    for row in rows:
        if row.total_cost_usd is not None and math.isfinite(row.total_cost_usd):
            by_source.setdefault(row.source, []).append(row)
    found = []
    for members in by_source.values():
        costs = [row.total_cost_usd or 0.0 for row in members]
        if len(costs) < min_sample:
            continue
        median, limit = percentile(costs, 0.5), factor * percentile(costs, 0.9)
        if median <= 0:
            continue
        for row, cost in zip(members, costs, strict=True):
            if cost > limit and cost >= floor_usd:
                found.append(Spike("turn", row.at.date(), cost, median, row))
    return sorted(found, key=lambda spike: -spike.cost_usd)


def dearest(rows: Iterable[UsageRow], n: int = 5) -> list[UsageRow]:
    """The ``n`` rows of the highest known cost, dearest first."""
    priced = [row for row in rows if row.total_cost_usd is not None]
    return sorted(priced, key=lambda row: (-(row.total_cost_usd or 0.0), row.id))[:n]


def dearest_sessions(rows: Iterable[UsageRow], n: int = 5) -> list[Session]:
    """The ``n`` sessions of the highest known cost, dearest first; rows of no session are left out."""
    grouped: dict[str, list[UsageRow]] = {}
    for row in rows:
        if row.session_uuid:
            grouped.setdefault(row.session_uuid, []).append(row)
    found = [_session(name, members) for name, members in grouped.items()]
    return sorted(found, key=lambda session: (-(session.cost_usd or 0.0), session.session))[:n]


def cache_hit_ratio(rows: Iterable[UsageRow]) -> float | None:
    """Read / (input + write + read) of all ``rows``, 0 to 1; None when nothing was sent.

    Not read / (read + write), which is near 1 for everything (Menci/Floway PR#428), nor read / input, which is
    thousands of percent (zhangferry/tokendash PR#15).
    """
    read = sent = 0
    for row in rows:
        read += max(0, row.cache_read_tokens)
        sent += sum(
            max(0, part) for part in (row.input_tokens, row.cache_creation_tokens, row.cache_read_tokens)
        )
    return read / sent if sent else None


def predecessors(rows: Iterable[UsageRow]) -> Mapping[str, str]:
    """Each turn id to that of the turn before it in its session: what ``lab.divergence`` takes."""
    last: dict[str, str] = {}
    found: dict[str, str] = {}
    for row in sorted(rows, key=lambda row: (row.ts, row.id)):
        if not row.session_uuid or not row.turn_id:
            continue
        before = last.get(row.session_uuid)
        if before is not None and before != row.turn_id:
            found.setdefault(row.turn_id, before)
        last[row.session_uuid] = row.turn_id
    return found


def _session(name: str, rows: Sequence[UsageRow]) -> Session:
    known = [row.total_cost_usd for row in rows if row.total_cost_usd is not None]
    return Session(
        name, len(rows), math.fsum(known) if known else None, len(rows) - len(known), cache_hit_ratio(rows)
    )
