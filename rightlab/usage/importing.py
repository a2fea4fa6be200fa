"""What files of other tools hold, put together: requests once each, prompts, errors, and the report.

Rules of spec usage-and-baselines 3 and contract "usage import".
"""

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any
from zoneinfo import ZoneInfo

from rightlab.errors import UsageError
from rightlab.usage.finding import Fault, Source, find_files
from rightlab.usage.foreign import AGGREGATED, is_foreign, rows_of
from rightlab.usage.prices import PriceRow, PriceTable
from rightlab.usage.reading import MAX_ERRORS, PLACEHOLDER_UNTIL, Request, clean, merged
from rightlab.usage.results import RUN, requests_of_results
from rightlab.usage.workers import Part, read_parts, split

__all__ = ["Costing", "FileState", "Imported", "Watch", "day_in", "import_paths", "read_sources", "time_zone"]

_MINUTE_US = 60_000_000

Watch = Callable[[int, int, int], None]
"""Told the files to read, the bytes that are done and all bytes, as an import goes on."""


@dataclass
class FileState:
    """What one file told, apart from its requests; ``offset`` is where the next import goes on.

    ``lines`` are the non-blank ones up to there, ``total`` all of them. ``cut`` is the error of a last line
    that is not whole (yet).
    """

    path: str
    size: int = 0
    mtime_ns: int = 0
    inode: int = 0
    offset: int = 0
    lines: int = 0
    total: int = 0
    usage_rows: int = 0
    errors: list[tuple[int | None, str]] = field(default_factory=list)
    errors_more: int = 0
    cut: tuple[int, str] | None = None
    versions: list[str] = field(default_factory=list)
    skew: int | None = None
    sums: bool = False
    """Whether it holds sums and no requests."""
    tail: str = ""
    """The digest of the bytes before ``offset``: whether a longer file is the same one, grown."""

    def faults(self) -> list[Fault]:
        told = [Fault(self.path, line, text) for line, text in self.errors]
        if self.errors_more:
            told.append(Fault(self.path, None, f"{self.errors_more} more errors of this file are not listed"))
        if self.cut is not None:
            told.append(Fault(self.path, self.cut[0], self.cut[1]))
        return told

    def notes(self) -> list[str]:
        until = ".".join(map(str, PLACEHOLDER_UNTIL))
        told = [
            f"{self.path}: written by version {version}; before {until} the token counts are placeholders"
            for version in self.versions
        ]
        if self.skew is not None:
            told.append(f"{self.path}: the clock went back by more than an hour at line {self.skew}")
        if self.sums:
            told.append(
                f"{self.path}: sums made by ccusage; they are in the totals, in no count of requests, no"
                " percentile can be computed from them, and transcripts of the same days would count twice"
            )
        if self.size == 0:
            told.append(f"{self.path}: an empty file")
        return told


