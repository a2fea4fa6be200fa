"""Days as numbers, for questions over many rows: which offset a zone had when, instead of a call for each row."""

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

from rightlab.html import zone

__all__ = ["DAY_US", "Dates", "date_of", "day_number", "micros", "offsets_of"]

DAY_US = 86_400_000_000
_EPOCH = date(1970, 1, 1)


def micros(moment: datetime) -> int:
    """Microseconds since 1970 of an aware time."""
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


class Dates(Sequence[str]):
    """The dates of ``n`` days from ``first``, made when asked for."""

    def __init__(self, first: int, n: int) -> None:
        self.first = first
        self.n = n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, place: Any) -> Any:
        return date_of(self.first + int(place))


def date_of(number: int) -> str:
    """The date of a day, given as days since 1970."""
    try:
        return (_EPOCH + timedelta(days=number)).isoformat()
    except OverflowError:
        return f"day {number}"


def day_number(at: int, tz: str) -> int:
    """The day in ``tz`` of an instant, as days since 1970, with the offset that :func:`offsets_of` gives it."""
    return (at + offsets_of(tz, at, at)[-1][1]) // DAY_US


def offsets_of(tz: str, first: int, last: int) -> list[tuple[int, int]]:
    """The offsets of ``tz`` in microseconds from ``first`` to ``last``, each with the instant it ends (the last: none).

    Instants are microseconds since 1970; what lies outside 1970 to 2100 has the offset of that end.
    """
    where = zone(tz)
    limit = micros(datetime(2100, 1, 1, tzinfo=UTC))
    first, last = min(max(first, 0), limit), min(max(last, 0), limit)

    def offset(at: int) -> int:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=at)
        found = moment.astimezone(where).utcoffset() or timedelta()
        return found // timedelta(microseconds=1)

    found: list[tuple[int, int]] = []
    held, at = offset(first), first
    while at < last:
        after = min(at + DAY_US, last)
        if (changed := offset(after)) != held:
            low, high = at, after
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if offset(middle) == held else (low, middle)
            found.append((high, held))
            held = changed
        at = after
    return [*found, (limit, held)]
