"""The slow, plain answer to "when does this job fire": every real minute of a period, looked at one by one.

It shares nothing with :mod:`rightlab.cron.schedule`: offsets come from the TZif files, fields from a parser
of its own that knows stars, numbers, lists, ranges and steps.
"""

import struct
import zoneinfo
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cache
from importlib import resources
from pathlib import Path

import numpy as np

_RANGES = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))


@dataclass(frozen=True)
class Rules:
    fixed: bool
    fields: tuple[frozenset[int], ...]
    either: bool


@cache
def rules(expr: str) -> Rules:
    parts = expr.split()
    fields = []
    for text, (low, high) in zip(parts, _RANGES, strict=True):
        values: set[int] = set()
        for term in text.split(","):
            body, _, step = term.partition("/")
            if body == "*":
                first, last = low, high
            elif "-" in body:
                first, last = (int(part) for part in body.split("-"))
            else:
                first = int(body)
                last = high if step else first
            values.update(range(first, last + 1, int(step or 1)))
        fields.append(frozenset(values))
    fields[4] = frozenset(value % 7 for value in fields[4])
    fixed = not any(mark in part for part in parts[:2] for mark in "*/")
    return Rules(fixed, tuple(fields), not parts[2].startswith("*") and not parts[4].startswith("*"))


def _file(key: str) -> bytes:
    """The bytes ZoneInfo reads: the system's database, else the tzdata package (they may differ)."""
    for folder in zoneinfo.TZPATH:
        path = Path(folder, key)
        if path.is_file():
            return path.read_bytes()
    return resources.files("tzdata.zoneinfo").joinpath(*key.split("/")).read_bytes()


@cache
def transitions(key: str) -> tuple[np.ndarray, np.ndarray]:
    """Change instants (unix seconds) and the offsets (seconds) that hold before the first and after each."""
    data = _file(key)

    def header(raw: bytes) -> tuple[int, ...]:
        return struct.unpack(">4sc15x6l", raw[:44])[2:]

    utc_count, std_count, leaps, times, types, chars = header(data)
    data = data[44 + times * 5 + types * 6 + chars + leaps * 8 + std_count + utc_count :]
    utc_count, std_count, leaps, times, types, chars = header(data)
    at = 44
    instants = np.array(struct.unpack(f">{times}q", data[at : at + 8 * times]), dtype=np.int64)
    at += 8 * times
    indices = list(data[at : at + times])
    at += times
    offsets = [struct.unpack(">lbB", data[at + 6 * i : at + 6 * i + 6])[0] for i in range(types)]
    footer = data[at + 6 * types + chars + leaps * 12 + std_count + utc_count :].strip(b"\n").decode()
    sequence = [offsets[0] if types else 0, *(offsets[index] for index in indices)]
    if "," in footer:  # rules that go on for ever: asked for through the only reader of them there is
        where = zoneinfo.ZoneInfo(key)
        moment = datetime(2025, 1, 1, tzinfo=UTC)
        keep = instants < moment.timestamp()
        instants, sequence = instants[keep], [sequence[0], *np.array(sequence[1:])[keep]]
        last = int(moment.astimezone(where).utcoffset().total_seconds())
        more = [int(moment.timestamp())]  # a short file ends where its rules begin
        sequence.append(last)
        while moment.year < 2030:
            moment += timedelta(minutes=15)
            offset = int(moment.astimezone(where).utcoffset().total_seconds())
            if offset != last:
                more.append(int(moment.timestamp()))
                sequence.append(offset)
                last = offset
        instants = np.concatenate([instants, np.array(more, dtype=np.int64)])
    return instants, np.array(sequence, dtype=np.int64)


def _days(first: int, last: int, wanted: Rules) -> np.ndarray:
    """For each civil day (days since 1970) of the range: does the job run on it?"""
    found = []
    for number in range(first, last + 1):
        day = date(1970, 1, 1) + timedelta(days=number)
        in_month, weekday = day.day in wanted.fields[2], (day.weekday() + 1) % 7 in wanted.fields[4]
        right = (in_month or weekday) if wanted.either else (in_month and weekday)
        found.append(right and day.month in wanted.fields[3])
    return np.array(found)


def expected(expr: str, key: str, start: datetime, end: datetime) -> list[int]:
    """Unix minutes of the fires in ``(start, end]`` (whole minutes, aware)."""
    wanted = rules(expr)
    instants, offsets = transitions(key)
    margin = 2 * 24 * 60
    first, last = int(start.timestamp()) // 60 - margin, int(end.timestamp()) // 60
    real = np.arange(first, last + 1, dtype=np.int64)
    wall = real + offsets[np.searchsorted(instants, real * 60, side="right")] // 60
    low = int(wall.min())
    every = np.arange(low, int(wall.max()) + 1, dtype=np.int64)
    minutes, hours = every % 60, every // 60 % 24
    day = every // 1440
    match = np.isin(minutes, list(wanted.fields[0])) & np.isin(hours, list(wanted.fields[1]))
    match &= _days(int(day[0]), int(day[-1]), wanted)[day - day[0]]
    if wanted.fixed:
        reached = np.maximum.accumulate(wall)
        where = np.searchsorted(reached, every[match], side="left")
        hits = real[np.unique(where[where < len(real)])]
    else:
        hits = real[match[wall - low]]
    return [int(hit) for hit in hits if hit * 60 > start.timestamp()]
