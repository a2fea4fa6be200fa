"""TURN STATS, ``/usage`` and what stands out (spec agent-runtime 6.4, 6.5, 12.2, 12.3)."""

import re
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from rightlab.errors import UsageError
from rightlab.store import Store
from rightlab.testing.ledger import fill_ledger, usage_values
from rightlab.usage import Ledger, UsageRow
from rightlab.usage.rows import Day
from rightlab.usage.spikes import (
    cache_hit_ratio,
    dearest,
    dearest_sessions,
    predecessors,
    spiky_days,
    spiky_turns,
)
from rightlab.usage.summary_text import usage_text
from rightlab.usage.turn_stats import TurnStats, this_turn, turn_stats

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


class At:
    def now(self) -> datetime:
        return NOW


@pytest.fixture
def stats(tmp_path: Path) -> Any:
    def make(rows: Iterable[dict[str, Any]], **asked: Any) -> TurnStats:
        path = tmp_path / "data.db"
        fill_ledger(path, [*rows, usage_values(NOW - timedelta(days=99))])
        with Store.open(path, role="reader") as store:
            return turn_stats(store, clock=At(), **asked)

    return make


@pytest.fixture
def read(tmp_path: Path) -> Any:
    def make(rows: Iterable[dict[str, Any]]) -> list[UsageRow]:
        path = tmp_path / "data.db"
        fill_ledger(path, rows)
        with Store.open(path, role="reader") as store:
            return Ledger(store, At()).rows()

    return make


def turns(n: int, **values: Any) -> list[dict[str, Any]]:
    return [
        usage_values(
            NOW - timedelta(hours=turn), turn / 1000, num_turns=turn, wall_elapsed_ms=1000 * turn, **values
        )
        for turn in range(1, n + 1)
    ]


def test_turn_stats_exactly_as_the_seed_has_them(stats: Any) -> None:
    assert stats(turns(20)).text() == (
        "TURN STATS (P50/P90/P99 over last 14d foreground turns, n=20)\n"
        "  turns:        10.5 / 18.5 / 20\n"
        "  cost_usd:     0.0105 / 0.0185 / 0.02\n"
        "  elapsed_ms:   10500 / 18500 / 20000"
    )


def test_turn_stats_below_twenty(stats: Any) -> None:
    assert stats([*turns(19), *turns(40, source="cron")]).text() == (
        "TURN STATS: insufficient history (n=19, need 20). Treat this turn as\naverage complexity."
    )


def test_turn_stats_of_the_last_14_days_up_to_now(stats: Any) -> None:
    late, old = usage_values(NOW + timedelta(minutes=1)), usage_values(NOW - timedelta(days=14, seconds=1))
    assert stats([*turns(20), late, old]).n == 20


def test_elapsed_may_be_unavailable_while_the_others_are_there(stats: Any) -> None:
    found = stats([*turns(5), *[{**row, "wall_elapsed_ms": None} for row in turns(15)]]).text()
    assert "  elapsed_ms:   unavailable (n=5, need 20)" in found
    assert "turns:        " in found


def test_tiny_and_huge_numbers_have_no_exponent(stats: Any) -> None:
    rows = [
        usage_values(NOW - timedelta(hours=1), 0.0000123, wall_elapsed_ms=123_456_789_000) for _ in range(20)
    ]
    text = stats(rows).text()
    assert "0.0000123 / 0.0000123 / 0.0000123" in text
    assert "123456789000" in text
    assert this_turn(3, 0.1 + 0.2, None) == "THIS TURN: turns=3, cost_usd=0.3, elapsed_ms=unknown"


def test_what_cannot_be_asked_of_turn_stats(stats: Any) -> None:
    with pytest.raises(UsageError):
        stats([], days=0)


def day(number: int, cost: float | None) -> Day:
    return Day(date(2026, 11, number), 1, cost, 0, 1, 0, 0, 0, 0)


def test_a_day_of_twice_the_median_of_the_others_stands_out() -> None:
    days = [day(1, 1.0), day(2, 1.2), day(3, None), day(4, 0.0), day(5, 0.9), day(6, 2.0)]
    (spike,) = spiky_days(days)
    assert (spike.day, spike.median_usd, spike.times) == (date(2026, 11, 6), 1.0, 2.0)


