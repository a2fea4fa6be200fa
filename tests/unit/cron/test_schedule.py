"""Schedules: what is accepted, and which instants a job fires at across every clock change."""

import contextlib
import random
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
import zone_oracle
from hypothesis import given, settings
from hypothesis import strategies as st

from rightlab.cron import explain, next_fires, parse_schedule
from rightlab.errors import ScheduleError, UsageError

ZONES = [
    "America/New_York", "America/St_Johns", "America/Havana", "America/Santiago", "America/Nuuk",
    "Europe/Berlin", "Europe/London", "Europe/Dublin", "Africa/Casablanca", "Africa/Cairo", "Africa/El_Aaiun",
    "Asia/Beirut", "Asia/Gaza", "Asia/Jerusalem", "Asia/Kolkata", "Atlantic/Azores", "Antarctica/Troll",
    "Australia/Lord_Howe", "Pacific/Chatham", "Pacific/Norfolk", "Pacific/Easter", "UTC",
]  # fmt: skip
EXPRESSIONS = [
    "0 0 * * *", "30 0 * * *", "0 2 * * *", "30 2 * * *", "30 1 * * *", "45 1 * * *", "15,45 1-3 * * *",
    "0,30 0,1,2,3 * * 0", "*/5 * * * *", "*/30 * * * *", "0 */2 * * *", "30 * * * *", "7 1-23/2 * * *",
    "*/20 2 * * *", "15 */3 1 * *", "0 * * * 0,6", "59 23 * * *", "0 9 13 * 5", "* 0 * * 7",
    "10/25 0-3 * * *",
]  # fmt: skip


def fires(expr: str, tz: str, start: datetime, n: int) -> list[str]:
    return [fire.isoformat() for fire in next_fires(expr, tz, start, n)]


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)


def changes(zone: str, start: datetime, end: datetime) -> list[datetime]:
    instants, offsets = zone_oracle.transitions(zone)
    real = [int(t) for t, old, new in zip(instants, offsets, offsets[1:], strict=False) if old != new]
    return [datetime.fromtimestamp(t, UTC) for t in real if start.timestamp() < t <= end.timestamp()]


