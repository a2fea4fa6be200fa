"""Whole days in a zone, as bounds that can be compared with the ledger's times (spec usage-and-baselines 2)."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from rightlab.clock import iso
from rightlab.errors import UsageError
from rightlab.html import zone

__all__ = ["MAX_DAYS", "Days", "last_days", "since_day", "start_of_day"]

MAX_DAYS = 36_500


def start_of_day(day: date, tz: str) -> datetime:
    """The first instant of ``day`` in ``tz``, in UTC: a day may have 23 or 25 hours, or begin at 01:00."""
    # In a gap the first fold is read with the offset before it: that is the instant of the change itself.
    return datetime(day.year, day.month, day.day, tzinfo=zone(tz)).astimezone(UTC)


@dataclass(frozen=True, slots=True)
class Days:
    """The days ``first`` to ``last``, both whole and both in it, in ``tz``; none when ``last`` is before ``first``."""

    first: date
    last: date
    tz: str

    def __len__(self) -> int:
        return max(0, (self.last - self.first).days + 1)

    @property
    def since(self) -> datetime:
        """Its first instant, in UTC."""
        return start_of_day(self.first, self.tz)

    @property
    def until(self) -> datetime:
        """The first instant after it, in UTC."""
        return start_of_day(self.last + timedelta(days=1), self.tz)

    def days(self) -> list[date]:
        return [self.first + timedelta(days=n) for n in range(len(self))]

    def starts(self) -> list[str]:
        """The first instant of each day as the ledger writes times."""
        return [iso(start_of_day(day, self.tz)) for day in self.days()]

    def day_of(self, ts: str, starts: Sequence[str]) -> date:
        """The day of ``ts``, a time of the ledger inside the window; ``starts`` is :meth:`starts`."""
        return self.first + timedelta(days=bisect_right(starts, ts) - 1)

    def __str__(self) -> str:
        return f"{self.first} to {self.last}" if len(self) != 1 else str(self.first)


def last_days(days: int, tz: str, now: datetime, *, today: bool = False) -> Days:
    """The last ``days`` complete days in ``tz``; with ``today`` today as well, which is not over.

    Raises:
        UsageError: fewer than one day, absurdly many, an unknown zone.
    """
    if not 1 <= days <= MAX_DAYS:
        raise UsageError(f"days is {days}", fix=f"Ask for 1 to {MAX_DAYS} whole days.")
    current = now.astimezone(zone(tz)).date()
    return Days(current - timedelta(days=days), current if today else current - timedelta(days=1), tz)


def since_day(first: date, tz: str, now: datetime) -> Days:
    """``first`` to today, today included. Raises UsageError for an unknown zone."""
    return Days(first, now.astimezone(zone(tz)).date(), tz)