def test_pain_ceiling_pr299_a_mean_would_hide_the_second_spike() -> None:
    """btsouth/ceiling PR#299: median, not mean; today not in the baseline; a floor; zero gives no verdict."""
    days = [day(number, 1.0) for number in range(1, 8)]
    assert [spike.day.day for spike in spiky_days([*days, day(8, 50.0), day(9, 3.0)])] == [8, 9]
    assert spiky_days([*days, day(8, 50.0)], today=date(2026, 11, 8))[0].median_usd == 1.0
    assert spiky_days([day(1, 0.001), day(2, 0.04)]) == []
    assert spiky_days([day(1, 5.0)]) == []
    assert spiky_days([day(1, 0.0), day(2, 5.0)]) == []


def test_turns_beyond_the_band_and_the_dearest(read: Any) -> None:
    rows = read(
        [
            *(
                usage_values(
                    NOW - timedelta(hours=turn), 0.02, session_uuid=f"s{turn % 3}", turn_id=f"t{turn}"
                )
                for turn in range(60)
            ),
            usage_values(NOW, 0.9, session_uuid="s1", turn_id="dear"),
            usage_values(NOW, None, session_uuid="s9"),
        ]
    )
    (spike,) = spiky_turns(rows)
    assert spike.row is not None
    assert (spike.row.turn_id, spike.cost_usd, spike.median_usd) == ("dear", 0.9, 0.02)
    assert [row.turn_id for row in dearest(rows, 1)] == ["dear"]
    sessions = dearest_sessions(rows, 9)
    assert [(one.session, one.turns, one.unknown) for one in sessions][0::3] == [("s1", 21, 0), ("s9", 1, 1)]
    assert sessions[-1].cost_usd is None
    assert predecessors(rows)["dear"] == "t1"
    assert spiky_turns(rows[:5]) == []


def test_pain_floway_pr428_tokendash_pr15_the_cache_hit_ratio(read: Any) -> None:
    """Menci/Floway PR#428: near 100 % for everything; zhangferry/tokendash PR#15: 3,000 %."""
    (row,) = read([usage_values(NOW)])
    assert cache_hit_ratio([row]) == 4000 / 4400
    assert cache_hit_ratio([]) is None
    (none,) = read([usage_values(NOW, input_tokens=0, cache_creation_tokens=0, cache_read_tokens=0)])[1:]
    assert cache_hit_ratio([none]) is None


def test_the_usage_text_of_a_chat(read: Any) -> None:
    rows = read(
        [
            usage_values(NOW - timedelta(hours=1), 1.5, session_uuid="a", api_key_source="none", web_fetch_requests=2),
            usage_values(NOW - timedelta(hours=2), 0.5, session_uuid="a", api_key_source="ANTHROPIC_API_KEY"),
            usage_values(NOW - timedelta(days=2), 0.004, source="cron", model="claude-<b>-9"),
            usage_values(NOW - timedelta(days=20), None, source="reflection"),
            usage_values(NOW - timedelta(days=90), 0.25, source="learning_curator"),
        ]
    )  # fmt: skip
    text = usage_text(rows, NOW)
    today, week, month, ever = text.split("\n\n")[1:]
    assert today.splitlines() == [
        "<b>Today</b>: $2.00 · 6 turns",
        "Interactive: $2.00 · 1 session",
        "Models: claude-sonnet-5-5 $2.00",
        "Cache hit: 91 %",
        "Web: 0 searches · 2 fetches",
        "Subscription: $1.50 (what the API would cost, no bill) · API: $0.50",
    ]
    assert "Cron: &lt;$0.01 · 1 run" in week
    assert "claude-&lt;b&gt;-9 &lt;$0.01" in week
    assert "Reflection: cost unknown · 1 pass" in month
    assert "+ 1 of unknown cost" in month.splitlines()[0]
    assert "Learning: $0.25 · 1 pass" in ever
    assert "Tokens:" not in text
    detailed = usage_text(rows, NOW, detail=True)
    assert re.search(r"Tokens: 200 new in · 400 out · 600 cache-created · 8(\.0)?k cache-read", detailed)
    assert set(re.findall(r"<(/?\w+)", text)) == {"b", "/b"}


def test_the_usage_text_of_an_empty_ledger() -> None:
    assert usage_text([], NOW).count("nothing") == 4
