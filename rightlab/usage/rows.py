"""Rows of the ledger as values, and their sums by day (spec agent-runtime 3.4)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import date, datetime
from typing import Any, Protocol

from rightlab.clock import parse_iso

__all__ = ["COLUMNS", "LEARNING_SOURCES", "SOURCES", "Day", "Metered", "UsageRow", "sum_of_day", "usage_row"]

LEARNING_SOURCES = ("learning_prefilter", "learning_probe_writer", "learning_curator")
"""What counts against the learning budget; the budget gate and the views share it."""

SOURCES = (
    "interactive",
    "cron",
    "delivery",
    "reflection",
    "repair",
    "background",
    *LEARNING_SOURCES,
    "idle_compaction",
    "experiment",
)
"""Who an invocation ran for."""


class Metered(Protocol):
    """The figures of a finished run (:class:`rightlab.claude.Result` is one)."""

    @property
    def usage(self) -> Mapping[str, Any]: ...
    @property
    def model_usage(self) -> Mapping[str, Mapping[str, Any]] | None: ...
    @property
    def cost_usd(self) -> float | None: ...
    @property
    def num_turns(self) -> int: ...
    @property
    def session_id(self) -> str | None: ...
    @property
    def is_error(self) -> bool: ...
    @property
    def ttft_ms(self) -> float | None: ...
    @property
    def duration_api_ms(self) -> float | None: ...
    @property
    def raw(self) -> Mapping[str, Any]: ...


@dataclass(frozen=True)
class UsageRow:
    """One row of ``usage_events``. Times in ms, money in US dollars, ``ts`` in UTC.

    ``total_cost_usd`` is the turn's cost, None when unknown: the CLI's own per-turn figure
    (``cost_basis`` "cli"), else worked out from our table ("table"). ``cli_cost_usd`` and
    ``table_cost_usd`` are the two side by side. ``num_turns`` is the CLI's count of steps.
    """

    id: int
    ts: str
    source: str
    chat_id: int | None
    thread_id: int | None
    job_name: str | None
    session_uuid: str | None
    total_cost_usd: float | None
    num_turns: int
    input_tokens: int
    output_tokens: int
    cache_creation_tokens: int
    cache_read_tokens: int
    web_search_requests: int
    web_fetch_requests: int
    model_usage_json: str | None
    api_key_source: str | None
    wall_elapsed_ms: int | None
    cache_write_5m_tokens: int | None
    cache_write_1h_tokens: int | None
    model: str | None
    cli_cost_usd: float | None
    table_cost_usd: float | None
    cost_basis: str | None
    price_version: str | None
    turn_id: str | None
    run_id: str | None
    invocation_id: str | None
    result_uuid: str | None
    ttft_ms: int | None
    api_ms: int | None
    is_error: bool
    failure: str | None
    scripted: bool
    skills_json: str | None
    prompt_sha256: str | None

    @property
    def at(self) -> datetime:
        return parse_iso(self.ts)

    @property
    def price_gap(self) -> float | None:
        """How far our table is from the CLI's figure, as a share of the latter; above 0.01 is worth a look."""
        if self.cli_cost_usd is None or self.table_cost_usd is None:
            return None
        if self.cli_cost_usd == 0:
            return None if self.table_cost_usd else 0.0
        return abs(self.table_cost_usd - self.cli_cost_usd) / self.cli_cost_usd

    @property
    def cache_hit_ratio(self) -> float | None:
        """Read / (input + write + read), 0..1; None when nothing was sent."""
        sent = self.input_tokens + self.cache_creation_tokens + self.cache_read_tokens
        return self.cache_read_tokens / sent if sent else None


COLUMNS = tuple(item.name for item in fields(UsageRow))
"""The columns of ``usage_events``, in order."""
_FLAGS = ("is_error", "scripted")


@dataclass(frozen=True)
class Day:
    """The sums of one day. ``cost_usd`` is the known part; ``unknown_costs`` rows are not in it."""

    day: date
    rows: int
    cost_usd: float | None
    unknown_costs: int
    num_turns: int
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_creation_tokens: int


def usage_row(row: Mapping[str, Any] | Any) -> UsageRow:
    """The value of one row of the table.

    ``row`` maps the names of :data:`COLUMNS` to their values.
    """
    values = {name: row[name] for name in COLUMNS}
    values.update({name: bool(values[name]) for name in _FLAGS})
    return UsageRow(**values)


def sum_of_day(day: date, rows: Sequence[UsageRow]) -> Day:
    """The sums of ``rows``, which are those of ``day``."""
    known = [row.total_cost_usd for row in rows if row.total_cost_usd is not None]
    return Day(
        day=day,
        rows=len(rows),
        cost_usd=sum(known) if known else None,
        unknown_costs=len(rows) - len(known),
        num_turns=sum(row.num_turns for row in rows),
        input_tokens=sum(row.input_tokens for row in rows),
        output_tokens=sum(row.output_tokens for row in rows),
        cache_read_tokens=sum(row.cache_read_tokens for row in rows),
        cache_creation_tokens=sum(row.cache_creation_tokens for row in rows),
    )