@pytest.mark.parametrize("zone", ZONES)
def test_every_fire_around_every_change_is_the_oracles(zone: str) -> None:
    for change in changes(zone, utc(2025, 1, 1), utc(2028, 1, 1)) or [utc(2026, 7, 1)]:
        start, end = change - timedelta(days=2, minutes=7), change + timedelta(days=3)
        for expr in EXPRESSIONS:
            want = zone_oracle.expected(expr, zone, start, end)
            got = next_fires(expr, zone, start, len(want) + 1)
            assert [int(fire.timestamp()) // 60 for fire in got[: len(want)]] == want, (expr, zone, change)
            assert len(got) > len(want)
            assert got[-1] > end


@settings(max_examples=150, deadline=None)
@given(
    zone=st.sampled_from(ZONES),
    expr=st.sampled_from(EXPRESSIONS),
    seconds=st.integers(-3 * 86_400, 2 * 86_400),
    micros=st.sampled_from([0, 1, 999_999]),
    pick=st.integers(0, 100),
)
def test_answers_are_strictly_after_any_start(
    zone: str, expr: str, seconds: int, micros: int, pick: int
) -> None:
    """Whatever the start, in a gap or in either pass of a fold: later, real, the oracle's first."""
    known = changes(zone, utc(2025, 1, 1), utc(2028, 1, 1)) or [utc(2026, 7, 1)]
    start = known[pick % len(known)] + timedelta(seconds=seconds, microseconds=micros)
    got = next_fires(expr, zone, start, 3)
    assert got[0] > start
    moments = [fire.astimezone(UTC) for fire in got]  # within one zone Python compares wall times
    assert moments == sorted(set(moments))
    for fire in got:
        assert fire.tzinfo == ZoneInfo(zone)
        back = fire.astimezone(UTC).astimezone(ZoneInfo(zone))
        assert (back.isoformat(), back.fold) == (fire.isoformat(), fire.fold)
    want = zone_oracle.expected(expr, zone, start, got[0])
    assert [int(got[0].timestamp()) // 60] == want


def test_asking_one_by_one_equals_asking_at_once() -> None:
    rng = random.Random(11)
    for zone in ("Europe/Berlin", "Australia/Lord_Howe"):
        for expr in rng.sample(EXPRESSIONS, 8):
            start = utc(2026, 10, 23)
            at_once = next_fires(expr, zone, start, 40)
            singly = []
            for _ in range(40):
                start = next_fires(expr, zone, start, 1)[0]
                singly.append(start)
            assert singly == at_once


def test_measured_cases_new_york() -> None:
    """The table of jupyter 4.3."""
    spring, autumn = utc(2026, 3, 8, 4), utc(2026, 11, 1, 4)
    zone = "America/New_York"
    assert fires("30 2 * * *", zone, spring, 2) == ["2026-03-08T03:00:00-04:00", "2026-03-09T02:30:00-04:00"]
    assert fires("30 1 * * *", zone, autumn, 2) == ["2026-11-01T01:30:00-04:00", "2026-11-02T01:30:00-05:00"]
    assert [text[11:] for text in fires("*/30 * * * *", zone, autumn, 6)] == [
        "00:30:00-04:00", "01:00:00-04:00", "01:30:00-04:00", "01:00:00-05:00", "01:30:00-05:00",
        "02:00:00-05:00",
    ]  # fmt: skip
    assert [text[11:16] for text in fires("0 */2 * * *", zone, spring, 4)] == [
        "00:00",
        "04:00",
        "06:00",
        "08:00",
    ]


def test_several_times_in_one_gap_are_one_fire() -> None:
    got = fires("0,20,40 2 * * *", "Europe/Berlin", utc(2026, 3, 28, 23), 4)
    assert [text[5:16] for text in got] == ["03-29T03:00", "03-30T02:00", "03-30T02:20", "03-30T02:40"]
    together = fires("30 2,3 * * *", "Europe/Berlin", utc(2026, 3, 28, 23), 2)
    assert [text[11:16] for text in together] == ["03:00", "03:30"]
    same = fires("0 2,3 * * *", "Europe/Berlin", utc(2026, 3, 28, 23), 2)
    assert [text[5:16] for text in same] == ["03-29T03:00", "03-30T02:00"]


def test_a_day_that_never_was_and_a_midnight_gap() -> None:
    apia = fires("0 9 * * *", "Pacific/Apia", utc(2011, 12, 29, 12), 3)
    assert apia == ["2011-12-29T09:00:00-10:00", "2011-12-31T00:00:00+14:00", "2011-12-31T09:00:00+14:00"]
    beirut = fires("0 0 * * *", "Asia/Beirut", utc(2026, 3, 28, 12), 1)
    assert beirut == ["2026-03-29T01:00:00+03:00"]


def test_pain_H66436_local_hour_is_kept_over_the_change() -> None:
    """The cases measured with croniter in pains 3: an hour off after each change."""
    assert fires("0 9 * * 1-5", "Europe/Berlin", utc(2026, 10, 23, 8), 1) == ["2026-10-26T09:00:00+01:00"]
    assert fires("0 9 * * 1-5", "Europe/Berlin", utc(2027, 3, 26, 9), 1) == ["2027-03-29T09:00:00+02:00"]
    assert fires("0 9 * * *", "America/Toronto", utc(2026, 3, 7, 15), 1) == ["2026-03-08T09:00:00-04:00"]


@pytest.mark.parametrize(
    ("field", "days"),
    [
        ("0", "Sun"), ("7", "Sun"), ("sun", "Sun"), ("1", "Mon"), ("MON", "Mon"),
        ("1-5", "Mon Tue Wed Thu Fri"),
        ("5-7", "Fri Sat Sun"), ("fri-sun", "Fri Sat Sun"), ("sun-tue", "Sun Mon Tue"), ("0,6", "Sat Sun"),
        ("5-0", "Fri Sat Sun"), ("mon,wed-thu", "Mon Wed Thu"), ("*/2", "Tue Thu Sat Sun"),
    ],
)  # fmt: skip
def test_pain_apscheduler286_weekdays_count_from_sunday(field: str, days: str) -> None:
    week = next_fires(f"0 9 * * {field}", "UTC", utc(2026, 6, 1), 7)
    seen = {fire.strftime("%a") for fire in week if fire < utc(2026, 6, 8)}
    assert seen == set(days.split())


@pytest.mark.parametrize(
    ("expr", "first"),
    [
        ("0 0 L * *", "2026-02-28"), ("0 0 LW * *", "2026-02-27"), ("0 0 * * 5L", "2026-02-27"),
        ("0 0 * * FRIL", "2026-02-27"), ("0 0 * * MON#1", "2026-02-02"), ("0 0 * * 7#2", "2026-02-08"),
        ("0 0 29 2 *", "2028-02-29"), ("0 0 13 * 5", "2026-02-06"), ("0 0 */10 * 1", "2026-05-11"),
        ("0 0 1 jan-feb *", "2027-01-01"),
    ],
)  # fmt: skip
def test_days_of_months(expr: str, first: str) -> None:
    assert next_fires(expr, "UTC", utc(2026, 2, 1), 1)[0].date().isoformat() == first


@pytest.mark.parametrize(
    ("alias", "first"),
    [
        ("@hourly", "2026-02-03T05:00"), ("@daily", "2026-02-04T00:00"), ("@midnight", "2026-02-04T00:00"),
        ("@weekly", "2026-02-08T00:00"), ("@monthly", "2026-03-01T00:00"), ("@yearly", "2027-01-01T00:00"),
        ("@Annually", "2027-01-01T00:00"),
    ],
)  # fmt: skip
def test_aliases(alias: str, first: str) -> None:
    assert fires(alias, "UTC", utc(2026, 2, 3, 4, 5), 1)[0].startswith(first)


@pytest.mark.parametrize(
    ("expr", "says"),
    [
        ("0 0 9 * * 1", "6 fields"), ("0 9 * *", "4 fields"), ("", "empty"), ("   ", "empty"),
        ("0 0 9 * * ? 2026", "7 fields"), ("0 9 ? * 1", "Quartz"), ("61 * * * *", "0-59"),
        ("0 24 * * *", "0-23"),
        ("0 0 31 2 *", "never fires"), ("0 0 30 feb *", "never fires"), ("0 0 0 * *", "1-31"),
        ("0 0 * 13 *", "1-12"), ("0 0 * * 8", "0-7"), ("0 0 * * funday", "0-7"), ("5, * * * *", "0-59"),
        ("*/0 * * * *", "0-59"), ("9-5 * * * *", "0-59"), ("-1 * * * *", "0-59"), ("1.5 * * * *", "0-59"),
        ("0 0 * * 1#6", "0-7"), ("@reboot", "@hourly"), ("@every 5m", "@hourly"), ("0 0 15W * *", "1-31"),
        ("٣ * * * *", "0-59"), ("0 9 * * 6-1", "0-7"),
    ],
)  # fmt: skip
def test_refused_in_one_line_that_says_why(expr: str, says: str) -> None:
    with pytest.raises(ScheduleError) as caught:
        parse_schedule(expr)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, UsageError)


def test_zone_and_start_are_checked() -> None:
    with pytest.raises(ScheduleError, match="Did you mean Europe/Berlin"):
        next_fires("0 9 * * *", "europe/berlin", utc(2026, 1, 1), 1)
    with pytest.raises(ScheduleError, match="IANA"):
        next_fires("0 9 * * *", "Mars/Olympus#", utc(2026, 1, 1), 1)
    with pytest.raises(ScheduleError, match="/etc/passwd"):
        next_fires("0 9 * * *", "/etc/passwd", utc(2026, 1, 1), 1)
    with pytest.raises(ScheduleError, match="no time zone"):
        next_fires("0 9 * * *", "UTC", datetime(2026, 1, 1), 1)
    assert next_fires("0 9 * * *", "UTC", utc(2026, 1, 1), 0) == []


def test_explain_says_it_and_shows_the_fires() -> None:
    said = explain("0 9 * * 1-5", "Europe/Berlin", utc(2026, 10, 23, 8), 2)
    assert said == {
        "expr": "0 9 * * 1-5",
        "tz": "Europe/Berlin",
        "sentence": "At 09:00 on Monday through Friday, Europe/Berlin time.",
        "fires": [
            {"utc": "2026-10-26T08:00:00Z", "local": "2026-10-26T09:00:00+01:00", "offset": "+01:00"},
            {"utc": "2026-10-27T08:00:00Z", "local": "2026-10-27T09:00:00+01:00", "offset": "+01:00"},
        ],
    }
    assert explain("*/15 * * * *", "UTC")["sentence"].startswith("Every 15 minutes, UTC time")
    assert "on the 13th day of month or on Friday" in explain("0 0 13 * 5", "UTC")["sentence"]
    assert len(explain("@daily", "America/St_Johns")["fires"]) == 5
    assert explain("0 9 * * *", "America/St_Johns", utc(2026, 1, 1), 1)["fires"][0]["offset"] == "-03:30"


@pytest.mark.parametrize("expr", ["* * * * *", "0 9 * * *", "30 2 29 2 *"])
@pytest.mark.parametrize("tz", ["UTC", "Europe/Berlin", "America/New_York", "Pacific/Kiritimati"])
@pytest.mark.parametrize("start", [datetime(9999, 12, 31, 23, 59, 30), datetime(1, 1, 1)])
def test_the_ends_of_time_are_an_answer_or_a_clear_error(expr: str, tz: str, start: datetime) -> None:
    found = 0
    with contextlib.suppress(ScheduleError):
        found = len(explain(expr, tz, start.replace(tzinfo=UTC))["fires"])
    assert found in ((0, 5) if start.year == 1 else (0,))


def test_no_fire_after_the_last_day() -> None:
    with pytest.raises(ScheduleError, match="years 1 to 9999"):
        next_fires("0 9 * * *", "UTC", datetime(9999, 12, 31, 10, tzinfo=UTC), 1)
