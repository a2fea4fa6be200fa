"""Numbers and times as people read them (spec views). Everything returns plain text.

What is not known is ``unknown``, never zero (design 10).
"""

import math
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from rightlab.errors import UsageError

__all__ = [
    "UNKNOWN",
    "ago",
    "count",
    "duration",
    "money",
    "percent",
    "plural",
    "size",
    "tokens",
    "when",
    "zone",
]

UNKNOWN = "unknown"

Number = int | float | Decimal


def money(usd: Number | None, *, signed: bool = False) -> str:
    """US dollars with four significant digits: ``$0.01234``, ``$0.0002243``, ``$1.84``; None is ``unknown``.

    Whole dollars are never rounded away (``$12,346``); below $100 at least two decimals are shown.
    """
    amount = _known(usd)
    if amount is None:
        return UNKNOWN
    value = Decimal(str(amount))
    prefix = "-" if value < 0 else "+" if signed and value > 0 else ""
    value = abs(value)
    if not value:
        return "$0"
    digits = f"{value:,.{max(3 - value.adjusted(), 0)}f}"
    if "." in digits:
        digits = digits.rstrip("0").rstrip(".")
    whole, _, part = digits.partition(".")
    if value < 100:
        part = part.ljust(2, "0")
    return f"{prefix}${whole}.{part}" if part else f"{prefix}${whole}"


def tokens(n: Number | None, *, signed: bool = False) -> str:
    """A number of tokens: ``950``, ``12.4k``, ``1.3M``."""
    return _scaled(n, ("", "k", "M", "G"), signed)


def size(n: Number | None) -> str:
    """Bytes, decimal: ``12 B``, ``58.2 kB``."""
    return _scaled(n, (" B", " kB", " MB", " GB", " TB"), False)


def count(n: Number | None) -> str:
    """A number of things: ``12,480``; fractions with four significant digits."""
    value = _known(n)
    if value is None:
        return UNKNOWN
    if value == int(value):
        return f"{int(value):,}"
    real = float(value)
    return f"{real:,.4g}" if abs(real) < 10_000 else f"{real:,.0f}"


def plural(n: int, one: str, many: str | None = None) -> str:
    """``1 turn``, ``12 turns``, ``2 entries`` (with ``many`` given)."""
    return f"{count(n)} {one if n == 1 else many or one + 's'}"


def percent(fraction: Number | None, *, signed: bool = False) -> str:
    """A fraction of one: ``97 %``. What is not all is never shown as 100, what is something never as 0."""
    value = _known(fraction)
    if value is None:
        return UNKNOWN
    share = float(value) * 100
    prefix = "-" if share < 0 else "+" if signed and share > 0 else ""
    share = abs(share)
    if share == 0:
        return "0 %"
    if share < 0.1:
        return f"{prefix}<0.1 %"
    if share < 1 or 99 < share < 100:
        if share >= 99.95:
            return f"{prefix}>99.9 %"
        return f"{prefix}{share:.1f} %"
    return f"{prefix}{share:,.0f} %"


def duration(ms: Number | None) -> str:
    """Milliseconds: ``35 ms``, ``0.9 s``, ``71 s``, ``2 min 5 s``, ``2 h 14 min``, ``3 d 4 h``."""
    value = _known(ms)
    if value is None:
        return UNKNOWN
    prefix = "-" if value < 0 else ""
    millis = abs(float(value))
    if millis < 99.5:
        return f"{prefix}{millis:.0f} ms"
    if millis < 9_950:
        return f"{prefix}{millis / 1000:.1f} s"
    seconds = round(millis / 1000)
    if seconds < 100:
        return f"{prefix}{seconds} s"
    return prefix + _two_units(seconds)


def ago(moment: datetime | None, now: datetime) -> str:
    """How far ``moment`` lies from ``now`` (both aware): ``just now``, ``3 min ago``, ``in 12 min``, ``6 d
    ago``.
    """
    if moment is None:
        return UNKNOWN
    gap = now - moment
    span = _one_unit(abs(gap))
    if span is None:
        return "just now"
    return f"{span} ago" if gap > timedelta(0) else f"in {span}"


def when(moment: datetime | None, tz: str | ZoneInfo = "UTC", *, seconds: bool = False) -> str:
    """An exact time in the reader's zone: ``2026-11-30 09:00 Europe/Berlin (+01:00)``.

    :raises UsageError: for a zone that does not exist, or a ``moment`` without one.
    """
    if moment is None:
        return UNKNOWN
    if moment.tzinfo is None:
        raise UsageError(f"{moment} has no time zone", fix="Pass an aware time.")
    local = moment.astimezone(zone(tz))
    text = local.strftime("%Y-%m-%d %H:%M:%S" if seconds else "%Y-%m-%d %H:%M")
    name = getattr(local.tzinfo, "key", None) or str(local.tzinfo)
    if name == "UTC":
        return f"{text} UTC"
    offset = local.strftime("%z")
    return f"{text} {name} ({offset[:3]}:{offset[3:5]})"


def zone(name: str | ZoneInfo) -> ZoneInfo:
    """The time zone of that IANA name.

    :raises UsageError: when there is none.
    """
    if isinstance(name, ZoneInfo):
        return name
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise UsageError(
            f"there is no time zone {name!r}", fix="Use a name like Europe/Berlin or UTC."
        ) from error


def _known(value: Number | None) -> Number | None:
    return None if value is None or not math.isfinite(value) else value


def _scaled(n: Number | None, units: tuple[str, ...], signed: bool) -> str:
    known = _known(n)
    if known is None:
        return UNKNOWN
    value = float(known)
    prefix = "-" if value < 0 else "+" if signed and value > 0 else ""
    value = abs(value)
    if value < 999.5:
        return f"{prefix}{value:.0f}{units[0]}"
    for unit in units[1:-1]:
        value /= 1000
        if value < 999.95:
            return f"{prefix}{value:.1f}{unit}"
    return f"{prefix}{value / 1000:,.1f}{units[-1]}"


_UNITS = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))


def _two_units(seconds: int) -> str:
    for (big, per_big), (small, per_small) in pairwise(_UNITS):
        if seconds >= per_big:
            rest = seconds % per_big // per_small
            return f"{seconds // per_big:,} {big}" + (f" {rest} {small}" if rest else "")
    return f"{seconds} s"


def _one_unit(gap: timedelta) -> str | None:
    seconds = int(gap.total_seconds())
    if seconds < 10:
        return None
    for name, per in _UNITS:
        if seconds >= per:
            return f"{seconds // per:,} {name}"
    return None
