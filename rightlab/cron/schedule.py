"""Cron expressions and the instants they mean (spec pains 3, jupyter 4.3).

Five fields, matched by cronsim on wall-clock time; which *instants* those wall times are is decided here:

* A job with no ``*`` and no ``/`` in its minute and hour fields has fixed times. Each due wall time fires
  once: in a gap at the first valid instant (several that fall together are one fire), in a fold on the first
  pass.
* Any other job fires at every real minute whose wall time matches, both passes of a fold included.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo

from rightlab.errors import ScheduleError

__all__ = ["ALIASES", "Schedule", "explain", "next_fires", "parse_schedule", "zone"]

ALIASES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}

_FIELDS = ("minute", "hour", "day of month", "month", "weekday")
_ALLOWED = (
    "0-59",
    "0-23",
    "1-31, L (last day), LW (last working day)",
    "1-12 or JAN-DEC",
    "0-7 (0 and 7 are Sunday) or SUN-SAT, 5L (last Friday), MON#1 (first Monday)",
)
_DAYS = {name: number for number, name in enumerate(("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"))}
_STEP = timedelta(days=1)  # no zone has two clock changes within six days (checked over tzdata)
_SECOND = timedelta(seconds=1)
_EPOCH = datetime(2024, 1, 1)


@dataclass(frozen=True)
class Schedule:
    """A checked expression.

    ``text`` is what was written, ``expr`` the five fields cronsim is given (aliases and names resolved),
    ``fixed`` whether it has fixed times (module docstring).
    """

    text: str
    expr: str
    fixed: bool

    def fires(self, tz: str | tzinfo, start: datetime) -> Iterator[datetime]:
        """Every fire strictly after ``start`` (aware), in order, as aware datetimes in ``tz``; lazy.

        Raises :class:`ScheduleError` where the walk leaves the years that a date can have (1 to 9999).
        """
        where = zone(tz)
        if start.tzinfo is None:
            raise ScheduleError("the start has no time zone", fix="Give an aware datetime.")
        return self._walk(where, start)

    def _walk(self, where: tzinfo, start: datetime) -> Iterator[datetime]:
        try:
            for moment in self._fixed(where, start) if self.fixed else self._real(where, start):
                fire = moment.astimezone(where)
                yield fire
        except (OverflowError, ValueError):
            raise ScheduleError(
                f"the fires after {start.isoformat()} leave the years 1 to 9999", fix="Choose a nearer start."
            ) from None

    def _walls(self, after: datetime) -> Iterator[datetime]:
        """Matching wall times strictly after ``after`` (both naive)."""
        from cronsim import CronSim

        return iter(CronSim(self.expr, after))

    def _fixed(self, where: tzinfo, start: datetime) -> Iterator[datetime]:
        last = start.astimezone(UTC)
        for wall in self._walls(last.astimezone(where).replace(tzinfo=None)):
            moment = _instant(wall, where)
            if moment > last:
                yield moment
                last = moment

    def _real(self, where: tzinfo, start: datetime) -> Iterator[datetime]:
        # Between two clock changes wall time is UTC plus a constant, so each stretch is walked on its own.
        moment = start.astimezone(UTC)
        passed, offset = moment, _offset(where, moment)  # ``passed``: clock changes up to here are behind us
        while True:
            change = None
            for wall in self._walls((moment + offset).replace(tzinfo=None)):
                fire = wall.replace(tzinfo=UTC) - offset
                change = _next_change(where, passed, fire)
                if change is not None:
                    break
                yield fire
                passed = fire
            if change is None:
                return
            # The change itself may be a match, so the walk resumes one second before it, with the new offset.
            moment, passed, offset = change - _SECOND, change, _offset(where, change)


def _offset(where: tzinfo, moment: datetime) -> timedelta:
    return moment.astimezone(where).utcoffset() or timedelta(0)


def _instant(wall: datetime, where: tzinfo) -> datetime:
    """The one instant (UTC) at which a fixed wall time is due."""
    first = wall.replace(tzinfo=where, fold=0).utcoffset() or timedelta(0)
    second = wall.replace(tzinfo=where, fold=1).utcoffset() or timedelta(0)
    aware = wall.replace(tzinfo=UTC)
    if first >= second:  # an ordinary time, or a fold: the first pass
        return aware - first
    # A gap: ``first`` is the offset before it. The change lies between the two readings.
    return _change_between(where, aware - second, aware - first)


def _change_between(where: tzinfo, low: datetime, high: datetime) -> datetime:
    """The first second after ``low`` whose offset is not that of ``low``, given that ``high``'s is not."""
    before = _offset(where, low)
    while high - low > _SECOND:
        middle = low + timedelta(seconds=int((high - low).total_seconds()) // 2)
        if _offset(where, middle) == before:
            low = middle
        else:
            high = middle
    return high.replace(microsecond=0)


@lru_cache(maxsize=4096)
def _changes(where: tzinfo, year: int) -> tuple[datetime, ...]:
    """The clock changes of one UTC year."""
    found = []
    low = datetime(year, 1, 1, tzinfo=UTC)
    end = datetime(year + 1, 1, 1, tzinfo=UTC)
    before = _offset(where, low - _SECOND)
    if _offset(where, low) != before:
        found.append(low)
        before = _offset(where, low)
    while low < end:
        high = min(low + _STEP, end - _SECOND)
        if _offset(where, high) != before:
            found.append(_change_between(where, low, high))
            before = _offset(where, high)
        low = low + _STEP
    return tuple(found)


def _next_change(where: tzinfo, after: datetime, until: datetime) -> datetime | None:
    """The first clock change in ``(after, until]``."""
    for year in range(after.year, until.year + 1):
        changes = _changes(where, year)
        index = bisect_right(changes, after)
        if index < len(changes):
            return changes[index] if changes[index] <= until else None
    return None


def zone(tz: str | tzinfo) -> tzinfo:
    """``tz`` as a tzinfo; a name must be one of the IANA database. Raises :class:`ScheduleError`."""
    if isinstance(tz, tzinfo):
        return tz
    try:
        return ZoneInfo(tz)
    except (KeyError, ValueError, OSError):
        near = _near_zone(tz)
        fix = f"Did you mean {near}?" if near else "Use an IANA name such as Europe/Berlin or UTC."
        raise ScheduleError(f"unknown time zone {tz!r}", fix=fix) from None


def _near_zone(tz: str) -> str | None:
    from difflib import get_close_matches
    from zoneinfo import available_timezones

    names = {name.lower(): name for name in available_timezones()}
    tails = {name.rsplit("/", 1)[-1].lower(): name for name in sorted(available_timezones(), reverse=True)}
    key = tz.strip().lower().replace(" ", "_")
    exact = names.get(key) or tails.get(key)
    if exact:
        return exact
    close = get_close_matches(key, list(names) + list(tails), n=1)
    return (names.get(close[0]) or tails.get(close[0])) if close else None


@lru_cache(maxsize=20_000)
def parse_schedule(expr: str, tz: str | tzinfo | None = None) -> Schedule:
    """Check a cron expression; with ``tz`` the zone too.

    Five fields (minute, hour, day of month, month, weekday) with lists, ranges, steps, month and day names,
    ``L``, ``LW``, ``5L`` and ``MON#1``; or one of :data:`ALIASES`. Day of month and weekday are either-or
    when both are restricted and neither starts with ``*`` (as Debian's cron). Raises :class:`ScheduleError`
    for anything else, and for an expression that can never fire.
    """
    from cronsim import CronSim, CronSimError

    text = " ".join(expr.split())
    if not text:
        raise ScheduleError("the schedule is empty", fix="Write five fields, for example '17 9 * * 1-5'.")
    if text.startswith("@"):
        if text.lower() not in ALIASES:
            raise ScheduleError(f"unknown alias {text!r}", fix=f"Known aliases: {', '.join(ALIASES)}.")
        plain = ALIASES[text.lower()]
    else:
        plain = text
    parts = plain.upper().split()
    if len(parts) != 5:
        hint = "Seconds and years are not supported. " if len(parts) in (6, 7) else ""
        raise ScheduleError(
            f"{text!r} has {len(parts)} field{'s' if len(parts) != 1 else ''}, a schedule has 5",
            fix=f"{hint}Write minute, hour, day of month, month, weekday.",
        )
    if "?" in plain:
        raise ScheduleError(f"'?' in {text!r} is Quartz notation", fix="Write * instead.")
    parts[4] = ",".join(_weekday(term) for term in parts[4].split(","))
    for index in range(5):
        _check_field(index, parts, text)
    joined = " ".join(parts)
    try:
        next(CronSim(joined, _EPOCH))
    except (StopIteration, CronSimError):
        raise ScheduleError(f"{text!r} never fires", fix="Change its day or month.") from None
    if tz is not None:
        zone(tz)
    fixed = not any(mark in field for field in parts[:2] for mark in "*/")
    return Schedule(text, joined, fixed)


def _weekday(term: str) -> str:
    """Names as numbers; a range that ends in Sunday ends in 7 (FRI-SUN is 5-7); MONL is 1L."""
    body, slash, step = term.partition("/")
    body = re.sub(r"^([A-Z]{3})(L|#\w+)?$", lambda m: _day(m[1]) + (m[2] or ""), body)
    ends = re.fullmatch(r"([A-Z]{3}|\d)-([A-Z]{3}|\d)", body)
    if ends:
        low, high = _day(ends[1]), _day(ends[2])
        body = f"{low}-{'7' if high == '0' and low != '0' else high}"
    return body + slash + step


def _day(name: str) -> str:
    return str(_DAYS[name]) if name in _DAYS else name


def _check_field(index: int, parts: list[str], text: str) -> None:
    from cronsim import CronSim, CronSimError

    alone = ["*"] * 5
    for term in parts[index].split(","):
        alone[index] = term
        try:
            CronSim(" ".join(alone), _EPOCH)
        except (CronSimError, ValueError, AssertionError):
            raise ScheduleError(
                f"{term!r} is no {_FIELDS[index]} in {text!r}", fix=f"Allowed: {_ALLOWED[index]}."
            ) from None


def next_fires(expr: str | Schedule, tz: str | tzinfo, start: datetime, n: int) -> list[datetime]:
    """The next ``n`` fires of ``expr`` in zone ``tz``, strictly after ``start`` (aware).

    Aware datetimes in ``tz``; each is an instant that exists (contract). Raises :class:`ScheduleError`.
    """
    schedule = expr if isinstance(expr, Schedule) else parse_schedule(expr)
    return list(islice(schedule.fires(tz, start), max(n, 0)))


def explain(expr: str, tz: str | tzinfo, start: datetime | None = None, n: int = 5) -> dict[str, Any]:
    """What ``expr`` means: ``{"expr", "tz", "sentence", "fires": [{"utc", "local", "offset"}]}`` (contract).

    ``utc`` and ``local`` are ISO 8601, ``offset`` is ``+HH:MM``. ``start`` defaults to now.
    """
    schedule = parse_schedule(expr)
    where = zone(tz)
    fires = next_fires(schedule, where, start or datetime.now(UTC), n)
    name = getattr(where, "key", None) or str(tz)
    return {
        "expr": expr,
        "tz": name,
        "sentence": _sentence(schedule, name),
        "fires": [
            {
                "utc": fire.astimezone(UTC).isoformat().replace("+00:00", "Z"),
                "local": fire.isoformat(),
                "offset": fire.isoformat()[19:],
            }
            for fire in fires
        ],
    }


def _sentence(schedule: Schedule, name: str) -> str:
    from cronsim import CronSim

    minute, hour, day, month, weekday = schedule.expr.split()
    every = re.fullmatch(r"\*/(\d+)", minute)
    if every and (hour, day, month, weekday) == ("*", "*", "*", "*") and 60 % int(every[1]) == 0:
        said = f"Every {every[1]} minutes"
    else:
        said = CronSim(schedule.expr, _EPOCH).explain()
    if not day.startswith("*") and not weekday.startswith("*"):
        said = re.sub(r" and on (?=\D*day)", " or on ", said)
    if schedule.fixed:
        return f"{said}, {name} time."
    return f"{said}, {name} time, through clock changes."
