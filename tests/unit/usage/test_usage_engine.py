"""The engine: exact percentiles over segments and live rows, by anybody, at once (design 10)."""

import json
import multiprocessing
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightlab.errors import UsageError
from rightlab.store import Store
from rightlab.testing.ledger import fill_ledger, usage_values
from rightlab.usage import percentile
from rightlab.usage.day_numbers import DAY_US, micros, offsets_of
from rightlab.usage.engine import Engine
from rightlab.usage.grouped import Grouping

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


class At:
    def __init__(self, moment: datetime = NOW) -> None:
        self.moment = moment

    def now(self) -> datetime:
        return self.moment


def rows(n: int = 300, days: int = 40) -> list[dict[str, Any]]:
    random = np.random.default_rng(5)
    found = []
    for place in range(n):
        cost = None if place % 11 == 0 else float(random.lognormal(-4))
        found.append(
            usage_values(
                NOW - timedelta(days=days * (1 - place / n), minutes=5),
                cost,
                source=("interactive", "cron")[place % 2],
                model=("claude-sonnet-5-5", "claude-o'pus", None)[place % 3],
                job_name=("nightly", None)[place % 2],
                wall_elapsed_ms=None if place % 5 == 0 else int(random.integers(1, 10_000)),
            )
        )
    return found


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    fill_ledger(tmp_path / "data.db", rows())
    return tmp_path / "data.db"


def engine(ledger: Path, now: datetime = NOW) -> Engine:
    return Engine(ledger, ledger.parent / "cache", At(now))


def by_hand(ledger: Path, by: tuple[str, ...], tz: str = "UTC") -> dict[tuple[str, ...], list[float]]:
    """The known costs of each group, without the engine."""
    found: dict[tuple[str, ...], list[float]] = {}
    with Store.open(ledger, role="reader") as store:
        for row in store.rows("SELECT * FROM usage_events"):
            day = datetime.fromisoformat(row["ts"]).astimezone(ZoneInfo(tz)).date().isoformat()
            values = {
                "source": row["source"],
                "model": row["model"] or "unknown",
                "day": day,
                "job": row["job_name"] or "–",
            }
            costs = found.setdefault(tuple(values[key] for key in by), [])
            if row["total_cost_usd"] is not None:
                costs.append(row["total_cost_usd"])
    return found


@given(
    st.lists(
        st.tuples(
            st.integers(0, 6), st.one_of(st.floats(0, 1e9), st.just(float("nan")), st.floats(-5, 0, exclude_max=True))
        ),
        min_size=1,
        max_size=200,
    ),
    st.booleans(),
)  # fmt: skip
def test_grouped_percentiles_equal_ours_to_the_last_bit(pairs: list[tuple[int, float]], wide: bool) -> None:
    codes = np.array([code for code, _ in pairs], dtype=np.int64)
    values = np.array([value for _, value in pairs])
    before = values.copy()
    grouping = Grouping.of(codes, 100_000 if wide else 7)
    n, found = grouping.percentiles(values)
    sums = grouping.sums(values)
    np.testing.assert_array_equal(values, before)
    for code in range(7):
        known = [value for group, value in pairs if group == code and value >= 0]
        assert n[code] == len(known)
        for column, q in enumerate((0.5, 0.9, 0.99)):
            if known:
                assert found[code, column] == percentile(known, q)
            else:
                assert np.isnan(found[code, column])
        assert sums[code] == pytest.approx(sum(known)) if known else np.isnan(sums[code])


def test_the_answer_is_that_of_the_rows_one_by_one(ledger: Path) -> None:
    for by, tz in (
        (("source", "model", "day"), "UTC"),
        (("job",), "UTC"),
        (("day", "source"), "Asia/Kolkata"),
        ((), "UTC"),
    ):
        with engine(ledger) as found:
            answer = found.percentiles(by, tz=tz, min_sample=1)
        expected = by_hand(ledger, by, tz)
        assert list(answer.keys) == sorted(expected)
        for record, key in zip(answer.records(), answer.keys, strict=True):
            costs = expected[key]
            assert record["cost_usd_n"] == len(costs)
            assert record["cost_usd_p90"] == (percentile(costs, 0.9) if costs else None)
            assert record["cost_usd"] == (pytest.approx(sum(costs)) if costs else None)


@given(
    st.lists(st.one_of(st.none(), st.floats(0, 1e6)), min_size=1, max_size=60),
    st.sampled_from([0.5, 0.9, 0.99]),
)
def test_the_macro_in_duckdb_is_our_percentile(
    shared: "Engine", values: list[float | None], q: float
) -> None:
    known = [value for value in values if value is not None]
    found = shared.sql("SELECT hazen(?::DOUBLE[], ?)", [values, q]).column(0).to_pylist()[0]
    assert found == (percentile(known, q) if known else None)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("engine")
    fill_ledger(folder / "data.db", rows(5))
    with engine(folder / "data.db") as found:
        yield found


def test_below_the_minimum_there_are_no_percentiles(ledger: Path) -> None:
    with engine(ledger) as found:
        for record in found.percentiles("source,day").records():
            assert record["cost_usd_p50"] is None
        assert found.percentiles("source").to_frame()["cost_usd_p50"].notna().all()


def test_windows_and_sources(ledger: Path) -> None:
    with engine(ledger) as found:
        (one,) = found.percentiles(
            (), since=NOW - timedelta(days=10), until=NOW - timedelta(days=5)
        ).records()
        assert 30 <= one["n"] <= 40
        assert [key for (key,) in found.percentiles("source", sources="cron").keys] == ["cron"]
        assert len(found.percentiles("source", since=NOW + timedelta(days=1))) == 0
        with pytest.raises(UsageError):
            found.percentiles("colour")
        with pytest.raises(UsageError):
            found.percentiles("day", tz="Mars/Base")
        with pytest.raises(UsageError, match="the question"):
            found.sql("SELECT nothing FROM nowhere")


