"""Baselines: whole days, honest percentiles, a verdict that may be none (spec usage-and-baselines 2)."""

import json
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightlab.clock import iso
from rightlab.errors import RunError, UsageError
from rightlab.store import Store
from rightlab.testing.ledger import fill_ledger, usage_values
from rightlab.usage import Baseline, baseline_of, compare, percentile
from rightlab.usage.intervals import change_of, percentile_interval
from rightlab.usage.saved import POINTS, load
from rightlab.usage.windows import Days, last_days, start_of_day

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


class At:
    def __init__(self, moment: datetime = NOW) -> None:
        self.moment = moment

    def now(self) -> datetime:
        return self.moment


Make = Callable[..., Baseline]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """A baseline of a ledger with these rows."""
    number = iter(range(1000))

    def build(rows: Iterable[dict[str, Any]], **asked: Any) -> Baseline:
        path = tmp_path / f"{next(number)}" / "data.db"
        path.parent.mkdir()
        fill_ledger(path, [*rows, usage_values(NOW - timedelta(days=400), 9.0)])
        now = asked.pop("now", NOW)
        with Store.open(path, role="reader") as store:
            return baseline_of(store, clock=At(now), **asked)

    return build


def spread(costs: Iterable[float | None], days: int = 7, **values: Any) -> list[dict[str, Any]]:
    """One turn after the other over the ``days`` before today."""
    return [
        usage_values(NOW - timedelta(days=1 + place % days, minutes=place), cost, **values)
        for place, cost in enumerate(costs)
    ]


def steady(cost: float, n: int = 40) -> list[float]:
    return [cost * (0.8 + 0.4 * place / (n - 1)) for place in range(n)]


def test_percentiles_are_hazen_with_n_and_method(make: Make) -> None:
    found = make(spread([float(cost) for cost in range(1, 21)]))
    assert found.cost_usd is not None
    assert (found.n, found.cost_usd.n, found.method) == (20, 20, "hazen")
    assert (found.cost_usd.p50, found.cost_usd.p90, found.cost_usd.p99) == (10.5, 18.5, 20.0)
    assert found.num_turns is not None
    assert found.num_turns.p50 == 3
    assert found.why_not is None


def test_below_the_minimum_there_are_no_percentiles(make: Make) -> None:
    found = make(spread(steady(0.01, 19)))
    assert (found.n, found.cost_usd, found.num_turns, found.elapsed_ms) == (19, None, None, None)
    assert found.why_not == "19 of the 20 invocations it takes"
    assert "No baseline yet" in found.text()


def test_pain_hermit_pr821_two_busy_days_are_no_baseline(make: Make) -> None:
    """gtapps/claude-code-hermit PR#821: a window of one or two days, whose median was its maximum."""
    assert make(spread(steady(0.01, 60), days=2)).cost_usd is None
    assert make(spread(steady(0.01, 60), days=2)).why_not == "2 of the 3 earlier days it takes"
    assert make(spread(steady(0.01, 60), days=3)).cost_usd is not None


def test_pain_ceiling_pr299_today_is_never_in_its_own_baseline(make: Make) -> None:
    """btsouth/ceiling PR#299: the day that is judged was part of what it was judged by."""
    quiet = spread(steady(0.01))
    today = [usage_values(NOW - timedelta(minutes=place), 5.0) for place in range(100)]
    assert make([*quiet, *today]).values["cost_usd"] == make(quiet).values["cost_usd"]
    assert make([*quiet, *today]).window == Days(date(2026, 11, 16), date(2026, 11, 29), "UTC")


def test_clock_skew_rows_of_the_future_are_in_no_baseline(make: Make) -> None:
    assert make([*spread(steady(0.01)), usage_values(NOW + timedelta(days=3), 99.0)]).n == 40


def test_elapsed_and_unknown_costs_have_an_n_of_their_own(make: Make) -> None:
    rows = spread(steady(0.01, 40))
    for row in rows[:25]:
        row["wall_elapsed_ms"] = None
    rows[0]["total_cost_usd"] = None
    found = make(rows)
    assert found.cost_usd is not None
    assert (found.n, found.cost_usd.n, found.elapsed_ms, found.unknown_costs) == (40, 39, None, 1)
    assert found.counts["elapsed_ms"] == 15
    assert "unknown" in found.text()


