"""Numbers and times as people read them (spec views)."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightlab.errors import UsageError
from rightlab.html import ago, count, duration, money, percent, plural, size, tokens, when, zone


@pytest.mark.parametrize(
    ("usd", "text"),
    [
        (0.01234, "$0.01234"),
        (0.0002243, "$0.0002243"),
        (0.004, "$0.004"),
        (0.0199996, "$0.02"),
        (1.84, "$1.84"),
        (1.8, "$1.80"),
        (12, "$12.00"),
        (12.3456, "$12.35"),
        (9.9999, "$10.00"),
        (123.456, "$123.5"),
        (100, "$100"),
        (1234.56, "$1,235"),
        (12345.67, "$12,346"),
        (0, "$0"),
        (0.0, "$0"),
        (-0.0123456, "-$0.01235"),
        (1e-9, "$0.000000001"),
        (Decimal("0.000224319"), "$0.0002243"),
        (None, "unknown"),
        (float("nan"), "unknown"),
        (float("inf"), "unknown"),
    ],
)
def test_money(usd: float | None, text: str) -> None:
    assert money(usd) == text


def test_signed_money() -> None:
    assert money(0.019, signed=True) == "+$0.019"
    assert money(-0.019, signed=True) == "-$0.019"
    assert money(0, signed=True) == "$0"


@given(st.floats(1e-9, 1e9))
def test_money_never_says_zero_for_something_and_keeps_four_digits(usd: float) -> None:
    text = money(usd)
    value = float(text.removeprefix("$").replace(",", ""))
    assert value > 0
    assert abs(value - usd) <= max(usd * 0.00051, 0) or usd >= 1000


@pytest.mark.parametrize(
    ("n", "text"),
    [
        (0, "0"),
        (950, "950"),
        (999.4, "999"),
        (999.6, "1.0k"),
        (12_400, "12.4k"),
        (999_940, "999.9k"),
        (999_960, "1.0M"),
        (1_250_000, "1.2M"),
        (3e9, "3.0G"),
        (-1500, "-1.5k"),
        (None, "unknown"),
    ],
)
def test_tokens(n: float | None, text: str) -> None:
    assert tokens(n) == text


def test_tokens_signed() -> None:
    assert tokens(5100, signed=True) == "+5.1k"


@pytest.mark.parametrize(
    ("n", "text"),
    [
        (12, "12 B"),
        (58_200, "58.2 kB"),
        (100_000, "100.0 kB"),
        (10_485_760, "10.5 MB"),
        (2**50, "1,125.9 TB"),
        (None, "unknown"),
    ],
)
def test_size(n: int | None, text: str) -> None:
    assert size(n) == text


@pytest.mark.parametrize(
    ("n", "text"),
    [
        (12_480, "12,480"),
        (3.0, "3"),
        (0.25, "0.25"),
        (1234.567, "1,235"),
        (123456.7, "123,457"),
        (None, "unknown"),
        (float("nan"), "unknown"),
    ],
)
def test_count(n: float | None, text: str) -> None:
    assert count(n) == text


def test_plural() -> None:
    assert [plural(0, "turn"), plural(1, "turn"), plural(1200, "turn"), plural(2, "entry", "entries")] == [
        "0 turns",
        "1 turn",
        "1,200 turns",
        "2 entries",
    ]


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0, "0 %"),
        (1, "100 %"),
        (0.97, "97 %"),
        (0.999, "99.9 %"),
        (0.99999, ">99.9 %"),
        (0.0001, "<0.1 %"),
        (0.005, "0.5 %"),
        (-0.18, "-18 %"),
        (1.5, "150 %"),
        (None, "unknown"),
    ],
)
def test_percent(share: float | None, text: str) -> None:
    assert percent(share) == text


def test_percent_signed() -> None:
    assert percent(0.14, signed=True) == "+14 %"


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0 ms"),
        (35, "35 ms"),
        (99.6, "0.1 s"),
        (900, "0.9 s"),
        (8_100, "8.1 s"),
        (9_960, "10 s"),
        (71_000, "71 s"),
        (125_000, "2 min 5 s"),
        (120_000, "2 min"),
        (8_040_000, "2 h 14 min"),
        (273_600_000, "3 d 4 h"),
        (-900, "-0.9 s"),
        (None, "unknown"),
    ],
)
def test_duration(ms: float | None, text: str) -> None:
    assert duration(ms) == text


NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("gap", "text"),
    [
        (timedelta(seconds=3), "just now"),
        (timedelta(seconds=45), "45 s ago"),
        (timedelta(minutes=3), "3 min ago"),
        (timedelta(minutes=-12), "in 12 min"),
        (timedelta(hours=5, minutes=59), "5 h ago"),
        (timedelta(days=6), "6 d ago"),
    ],
)
def test_ago(gap: timedelta, text: str) -> None:
    assert ago(NOW - gap, NOW) == text


def test_ago_across_zones_and_unknown() -> None:
    assert ago(NOW.astimezone(zone("Asia/Tokyo")) - timedelta(hours=1), NOW) == "1 h ago"
    assert ago(None, NOW) == "unknown"


def test_when_is_exact_in_the_readers_zone() -> None:
    assert when(NOW) == "2026-11-30 12:00 UTC"
    assert when(NOW, "Europe/Berlin") == "2026-11-30 13:00 Europe/Berlin (+01:00)"
    assert (
        when(datetime(2026, 7, 1, tzinfo=UTC), "America/New_York", seconds=True)
        == "2026-06-30 20:00:00 America/New_York (-04:00)"
    )
    assert when(None, "UTC") == "unknown"


def test_both_hours_of_a_fold_can_be_told_apart() -> None:
    first, second = (when(datetime(2026, 10, 25, hour, 30, tzinfo=UTC), "Europe/Berlin") for hour in (0, 1))
    assert (first, second) == (
        "2026-10-25 02:30 Europe/Berlin (+02:00)",
        "2026-10-25 02:30 Europe/Berlin (+01:00)",
    )


@pytest.mark.parametrize("name", ["Mars/Olympus", "", "../etc/passwd", "Europe"])
def test_a_zone_that_does_not_exist_is_one_clear_line(name: str) -> None:
    with pytest.raises(UsageError, match="there is no time zone"):
        zone(name)


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(UsageError, match="has no time zone"):
        when(datetime(2026, 1, 1))
