"""Text that changes by itself: clocks, dates, identifiers, counters. Shared by the linter and by causes."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["KINDS", "Hit", "cause_of", "find_volatile", "mask"]

_MONTH = (
    r"(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sep(?:t(?:ember)?)?"
    r"|Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?)"
)
_TIME = r"(?:[01]?\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:[.,]\d+)?)?"

_PATTERNS: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "uuid",
        re.compile(r"\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b"),
    ),
    (
        "clock",
        re.compile(
            rf"\b\d{{4}}-\d\d-\d\d[T ]{_TIME}(?:\s?(?:Z|UTC|[+-]\d\d:?\d\d))?"
            rf"|(?<![\d:.]){_TIME}(?:\s?(?:[AaPp]\.?[Mm]\b\.?|Z\b|UTC\b|[+-]\d\d:?\d\d))?(?![\d:])"
            r"|(?<![\w.])1[5-9]\d{8}(?:\d{3})?(?:\.\d+)?(?![\w.])"
        ),
    ),
    (
        "date",
        re.compile(
            r"(?<![\w-])\d{4}[-/.]\d{1,2}[-/.]\d{1,2}(?![\w-])|(?<![\w.])\d{1,2}[./]\d{1,2}[./]\d{4}(?!\w)"
            rf"|\b\d{{1,2}}(?:st|nd|rd|th)?\.? {_MONTH}\.?,? \d{{4}}\b"
            rf"|\b{_MONTH}\.? \d{{1,2}}(?:st|nd|rd|th)?,? \d{{4}}\b"
            r"|\b(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day\b"
        ),
    ),
    ("identifier", re.compile(r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{12,64}\b")),
    ("counter", re.compile(r"(?<![\w.])[-+]?\d[\d,]*(?:\.\d+)?(?![\w])")),
)

KINDS = tuple(kind for kind, _ in _PATTERNS)

_COUNTED = re.compile(
    r"(?i)\b(?:turn|message|request|step|attempt|run|session|iteration|uptime|tokens?|count|counter|number|seq(?:uence)?)"
    r"(?:\s+(?:no\.?|number|so far|used|left|count))?\s*[:#=]?\s*#?(?P<n>\d[\d,]*)"
)
_NOW = re.compile(
    r"(?i)\b(?:now|today|todays|current(?:ly)?|date|time|clock|as of|updated|generated|timestamp|started|since|utc)\b"
)


@dataclass(frozen=True)
class Hit:
    """Something volatile: ``kind`` of :data:`KINDS`, offset in characters, the text, and why it counts."""

    kind: str
    start: int
    text: str
    sure: bool
    """True when the words around say that it is about now; a bare date may be a fact that stays."""


def find_volatile(text: str) -> Iterator[Hit]:
    """What in ``text`` looks as if it would be another one next time, in order, at most one per line."""
    offset = 0
    for line in text.splitlines(keepends=True):
        hit = _of_line(line)
        if hit is not None:
            yield Hit(hit.kind, offset + hit.start, hit.text, hit.sure)
        offset += len(line)


def _of_line(line: str) -> Hit | None:
    about_now = _NOW.search(line) is not None
    for kind, pattern in _PATTERNS[:3]:
        if (match := pattern.search(line)) is not None:
            return Hit(kind, match.start(), match[0], about_now)
    if (match := _COUNTED.search(line)) is not None:
        return Hit("counter", match.start("n"), match["n"], about_now)
    return None


def mask(text: str) -> tuple[str, dict[str, list[str]]]:
    """``text`` with everything volatile replaced by its kind, and what was replaced, per kind."""
    taken: dict[str, list[str]] = {}
    for kind, pattern in _PATTERNS:
        found = taken.setdefault(kind, [])

        def blank(match: re.Match[str], kind: str = kind, found: list[str] = found) -> str:
            found.append(match[0])
            return f"\0{kind}\0"

        text = pattern.sub(blank, text)
    return text, taken


def cause_of(before: str, after: str) -> str | None:
    """Which kinds of volatile text alone make ``after`` of ``before``, in words; ``None`` when more did.

    "date", "clock", "date and counter". Both must have volatile text at the same places.
    """
    if before == after:
        return None
    masked, old = mask(before)
    same, new = mask(after)
    if masked != same:
        return None
    changed = [kind for kind in KINDS if old[kind] != new[kind]]
    return " and ".join(changed) or None