def test_closed_days_are_segments_and_new_rows_are_seen_at_once(ledger: Path) -> None:
    with engine(ledger) as found:
        (before,) = found.percentiles(()).records()
        fill_ledger(ledger, [usage_values(NOW, 1.0)])
        (after,) = found.percentiles(()).records()
        assert after["n"] == before["n"] + 1 == 301
        files = sorted(path.name for path in (ledger.parent / "cache").glob("*.parquet"))
        assert len(files) == 1
    with engine(ledger, NOW + timedelta(days=1)) as found:
        (tomorrow,) = found.percentiles(()).records()
        assert tomorrow["n"] == 301
        (manifest,) = json.loads((ledger.parent / "cache/segments.json").read_text())["segments"]
        assert manifest["rows"] == 301
        assert len(list((ledger.parent / "cache").glob("*.parquet"))) == 1


def test_an_engine_goes_on_when_another_closed_a_day(ledger: Path) -> None:
    with engine(ledger) as old:
        old.percentiles(())
        fill_ledger(ledger, [usage_values(NOW, 1.0)])
        with engine(ledger, NOW + timedelta(days=1)) as new:
            new.percentiles(())
        (record,) = old.percentiles("source", sources="cron").records()
        assert record["n"] == 150


def test_segments_of_another_database_are_thrown_away(ledger: Path, tmp_path: Path) -> None:
    with engine(ledger) as found:
        found.percentiles(())
    other = tmp_path / "other" / "data.db"
    other.parent.mkdir()
    fill_ledger(other, rows(7, days=3))
    with Engine(other, ledger.parent / "cache", At()) as found:
        (record,) = found.percentiles(()).records()
    assert record["n"] == 7


@pytest.mark.parametrize(
    "damage", ["", "{", '{"format": 99, "segments": []}', '{"format": 1, "segments": [{}]}']
)
def test_a_damaged_cache_is_made_again(ledger: Path, damage: str) -> None:
    with engine(ledger) as found:
        found.percentiles(())
    (ledger.parent / "cache/segments.json").write_text(damage)
    with engine(ledger) as found:
        (record,) = found.percentiles(()).records()
    assert record["n"] == 300


def test_without_a_place_for_segments_sqlite_answers_alone(ledger: Path) -> None:
    (ledger.parent / "cache").write_text("a file where the folder would be")
    with engine(ledger) as found:
        (record,) = found.percentiles(()).records()
    assert record["n"] == 300


def test_a_row_of_the_far_future_keeps_no_day_open(ledger: Path) -> None:
    fill_ledger(
        ledger, [usage_values(datetime(2099, 1, 1, tzinfo=UTC)), usage_values(NOW - timedelta(days=1))]
    )
    with engine(ledger) as found:
        assert found.segments.refresh(NOW + timedelta(days=1))[-1].last == 302
        assert ("2099-01-01",) in found.percentiles("day").keys


def test_many_keys_are_text_and_few_are_numbers(ledger: Path) -> None:
    fill_ledger(ledger, [usage_values(NOW, session_uuid=f"s{place:03}") for place in range(100)])
    with engine(ledger) as found:
        assert len(found.percentiles("session")) == 101
        assert [key for (key,) in found.percentiles("chat").keys] == ["42"]


@pytest.mark.parametrize(
    "tz", ["Europe/Berlin", "America/Havana", "Pacific/Apia", "Australia/Lord_Howe", "UTC"]
)
def test_offsets_are_the_zones_own(tz: str) -> None:
    first, last = micros(datetime(2011, 1, 1, tzinfo=UTC)), micros(datetime(2026, 12, 31, tzinfo=UTC))
    offsets = offsets_of(tz, first, last)
    for at in range(first, last, 7 * DAY_US // 24 * 5):
        held = next(offset for end, offset in offsets if at < end)
        moment = datetime.fromtimestamp(at / 1e6, UTC)
        assert held == moment.astimezone(ZoneInfo(tz)).utcoffset() // timedelta(microseconds=1)


def _ask(path: str, times: int, answers: Any) -> None:
    with Engine(Path(path), Path(path).parent / "cache", At(NOW + timedelta(days=2))) as found:
        for _ in range(times):
            (record,) = found.percentiles(()).records()
            answers.put(record["n"])


def test_a_live_bot_and_five_notebooks_at_once(ledger: Path) -> None:
    """No question fails, waits for another or sees half a row, while rows are written all the time."""
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    notebooks = [context.Process(target=_ask, args=(str(ledger), 10, answers)) for _ in range(5)]
    over = threading.Event()
    written = 0

    def bot() -> None:
        nonlocal written
        late = "2026-11-30T13:00:00.000000Z"
        with Store.open(ledger) as store:
            while not over.is_set():
                store.transact(
                    lambda tx: tx.run("INSERT INTO usage_events (ts, source) VALUES (?, 'cron')", late)
                )
                written += 1
                over.wait(0.002)

    thread = threading.Thread(target=bot)
    thread.start()
    try:
        for notebook in notebooks:
            notebook.start()
        seen = [answers.get(timeout=60) for _ in range(50)]
        for notebook in notebooks:
            notebook.join(30)
    finally:
        over.set()
        thread.join()
    assert [notebook.exitcode for notebook in notebooks] == [0] * 5
    assert all(300 <= n <= 300 + written for n in seen)
    assert written > 10