@dataclass
class Imported:
    """Everything that was read: ``requests`` by key, ``prompts``, and a state for each file."""

    requests: dict[str, Request] = field(default_factory=dict)
    prompts: set[str] = field(default_factory=set)
    files: dict[str, FileState] = field(default_factory=dict)
    errors: list[Fault] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    found: int = 0

    def add(self, request: Request) -> bool:
        """Take a row of a request; False when it tells nothing new."""
        known = self.requests.get(request.key)
        kept = request if known is None else merged(request, known)
        self.requests[request.key] = kept
        return kept is not known

    def faults(self) -> list[Fault]:
        return [*self.errors, *(fault for path in sorted(self.files) for fault in self.files[path].faults())]

    def report(self, zone: str = "UTC", prices: PriceTable | None = None) -> dict[str, Any]:
        """The document of ``usage import --json`` (contract). Raises UsageError for an unknown zone."""
        where = time_zone(zone)
        costing = Costing(prices)
        totals = _Entry()
        by_model: dict[str, _Entry] = {}
        by_day: dict[str, _Entry] = {}
        unknown: set[str] = set()
        complete = True
        undated = searched = differing = 0
        days: dict[int, str] = {}
        for request in self.requests.values():
            cost, known_model = costing.cost(request)
            if not known_model:
                unknown.add(request.model)
            complete = complete and cost is not None and not request.searches
            searched += request.searches
            differing += request.differs
            entries = [totals, by_model.setdefault(request.model, _Entry())]
            if request.ts is None:
                undated += 1
            else:
                minute = request.ts // _MINUTE_US
                day = days.get(minute)
                if day is None:
                    day = days[minute] = day_in(request.ts, where).isoformat()
                entries.append(by_day.setdefault(day, _Entry()))
            for entry in entries:
                entry.add(request, cost)
        counted = sum(request.steps > AGGREGATED for request in self.requests.values())
        notes = [note for path in sorted(self.files) for note in self.files[path].notes()]
        if differing:
            notes.append(
                f"{differing} requests are told with different prompt counts in several rows;"
                " the row with the most output counts"
            )
        if undated:
            notes.append(f"{undated} requests carry no valid time and are in no day")
        if searched:
            notes.append(f"{searched} web searches have no price here; the costs are without them")
        return {
            "files": self.found,
            "lines": sum(state.lines + (state.cut is not None) for state in self.files.values()),
            "requests": counted,
            "turns": len(self.prompts),
            "duplicates": sum(state.usage_rows for state in self.files.values()) - counted,
            "errors": self.faults(),
            "notes": [clean(note) for note in [*notes, *self.notes]],
            "totals": {
                **totals.to_json(),
                "cost_complete": complete,
                "unknown_models": sorted(unknown),
            },
            "by_model": {model: by_model[model].to_json() for model in sorted(by_model)},
            "by_day": {day: by_day[day].to_json() for day in sorted(by_day)},
        }


class _Entry:
    __slots__ = ("cost", "input", "output", "read", "write_1h", "write_5m")

    def __init__(self) -> None:
        self.input = self.output = self.read = self.write_5m = self.write_1h = 0
        self.cost: float | None = None

    def add(self, request: Request, cost: float | None) -> None:
        self.input += request.input
        self.output += request.output
        self.read += request.read
        self.write_5m += request.write_5m
        self.write_1h += request.write_1h
        if cost is not None:
            self.cost = cost if self.cost is None else self.cost + cost

    def to_json(self) -> dict[str, Any]:
        return {
            "input_tokens": self.input,
            "output_tokens": self.output,
            "cache_read_tokens": self.read,
            "cache_write_5m_tokens": self.write_5m,
            "cache_write_1h_tokens": self.write_1h,
            "cost_usd": self.cost,
        }


class Costing:
    """Costs of many requests, each model's row looked up once a day."""

    def __init__(self, prices: PriceTable | None = None) -> None:
        self.prices = prices or PriceTable()
        self._rows: dict[tuple[str, int], PriceRow | None] = {}

    def cost(self, request: Request) -> tuple[float | None, bool]:
        """Dollars, None when unknown, and whether the model has a price at all. Without web searches."""
        day = -1 if request.ts is None else request.ts // 86_400_000_000
        place = (request.model, day)
        if place in self._rows:
            row = self._rows[place]
        else:
            at = None if request.ts is None else _utc(request.ts)
            row = self._rows[place] = self.prices.row(request.model, at)
        if request.cost is not None:
            return request.cost, True
        if row is None:
            return None, False
        if not request.standard:
            return None, True
        rates = row.price
        prompt = request.input + request.read + request.write_5m + request.write_1h
        if row.tier is not None and prompt > row.tier.above:
            if request.steps > 1:
                return None, True
            rates = row.tier.price
        dollars = (
            request.input * rates.input
            + request.output * rates.output
            + request.read * rates.read
            + request.write_5m * rates.write_5m
            + request.write_1h * rates.write_1h
        )
        return dollars / 1_000_000, True