@pytest.mark.parametrize("absurd", [-1.0, float("inf"), float("-inf")])
def test_absurd_costs_are_unknown_not_numbers(make: Make, absurd: float) -> None:
    found = make(spread([*steady(0.01), absurd]))
    assert found.unknown_costs == 1
    assert found.values["cost_usd"][0] > 0


@given(st.lists(st.floats(0, 1e6), min_size=20, max_size=120))
def test_pain_wazuh_38977_no_percentile_leaves_min_and_max(values: list[float]) -> None:
    """wazuh/wazuh#38977: a P99 above the maximum."""
    ordered = sorted(values)
    for q in (0.5, 0.9, 0.99):
        assert ordered[0] <= percentile(ordered, q) <= ordered[-1]
        interval = percentile_interval(ordered, q)
        assert interval.low is None or ordered[0] <= interval.low <= percentile(ordered, q)
        assert interval.high is None or percentile(ordered, q) <= interval.high <= ordered[-1]


def test_pain_perf_tests_527_a_p99_of_few_values_is_shown_with_its_interval(make: Make) -> None:
    """kubernetes/perf-tests#527: with six samples P90 = P99 = max, and people read it as a tail."""
    few, many = make(spread(steady(0.05, 60))), make(spread(steady(0.05, 150)))
    assert "P99 [95 % interval]" in few.text()
    assert "open]" in few.text()
    assert "[" not in many.text()


def test_pain_roboblog_pr239_a_p90_of_six_values_is_not_given(make: Make) -> None:
    """Maciek-roboblog/Claude-Code-Usage-Monitor PR#239, #150: a P90 plan from a handful of blocks."""
    assert make(spread(steady(1.0, 6))).cost_usd is None


def test_the_order_statistic_interval_holds_as_often_as_it_says() -> None:
    import numpy as np

    random = np.random.default_rng(7)
    inside = 0
    for _ in range(400):
        interval = percentile_interval(sorted(random.exponential(size=40)), 0.5)
        assert interval.low is not None
        assert interval.high is not None
        inside += interval.low <= np.log(2) <= interval.high
    assert inside >= 0.93 * 400


@pytest.mark.parametrize(
    ("tz", "day", "hours"),
    [
        ("Europe/Berlin", date(2026, 3, 29), 23),
        ("Europe/Berlin", date(2026, 10, 25), 25),
        ("America/New_York", date(2026, 3, 8), 23),
        ("America/Sao_Paulo", date(2018, 11, 4), 23),
        ("Australia/Lord_Howe", date(2026, 4, 5), 24.5),
        ("UTC", date(2026, 3, 29), 24),
    ],
)
def test_days_are_as_long_as_they_are(tz: str, day: date, hours: float) -> None:
    one = Days(day, day, tz)
    assert (one.until - one.since) == timedelta(hours=hours)
    assert one.since.astimezone(ZoneInfo(tz)).date() == day
    assert (one.since - timedelta(seconds=1)).astimezone(ZoneInfo(tz)).date() == day - timedelta(days=1)


def test_a_row_belongs_to_its_day_in_the_asked_zone(make: Make) -> None:
    """The last minute of a day of 25 hours is still of that day."""
    now = datetime(2026, 10, 27, 12, 0, tzinfo=UTC)
    ends = [datetime(2026, 10, 25, 22, 59, tzinfo=UTC), datetime(2026, 10, 25, 23, 0, tzinfo=UTC)]
    rows = [usage_values(at) for at in ends]
    found = make(rows, by="day", tz="Europe/Berlin", now=now)
    assert [key for key, part in found.groups.items() if part.n] == [("2026-10-25",), ("2026-10-26",)]
    assert [key for key in make(rows, by="day", now=now).groups] == [("2026-10-25",)]


@given(st.datetimes(datetime(2024, 1, 1), datetime(2027, 12, 31)), st.sampled_from(["Europe/Berlin", "Asia/Tehran",
       "America/Havana", "Pacific/Apia", "Africa/Casablanca", "UTC"]))  # fmt: skip
def test_the_day_of_a_time_is_the_zones_own(moment: datetime, tz: str) -> None:
    at = moment.replace(tzinfo=UTC)
    day = at.astimezone(ZoneInfo(tz)).date()
    window = Days(day - timedelta(days=2), day + timedelta(days=2), tz)
    assert window.day_of(iso(at), window.starts()) == day
    assert start_of_day(day, tz) <= at


