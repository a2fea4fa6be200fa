"""The ledger (spec agent-runtime 3.4)."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from rightlab.errors import UsageError
from rightlab.store import Store
from rightlab.usage import LEARNING_SOURCES, PRICE_VERSION, SOURCES, Ledger

SPEC_COLUMNS = (
    "id ts source chat_id thread_id job_name session_uuid total_cost_usd num_turns input_tokens output_tokens "
    "cache_creation_tokens cache_read_tokens web_search_requests web_fetch_requests model_usage_json "
    "api_key_source wall_elapsed_ms"
)
ENTRY = {
    "inputTokens": 100,
    "outputTokens": 42,
    "cacheReadInputTokens": 20,
    "cacheCreationInputTokens": 30,
    "cacheCreationEphemeral5mInputTokens": 10,
    "cacheCreationEphemeral1hInputTokens": 20,
    "costUSD": 0.000727,
}
USAGE = {
    "input_tokens": 100,
    "output_tokens": 42,
    "cache_read_input_tokens": 20,
    "cache_creation_input_tokens": 30,
    "cache_creation": {"ephemeral_5m_input_tokens": 10, "ephemeral_1h_input_tokens": 20},
    "server_tool_use": {"web_search_requests": 0, "web_fetch_requests": 3},
}


@dataclass
class Ran:
    usage: dict[str, Any] = field(default_factory=lambda: dict(USAGE))
    model_usage: dict[str, Any] | None = field(default_factory=lambda: {"claude-sonnet-5-5": dict(ENTRY)})
    cost_usd: float | None = 0.000727
    num_turns: int = 2
    session_id: str | None = "session"
    is_error: bool = False
    ttft_ms: float | None = 91.6
    duration_api_ms: float | None = 120.0
    raw: dict[str, Any] = field(default_factory=dict)


class Hands:
    """A clock that stands where it is put."""

    def __init__(self) -> None:
        self.moment = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)

    def now(self) -> datetime:
        return self.moment

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        self.moment += timedelta(seconds=seconds)


@pytest.fixture
def clock() -> Hands:
    return Hands()


@pytest.fixture
def ledger(tmp_path: Path, clock: Hands) -> Iterator[Ledger]:
    with Store.open(tmp_path / "data.db", role="owner") as store:
        yield Ledger(store, clock)


def test_the_columns_of_the_spec_come_first_and_in_order(ledger: Ledger) -> None:
    columns = [row["name"] for row in ledger.store.rows("PRAGMA table_info(usage_events)")]
    assert columns[: len(SPEC_COLUMNS.split())] == SPEC_COLUMNS.split()


def test_one_row_per_invocation(ledger: Ledger) -> None:
    row = ledger.record(
        Ran(),
        source="interactive",
        chat_id=7,
        thread_id=0,
        api_key_source="none",
        wall_elapsed_ms=1234.4,
        turn_id="t1",
        invocation_id="i1",
        skills=["rightx-a"],
        prompt_sha256="ab",
        scripted=True,
    )
    assert ledger.rows() == [row]
    assert row.total_cost_usd == row.cli_cost_usd == 0.000727
    assert row.table_cost_usd == pytest.approx(0.000727)
    assert (row.cost_basis, row.price_version) == ("cli", PRICE_VERSION)
    assert row.price_gap == pytest.approx(0)
    assert (row.input_tokens, row.output_tokens, row.cache_read_tokens) == (100, 42, 20)
    assert (row.cache_creation_tokens, row.cache_write_5m_tokens, row.cache_write_1h_tokens) == (30, 10, 20)
    assert (row.web_search_requests, row.web_fetch_requests) == (0, 3)
    assert (row.model, row.session_uuid) == ("claude-sonnet-5-5", "session")
    assert (row.wall_elapsed_ms, row.ttft_ms, row.api_ms) == (1234, 92, 120)
    assert row.scripted is True
    assert row.is_error is False
    assert row.cache_hit_ratio == pytest.approx(20 / 150)
    assert row.ts == "2026-11-30T12:00:00.000000Z"


def test_without_the_clis_figure_our_table_counts(ledger: Ledger) -> None:
    row = ledger.record(Ran(cost_usd=None, model_usage=None), source="delivery", model="claude-sonnet-5-5")
    assert row.cost_basis == "table"
    assert row.total_cost_usd == row.table_cost_usd == pytest.approx(0.000727)
    assert row.cli_cost_usd is None
    assert row.price_gap is None


def test_an_unknown_cost_is_null_never_zero(ledger: Ledger) -> None:
    unknown = Ran(cost_usd=None, model_usage={"claude-zebra-9": dict(ENTRY)})
    for result, model in ((unknown, None), (Ran(cost_usd=None, model_usage=None), None), (None, "sonnet")):
        row = ledger.record(result, source="interactive", model=model)
        assert row.total_cost_usd is None
        assert row.cost_basis is None
    assert ledger.spent() == 0
    (day,) = ledger.by_day()
    assert (day.rows, day.unknown_costs, day.cost_usd) == (3, 3, None)


def test_a_mixed_turn_with_one_unknown_model_is_unknown(ledger: Ledger) -> None:
    both = {"claude-sonnet-5-5": dict(ENTRY), "claude-zebra-9": dict(ENTRY)}
    assert ledger.record(Ran(cost_usd=None, model_usage=both), source="interactive").table_cost_usd is None


def test_a_failed_run_has_its_row_too(ledger: Ledger) -> None:
    killed = ledger.record(None, source="cron", job_name="daily", failure="timeout", session_uuid="s")
    refused = ledger.record(
        Ran(is_error=True, cost_usd=0.0, model_usage={}, usage={"input_tokens": 0}), source="reflection"
    )
    assert (killed.is_error, killed.failure, killed.num_turns) == (True, "timeout", 0)
    assert (refused.is_error, refused.total_cost_usd) == (True, 0.0)
    assert killed.cache_hit_ratio is None


def test_the_same_result_is_written_once(ledger: Ledger) -> None:
    first = ledger.record(Ran(raw={"uuid": "u"}), source="interactive")
    assert ledger.record(Ran(raw={"uuid": "u"}), source="interactive") == first
    ledger.record(Ran(), source="interactive")
    ledger.record(Ran(), source="interactive")
    assert len(ledger.rows()) == 3


def test_a_row_of_the_callers_transaction_goes_with_it(ledger: Ledger) -> None:
    def fails(tx: Any) -> None:
        ledger.record(Ran(), source="interactive", tx=tx)
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        ledger.store.transact(fails)
    assert ledger.rows() == []
    ledger.store.transact(lambda tx: ledger.record(Ran(), source="interactive", tx=tx))
    assert len(ledger.rows()) == 1


def test_sources_are_known(ledger: Ledger) -> None:
    with pytest.raises(UsageError, match="learning_curator"):
        ledger.record(Ran(), source="learning_selector")
    assert set(LEARNING_SOURCES) < set(SOURCES)


def test_windows_and_filters(ledger: Ledger, clock: Hands) -> None:
    for day, source, chat in ((1, "interactive", 1), (2, "cron", 1), (20, "interactive", 2)):
        clock.moment = datetime(2026, 11, 30, 12, tzinfo=UTC) - timedelta(days=day)
        ledger.record(Ran(), source=source, chat_id=chat, thread_id=0, job_name=source, turn_id=source)
    clock.moment = datetime(2026, 11, 30, 12, tzinfo=UTC)
    assert len(ledger.rows(days=14)) == 2
    assert [row.source for row in ledger.rows()] == ["interactive", "cron", "interactive"]
    assert [row.chat_id for row in ledger.rows(sources="interactive")] == [2, 1]
    assert len(ledger.rows(sources=("cron", "delivery"), chat_id=1, thread_id=0, job_name="cron")) == 1
    assert len(ledger.rows(turn_id="cron")) == 1
    assert ledger.rows(limit=1)[0].source == "interactive"
    assert ledger.rows(limit=1)[0].chat_id == 1
    assert len(ledger.rows(until=clock.moment - timedelta(days=2))) == 1
    assert ledger.spent(since=clock.moment - timedelta(days=3)) == pytest.approx(2 * 0.000727)
    assert ledger.spent(sources=LEARNING_SOURCES) == 0


def test_days_are_those_of_the_asked_zone(ledger: Ledger, clock: Hands) -> None:
    # 23:30 UTC is the next day in Berlin, and the day before in Los Angeles is still the same one.
    clock.moment = datetime(2026, 11, 29, 23, 30, tzinfo=UTC)
    ledger.record(Ran(), source="interactive")
    clock.moment = datetime(2026, 11, 30, 0, 30, tzinfo=UTC)
    ledger.record(Ran(), source="interactive")

    def days(zone: str, **more: Any) -> list[tuple[str, int]]:
        return [(str(day.day), day.rows) for day in ledger.by_day(timezone=zone, **more)]

    assert days("UTC") == [("2026-11-29", 1), ("2026-11-30", 1)]
    assert days("Europe/Berlin") == [("2026-11-30", 2)]
    assert days("America/Los_Angeles") == [("2026-11-29", 2)]
    assert days("UTC", days=0) == [("2026-11-30", 1)]
    assert ledger.by_day()[0].cost_usd == pytest.approx(0.000727)
    with pytest.raises(UsageError, match="time zone"):
        ledger.by_day(timezone="Mars/Base")


def test_as_a_frame(ledger: Ledger) -> None:
    assert len(ledger.to_frame()) == 0
    ledger.record(Ran(), source="interactive")
    ledger.record(None, source="cron")
    frame = ledger.to_frame()
    assert frame["total_cost_usd"].isna().tolist() == [False, True]
    assert str(frame["ts"].dtype).startswith("datetime64[")
    assert str(frame["ts"].dt.tz) == "UTC"
    assert list(ledger.to_frame(sources="cron")["source"]) == ["cron"]


def test_a_reader_can_look_while_the_owner_writes(ledger: Ledger) -> None:
    ledger.record(Ran(), source="interactive")
    with Store.open(ledger.store.path, role="reader") as reader:
        assert len(Ledger(reader).rows()) == 1