def read_sources(
    into: Imported,
    jobs: Sequence[tuple[Source, int]],
    *,
    processes: int | None = None,
    progress: Watch | None = None,
) -> list[Request]:
    """Read each source from its offset to its size; returns the requests that told something new.

    The state of each file in ``into.files`` goes on from where it was.
    """
    parts: list[Part] = []
    owners: list[Source] = []
    databases: list[Source] = []
    for source, offset in jobs:
        if not source.path.endswith(".jsonl") and _is_database(source.path):
            databases.append(source)
        else:
            for part in split(source.path, offset, source.size):
                parts.append(part)
                owners.append(source)
        state = into.files.setdefault(source.path, FileState(source.path))
        state.size, state.mtime_ns, state.inode = source.size, source.mtime_ns, source.inode
        state.cut = None
    total, done, lock = sum(part.size for part in parts), 0, threading.Lock()

    def passed(size: int) -> None:
        nonlocal done
        with lock:
            done += size
            if progress is not None:
                progress(len(jobs), done, total)

    if progress is not None:
        progress(len(jobs), 0, total)
    read = read_parts(parts, processes=processes, progress=None if progress is None else passed)
    fresh: dict[str, Request] = {}
    for source, told in zip(owners, read, strict=True):
        state = into.files[source.path]
        for row in told["requests"]:
            request = Request(*row)
            if state.total:
                request = request._replace(line=request.line + state.total)
            if into.add(request):
                fresh[request.key] = into.requests[request.key]
        into.prompts.update(told["prompts"])
        for found in _foreign(told, clean(source.path), state.total):
            if not isinstance(found, Request):
                state.errors.append(found)
                continue
            state.usage_rows += found.steps > AGGREGATED
            state.sums = state.sums or found.steps == AGGREGATED
            if found.key.startswith(RUN):
                into.prompts.add(found.key.partition("|")[0])
            if into.add(found):
                fresh[found.key] = into.requests[found.key]
        _take(state, told)
    for source in databases:
        for request in _database(into, source):
            fresh[request.key] = request
    return list(fresh.values())


def _is_database(path: str) -> bool:
    # Where there is no such file, nothing of SQLite is loaded.
    from rightlab.usage.reference import is_database

    return is_database(path)


def _database(into: Imported, source: Source) -> Iterator[Request]:
    """Take the rows of a Right Agent database; what is new of them."""
    from rightlab.usage.reference import requests_of_database

    state = into.files[source.path]
    state.offset = source.size
    for found in requests_of_database(source.path):
        if isinstance(found, str):
            state.errors.append((None, found))
            continue
        request, asked = found
        state.lines = state.total = state.total + 1
        state.usage_rows += 1
        if asked:
            into.prompts.add(request.key.partition("|")[0])
        if into.add(request):
            yield into.requests[request.key]


def _foreign(told: Mapping[str, Any], path: str, base: int) -> Iterator[Request | tuple[int, str]]:
    """What is no transcript: results of ``claude -p`` and rows of other tools."""
    yield from requests_of_results(told["runs"], path, base)
    for line, row in told["others"]:
        if is_foreign(row):
            for found in rows_of(row, path, line + base):
                yield (line + base, found) if isinstance(found, str) else found


def _take(state: FileState, part: Mapping[str, Any]) -> None:
    base = state.total
    for line, text in part["errors"]:
        if len(state.errors) < MAX_ERRORS:
            state.errors.append((line + base, text))
        else:
            state.errors_more += 1
    state.errors_more += part["errors_more"]
    if part["cut"] is not None:
        state.cut = (part["cut"][0] + base, part["cut"][1])
    if part["failure"] is not None:
        state.errors.append((None, part["failure"]))
    if state.skew is None and part["skew"] is not None:
        state.skew = part["skew"] + base
    state.versions = sorted({*state.versions, *part["versions"]})
    state.lines += part["lines"]
    state.total += part["total"]
    state.usage_rows += part["usage_rows"]
    state.offset = part["offset"]


def import_paths(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    processes: int | None = None,
    progress: Watch | None = None,
) -> Imported:
    """Read everything under ``paths`` and keep nothing. Raises UsageError for a path that is not there."""
    found = find_files(paths)
    into = Imported(found=len(found.sources), errors=found.errors)
    read_sources(into, [(source, 0) for source in found.sources], processes=processes, progress=progress)
    return into


def day_in(ts: int, zone: ZoneInfo) -> date:
    """The day in ``zone`` of a time in microseconds UTC."""
    return _utc(ts).astimezone(zone).date()


def time_zone(name: str) -> ZoneInfo:
    """The zone of a name; raises UsageError when there is none."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise UsageError(
            f"there is no time zone {name!r}", fix="Use a name as Europe/Berlin or UTC."
        ) from None


def _utc(ts: int) -> datetime:
    return datetime.fromtimestamp(ts / 1e6, UTC)