def test_split_by_everything(make: Make) -> None:
    rows = [
        *spread(steady(0.01), skills_json='["rightx-a","rightx-b"]'),
        *spread(steady(0.5), source="cron", job_name="nightly", model="claude-opus-5-5", skills_json=None),
    ]
    found = make(rows, source=None, by=("source", "model"))
    assert list(found.groups) == [("cron", "claude-opus-5-5"), ("interactive", "claude-sonnet-5-5")]
    assert [part.n for part in found.groups.values()] == [40, 40]
    assert found.to_frame().shape[0] == 2
    assert set(make(rows, source=None, by="skill").groups) == {("rightx-a",), ("rightx-b",), ("–",)}
    assert set(make(rows, source=None, by="job").groups) == {("nightly",), ("–",)}
    assert set(make(rows, by="prompt").groups) == {("abababababab",)}
    assert set(make(rows, by="chat").groups) == {("42",)}
    assert make(rows, by="day").groups[("2026-11-29",)].n == 6
    for only in (
        {"model": "claude-opus-5-5"},
        {"job": "nightly"},
        {"skill": "rightx-b"},
        {"chat": 42, "source": "cron"},
    ):
        assert make(rows, **{"source": None, **only}).n == 40, only
    assert make(rows, source=None, prompt="abab").n == 80
    assert make(rows, source=None, prompt="cd").n == 0


