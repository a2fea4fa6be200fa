"""Questions over a whole ledger: Parquet segments of closed days and what SQLite has since, read by DuckDB (design 10).

DuckDB only ever lives in memory: no file of it, hence no lock another process could meet. The ledger is read with a
reader's store; a running bot and any number of notebooks ask at once.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from threading import RLock
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from rightlab.clock import Clock, SystemClock
from rightlab.errors import RightlabError, UsageError
from rightlab.html import zone
from rightlab.store import Store
from rightlab.usage.day_numbers import DAY_US, Dates, date_of, day_number, micros, offsets_of
from rightlab.usage.grouped import SMALL, Grouping
from rightlab.usage.percentiles import METHOD, MIN_SAMPLE
from rightlab.usage.segments import FEW, Segments, arrow_rows, values_of

if TYPE_CHECKING:
    import duckdb
    import numpy.typing as npt
    import pandas
    import pyarrow as pa

__all__ = ["KEYS", "METRICS", "Answer", "Engine"]

T = TypeVar("T")

KEYS = {
    "source": ("source", "unknown"),
    "model": ("model", "unknown"),
    "chat": ("chat_id", "–"),
    "job": ("job_name", "–"),
    "session": ("session_uuid", "–"),
    "prompt": ("prompt_sha256", "unknown"),
}
"""What can be grouped by, besides ``day``: the column, and what a row without it is called."""

METRICS = {"cost_usd": "total_cost_usd", "num_turns": "num_turns", "elapsed_ms": "wall_elapsed_ms"}

_KEPT = 64
_KEEP_ROWS = 2_000_000
_SPAN = 100_000


@dataclass(frozen=True)
class Answer:
    """Groups in the order of their keys; for each, how many rows, known dollars, and of each metric n and quantiles.

    ``cost_usd`` is NaN when nothing in the group is known. ``found`` maps a metric to its n (one for each group) and
    its percentiles (one row for each group, NaN below ``min_sample``).
    """

    by: tuple[str, ...]
    keys: tuple[tuple[str, ...], ...]
    n: "npt.NDArray[Any]"
    cost_usd: "npt.NDArray[Any]"
    found: dict[str, tuple["npt.NDArray[Any]", "npt.NDArray[Any]"]]
    min_sample: int
    method: str = METHOD

    def records(self) -> Iterator[dict[str, Any]]:
        """One mapping per group; what is not known is None."""
        for place, key in enumerate(self.keys):
            record: dict[str, Any] = dict(zip(self.by, key, strict=True))
            record["n"] = int(self.n[place])
            record["cost_usd"] = _known(self.cost_usd[place])
            for metric, (n, quantiles) in self.found.items():
                record[f"{metric}_n"] = int(n[place])
                for name, value in zip(("p50", "p90", "p99"), quantiles[place], strict=True):
                    record[f"{metric}_{name}"] = _known(value)
            yield record

    def to_frame(self) -> "pandas.DataFrame":
        import pandas as pd

        return pd.DataFrame(list(self.records()))

    def __len__(self) -> int:
        return len(self.keys)


class Engine:
    """The ledger at ``db_path``; ``folder`` is a cache of its own (``<home>/cache/usage/<agent>``).

    Cheap to make: DuckDB is loaded with the first question. Safe to use from several threads. Close it, or use it in
    a ``with``.
    """

    def __init__(self, db_path: Path, folder: Path, clock: Clock | None = None) -> None:
        self.clock = clock or SystemClock()
        self.store = Store.open(db_path, role="reader")
        self.segments = Segments(folder, self.store)
        self._lock = RLock()
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._version: tuple[int, int] = (-1, -1)
        self._live: pa.Table | None = None
        self._bounds = (0, 0)
        self._values: list[dict[str, list[Any] | None]] = []
        self._answers: dict[Any, Answer] = {}
        self._columns: dict[Any, Any] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None
            self._forget()
            self._version = (-1, -1)
            self.store.close()

    def refresh(self) -> None:
        """Take in what was written since; every question does so by itself. Raises StoreError."""
        with self._lock:
            self._refresh()

    def sql(self, query: str, parameters: Sequence[Any] = ()) -> "pa.Table":
        """Any question over the view ``usage``: one row per invocation, ``ts_us`` in microseconds of UTC.

        ``hazen(list, q)`` is the percentile of this package: ``SELECT hazen(list(total_cost_usd), 0.9) FROM usage``.
        Raises UsageError for what DuckDB cannot answer.
        """
        import duckdb

        try:
            return self._again(lambda: self._refresh().sql(query, params=list(parameters)).to_arrow_table())
        except duckdb.Error as error:
            raise UsageError(str(error).splitlines()[0], where="the question") from None

    def percentiles(
        self,
        by: str | Sequence[str] = ("source", "model", "day"),
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        sources: str | Sequence[str] | None = None,
        tz: str = "UTC",
        min_sample: int = MIN_SAMPLE,
    ) -> Answer:
        """P50, P90 and P99 of cost, steps and elapsed ms for each group of ``by`` (:data:`KEYS` and ``day`` in ``tz``).

        Exact, by Hazen; none below ``min_sample`` values. Bounds are aware, ``until`` is exclusive. Raises UsageError,
        StoreError.
        """
        keys = tuple(by.replace(" ", "").split(",")) if isinstance(by, str) else tuple(by)
        wrong = [key for key in keys if key not in KEYS and key != "day"]
        if wrong or len(set(keys)) < len(keys):
            raise UsageError(
                f"usage cannot be grouped by {by!r}",
                fix=f"Use one or several of {', '.join((*KEYS, 'day'))}.",
            )
        zone(tz)
        wanted = (sources,) if isinstance(sources, str) else None if sources is None else tuple(sources)
        where = (since, until, wanted)
        question = (keys, *where, tz, min_sample)

        def answer() -> Answer:
            self._refresh()
            if question not in self._answers:
                while len(self._answers) >= _KEPT:
                    self._answers.pop(next(iter(self._answers)))
                self._answers[question] = self._ask(keys, where, tz, min_sample)
            return self._answers[question]

        return self._again(answer)

    def _again(self, ask: Callable[[], T]) -> T:
        """``ask``, and once more when a segment went away: another process closed a day in between."""
        import duckdb

        with self._lock:
            try:
                return ask()
            except duckdb.IOException:
                self._version, self._live = (-1, -1), None
                return ask()

    def _ask(self, keys: tuple[str, ...], where: tuple[Any, ...], tz: str, min_sample: int) -> Answer:
        import numpy as np

        columns = self._take([*keys, *METRICS], where, tz)
        rows = len(columns["cost_usd"])
        names = [columns[key][1] for key in keys]
        sizes = [max(1, len(known)) for known in names]
        space = math.prod(sizes)
        codes: Any = np.zeros(rows, np.int32 if space < 2**31 else np.int64)
        for key, size in zip(keys, sizes, strict=True):
            codes *= size
            codes += columns[key][0]
        there: Any = None
        if space > SMALL:
            there, codes = np.unique(codes, return_inverse=True)
        grouping = Grouping.of(codes, space if there is None else len(there))
        # Sorting leaves the interpreter's lock, so the metrics are worked out side by side.
        with ThreadPoolExecutor(len(METRICS)) as pool:
            found = dict(
                zip(METRICS, pool.map(grouping.percentiles, (columns[name] for name in METRICS)), strict=True)
            )
        totals = grouping.sums(columns["cost_usd"])
        some = np.flatnonzero(grouping.counts)
        places = np.unravel_index(some if there is None else there[some], sizes) if sizes else ()
        labels = [[known[at] for at in place] for known, place in zip(names, places, strict=True)]
        shown = {}
        for metric, (n, quantiles) in found.items():
            quantiles[n < min_sample] = np.nan
            shown[metric] = (n[some], quantiles[some])
        keys_found = tuple(zip(*labels, strict=True)) if labels else ((),) * len(some)
        return Answer(keys, keys_found, grouping.counts[some], totals[some], shown, min_sample)

    def _take(self, wanted: Sequence[str], where: tuple[Any, ...], tz: str) -> dict[str, Any]:
        """The columns ``wanted``: metrics as floats, keys as codes and what these stand for, in sorted order.

        Columns of a few million rows are kept for the next question.
        """
        slots = {name: (name, tz if name == "day" else "", where) for name in wanted}
        missing = [name for name in wanted if slots[name] not in self._columns]
        fresh: dict[str, Any] = {}
        if missing:
            known = {name: self._names(name, tz) for name in missing if name not in METRICS}
            selected = [self._expression(name, tz, known.get(name)) for name in missing]
            sql, parameters = _filtered(f"SELECT {', '.join(selected)} FROM usage", where)
            table = self._duckdb.sql(sql, params=parameters).to_arrow_table()
            fresh = {
                name: _encoded(name, column, known.get(name))
                for name, column in zip(missing, table.columns, strict=True)
            }
            if table.num_rows <= _KEEP_ROWS:
                if sum(1 for slot in self._columns) + len(fresh) > _KEPT:
                    self._columns.clear()
                self._columns |= {slots[name]: column for name, column in fresh.items()}
        return {name: fresh[name] if name in fresh else self._columns[slots[name]] for name in wanted}

    @property
    def _duckdb(self) -> "duckdb.DuckDBPyConnection":
        if self._connection is None:
            raise UsageError("this engine is closed")
        return self._connection

    def _names(self, name: str, tz: str) -> Sequence[str] | None:
        """What a key can be, when that is few: then its rows come as small numbers, not as text."""
        if name == "day":
            first, last = (day_number(at, tz) for at in self._bounds)
            return Dates(first, last - first + 1) if last - first < _SPAN else None
        found: set[str] = set()
        for values in self._values:
            part = values[KEYS[name][0]]
            if part is None:
                return None
            found.update(map(str, part))
        return sorted(found) if len(found) <= FEW else None

    def _expression(self, name: str, tz: str, names: Sequence[str] | None) -> str:
        if name in METRICS:
            return METRICS[name]
        if name == "day":
            first = f" - {names.first}" if isinstance(names, Dates) else ""
            return f"CAST({self._day(tz)}{first} AS INTEGER)"
        column, _ = KEYS[name]
        if names is None:
            return f"CAST({column} AS VARCHAR)"
        if not names:
            return "CAST(0 AS UTINYINT)"
        cases = " ".join(f"WHEN {_quoted(value)} THEN {code}" for code, value in enumerate(names))
        return f"CAST(CASE {column} {cases} ELSE {len(names)} END AS UTINYINT)"

    def _day(self, tz: str) -> str:
        """The day in ``tz`` as a number of days since 1970: the offset that held at the time, not a call per row."""
        offsets = offsets_of(tz, *self._bounds)
        sql = str(offsets[-1][1])
        if len(offsets) > 1:
            cases = " ".join(f"WHEN ts_us < {end} THEN {offset}" for end, offset in offsets[:-1])
            sql = f"CASE {cases} ELSE {offsets[-1][1]} END"
        return f"((ts_us + {sql}) // {DAY_US})"

    def _refresh(self) -> "duckdb.DuckDBPyConnection":
        import duckdb
        import pyarrow as pa
        import pyarrow.compute as pc

        if self._connection is None:
            self._connection = duckdb.connect(":memory:")
            self._connection.execute(_HAZEN)
            self._live = None
        last = int(self.store.value("SELECT MAX(id) FROM usage_events") or 0)
        try:
            segments = self.segments.refresh(self.clock.now())
        except RightlabError:
            # A cache that cannot be written: what is there, and the rest from SQLite.
            segments = self.segments.current()
        closed = segments[-1].last if segments else 0
        if self._version == (closed, last) and self._live is not None:
            return self._connection
        if self._live is not None and self._version[0] == closed:
            added, last = arrow_rows(self.store, max(closed, self._version[1]))
            self._live = pa.concat_tables([self._live, added])
        else:
            self._live, last = arrow_rows(self.store, closed)
        self._connection.register("live", self._live)
        files = ", ".join(_quoted(str(self.segments.path(segment))) for segment in segments)
        stored = f"SELECT * FROM read_parquet([{files}]) UNION ALL " if files else ""
        self._connection.execute(f"CREATE OR REPLACE TEMP VIEW usage AS {stored}SELECT * FROM live")
        self._forget()
        self._version = (closed, last)
        ends = [at for segment in segments for at in (segment.first_us, segment.last_us)]
        if self._live.num_rows:
            times = self._live.column("ts_us")
            ends += [pc.min(times).as_py(), pc.max(times).as_py()]
        self._values = [*(segment.values for segment in segments), values_of(self._live)]
        self._bounds = (min(ends, default=0), max(ends, default=0))
        return self._connection

    def _forget(self) -> None:
        self._answers.clear()
        self._columns.clear()


_HAZEN = """
CREATE OR REPLACE TEMP MACRO hazen(xs, q) AS (
    WITH given AS (SELECT list_sort(list_filter(xs, lambda x: x IS NOT NULL AND isfinite(x))) AS s),
    placed AS (SELECT s, greatest(least(q::DOUBLE * len(s) - 0.5, len(s) - 1.0), 0.0) AS p FROM given),
    ends AS (
        SELECT p, s[floor(p)::BIGINT + 1]::DOUBLE AS lo, s[ceil(p)::BIGINT + 1]::DOUBLE AS hi FROM placed
    )
    SELECT least(greatest(lo + (p - floor(p)) * (hi - lo), lo), hi) FROM ends
)
"""


def _filtered(sql: str, where: tuple[Any, ...]) -> tuple[str, list[Any]]:
    since, until, sources = where
    conditions: list[str] = []
    parameters: list[Any] = []
    for sign, moment in ((">=", since), ("<", until)):
        if moment is not None:
            conditions.append(f"ts_us {sign} ?")
            parameters.append(micros(moment))
    if sources is not None:
        conditions.append("list_contains(?, source)")
        parameters.append(list(sources))
    return sql + (f" WHERE {' AND '.join(conditions)}" if conditions else ""), parameters


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _encoded(name: str, column: Any, names: Sequence[str] | None) -> Any:
    """A metric as floats; a key as codes and what they stand for, in order."""
    import numpy as np
    import pyarrow as pa

    if name in METRICS:
        return column.cast(pa.float64()).to_numpy()
    if name == "day":
        if names is not None:
            return column.to_numpy(), names
        days, codes = np.unique(column.to_numpy(), return_inverse=True)
        return codes, [date_of(int(day)) for day in days]
    absent = KEYS[name][1]
    if names is not None:
        return column.to_numpy(), [*names, absent]
    encoded = column.fill_null(absent).dictionary_encode().unify_dictionaries().combine_chunks()
    labels = encoded.dictionary.to_pylist()
    ranks = np.empty(len(labels), np.int64)
    ranks[np.argsort(np.array(labels, dtype=object), kind="stable")] = np.arange(len(labels))
    return ranks[encoded.indices.to_numpy(zero_copy_only=False)], sorted(labels)


def _known(value: Any) -> float | None:
    return None if value != value else float(value)