@pytest.mark.parametrize(
    "asked", [{"days": 0}, {"source": "everyone"}, {"by": "colour"}, {"by": ""}, {"tz": "Mars/Base"}]
)
def test_what_cannot_be_asked_is_said(make: Make, asked: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        make([], **asked)


def test_a_saved_baseline_is_small_and_reads_back(make: Make, tmp_path: Path) -> None:
    found = make(spread(steady(0.02, 1_000)))
    path = found.save("main", tmp_path / "baselines")
    text = path.read_text()
    assert path.name == "main.json"
    assert len(text) < 12_000
    assert len(text.splitlines()) < 90
    data = json.loads(text)
    assert data["n"] == 1_000
    assert data["method"] == "hazen"
    assert data["models"] == {"claude-sonnet-5-5": 1_000}
    assert data["prompts"] == {"ab" * 32: 1_000}
    assert data["price_versions"] == ["2026-11-30"]
    assert data["window"] == {"days": 14, "first": "2026-11-16", "last": "2026-11-29", "zone": "UTC"}
    assert len(data["cost_usd"]["values"]) == POINTS
    again = load(path)
    assert again.cost_usd == found.cost_usd
    assert (again.n, again.window, again.filters, again.name) == (1_000, found.window, found.filters, "main")
    assert found.save("main", tmp_path / "baselines").read_text() == text


def test_pain_agentic_dev_team_212_a_gate_without_a_real_baseline_is_refused(
    make: Make, tmp_path: Path
) -> None:
    with pytest.raises(RunError, match="nothing to save"):
        make(spread(steady(0.01, 5))).save("main", tmp_path)
    assert list(tmp_path.glob("*.json")) == []


@pytest.mark.parametrize(
    "damage",
    [
        "",
        "{",
        "[]",
        "null",
        '{"format": "other"}',
        '{"format": "rightlab-baseline-1"}',
        '{"format": "rightlab-baseline-1", "method": "linear"}',
    ],
)
def test_a_damaged_file_is_one_clear_line(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "main.json"
    path.write_text(damage)
    with pytest.raises(UsageError, match="no saved baseline"):
        load(path)


def test_a_missing_baseline_names_those_that_are_there(make: Make, tmp_path: Path) -> None:
    make(spread(steady(0.01))).save("weekly", tmp_path)
    with pytest.raises(UsageError, match="weekly"):
        load(tmp_path / "main.json")
    with pytest.raises(UsageError, match="cannot name"):
        make(spread(steady(0.01))).save("../x", tmp_path)


def test_dearer_cheaper_and_cannot_tell(make: Make) -> None:
    before = make(spread(steady(0.10)))
    dearer, cheaper = make(spread(steady(0.15))), make(spread(steady(0.05)))
    same = make(spread(steady(0.101)))
    verdict = compare(before, dearer)
    assert verdict.outcome == "dearer"
    assert verdict.change is not None
    assert verdict.change.share == pytest.approx(0.5, abs=0.01)
    assert 0 < verdict.change.low < verdict.change.share < verdict.change.high
    assert compare(before, cheaper).outcome == "cheaper"
    assert compare(before, same).outcome == "cannot tell"
    assert "may be chance" in compare(before, same).reason
    assert compare(before, dearer, tolerance=2.0).outcome == "cannot tell"
    assert compare(before, dearer).to_json() == verdict.to_json()
    assert verdict.to_json()["changes"]["num_turns"]["share"] == 0
    assert "+50 %" in verdict.text()


def test_a_zero_baseline_and_small_money_give_no_verdict(make: Make) -> None:
    zero = make(spread([0.0] * 40))
    assert compare(zero, make(spread(steady(1.0)))).outcome == "cannot tell"
    assert "zero" in compare(zero, make(spread(steady(1.0)))).reason
    cents = compare(make(spread(steady(0.0001))), make(spread(steady(0.0002))))
    assert (cents.outcome, "in all" in cents.reason) == ("cannot tell", True)
    few = compare(make(spread(steady(0.1))), make(spread(steady(0.2, 10))))
    assert few.outcome == "cannot tell"
    assert "it takes 20" in few.reason
    assert compare(make([]), make(spread(steady(0.2)))).outcome == "cannot tell"


def test_assert_within_fails_a_cron_notebook_that_became_dearer(make: Make, tmp_path: Path) -> None:
    path = make(spread(steady(0.10))).save("main", tmp_path)
    with pytest.raises(RunError, match="Dearer than baseline"):
        make(spread(steady(0.20))).assert_within(path)
    assert make(spread(steady(0.05))).assert_within(path).outcome == "cheaper"
    assert make(spread(steady(0.10))).assert_within(load(path)).outcome == "cannot tell"
    with pytest.raises(RunError, match="Cannot tell"):
        make(spread(steady(0.10))).assert_within(path, strict=True)
    with pytest.raises(UsageError, match="where"):
        make(spread(steady(0.10))).assert_within("main")


def test_a_verdict_from_quantiles_is_that_from_all_values(make: Make, tmp_path: Path) -> None:
    before, after = make(spread(steady(0.10, 1_000))), make(spread(steady(0.11, 900)))
    whole, saved = compare(before, after), compare(load(before.save("main", tmp_path)), after)
    assert whole.outcome == saved.outcome == "dearer"
    assert whole.change is not None
    assert saved.change is not None
    assert saved.change.share == pytest.approx(whole.change.share, abs=0.005)
    assert saved.change.low == pytest.approx(whole.change.low, abs=0.01)


def test_what_else_changed_is_noted(make: Make) -> None:
    before = make(spread(steady(0.10)))
    after = make(spread(steady(0.30), model="claude-opus-5-5", price_version="2027-01-01"))
    notes = " ".join(compare(before, after).notes)
    assert "another model" in notes
    assert "prices 2026-11-30 before, 2027-01-01 now" in notes


def test_the_bootstrap_interval_is_that_of_resampled_medians() -> None:
    import numpy as np

    random = np.random.default_rng(3)
    before, after = sorted(random.lognormal(size=80)), sorted(random.lognormal(0.2, size=60))
    found = change_of(before, after, 0.5)
    assert found is not None
    medians = [
        np.median(random.choice(after, 60)) / np.median(random.choice(before, 80)) - 1 for _ in range(4_000)
    ]
    assert found.low == pytest.approx(np.quantile(medians, 0.025), abs=0.06)
    assert found.high == pytest.approx(np.quantile(medians, 0.975), abs=0.1)
    assert change_of(before, after, 0.5) == found


def test_a_baseline_that_is_nearly_zero_gives_valid_json(make: Make) -> None:
    before = make(spread([*([0.0] * 19), *steady(0.1, 21)]))
    verdict = compare(before, make(spread(steady(0.5))))
    found = json.loads(json.dumps(verdict.to_json(), allow_nan=False))
    assert found["change"]["high"] is None
    assert "open]" in str(verdict.change)


def test_false_alarms_stay_rare() -> None:
    import numpy as np

    random = np.random.default_rng(11)
    alarms = 0
    for _ in range(200):
        found = change_of(sorted(random.lognormal(size=60)), sorted(random.lognormal(size=60)), 0.5)
        assert found is not None
        alarms += found.low > 0 or found.high < 0
    assert alarms <= 0.09 * 200


def test_last_days_is_whole_days_up_to_yesterday() -> None:
    late = datetime(2026, 11, 30, 23, 30, tzinfo=UTC)
    assert last_days(3, "Europe/Berlin", late).last == date(2026, 11, 30)
    assert last_days(3, "UTC", late).last == date(2026, 11, 29)
    assert len(last_days(3, "UTC", late, today=True)) == 4
