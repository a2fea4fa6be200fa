"""Parquet copies of the ledger's closed days, so that questions need not read SQLite again (design 10).

Rows of the ledger never change and their ids only grow, so a segment is simply a range of ids. They are a cache:
whoever finds one that is not of this database any more throws all of them away.
"""

import io
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rightlab.clock import iso
from rightlab.home.writers import atomic_write, file_lock, make_dir, remove
from rightlab.store import Store

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "FEW",
    "FULL",
    "GROUPED",
    "INTEGERS",
    "NUMBERS",
    "TEXTS",
    "Segment",
    "Segments",
    "arrow_rows",
    "values_of",
]

FULL = 250_000
"""So many rows make a segment full; the last one grows until then."""

_FORMAT = 1
_MANIFEST = "segments.json"
_STEP = 50_000

TEXTS = ("source", "model", "job_name", "session_uuid", "turn_id", "run_id", "prompt_sha256", "skills_json")
INTEGERS = (
    *("id", "chat_id", "thread_id", "input_tokens", "output_tokens", "cache_creation_tokens"),
    *("cache_read_tokens", "cache_write_5m_tokens", "cache_write_1h_tokens", "is_error", "scripted"),
)
NUMBERS = ("total_cost_usd", "num_turns", "wall_elapsed_ms", "ttft_ms")
GROUPED = ("source", "model", "chat_id", "job_name", "session_uuid", "prompt_sha256")
FEW = 64
_COLUMNS = ("ts", *TEXTS, *INTEGERS, *NUMBERS)


@dataclass(frozen=True, slots=True)
class Segment:
    """The rows with ids ``first`` to ``last``, in the file ``name``; the times of both, to know them again.

    ``first_us`` and ``last_us`` are the earliest and the latest time in it, in microseconds since 1970; ``values`` the
    different values of each of :data:`GROUPED`, None when they are more than :data:`FEW`.
    """

    name: str
    first: int
    last: int
    rows: int
    first_ts: str
    last_ts: str
    first_us: int
    last_us: int
    values: dict[str, list[Any] | None]


class Segments:
    """The segments in ``folder``, which is theirs alone, of the ledger in ``store``."""

    def __init__(self, folder: Path, store: Store) -> None:
        self.folder = folder
        self.store = store

    def current(self) -> list[Segment]:
        """The segments that are of this database, in order; none when anything about them is doubtful."""
        try:
            manifest = json.loads((self.folder / _MANIFEST).read_bytes())
            found = (
                [Segment(**entry) for entry in manifest["segments"]] if manifest["format"] == _FORMAT else []
            )
        except (OSError, ValueError, TypeError, KeyError):
            return []
        return found if all(self._is_ours(segment) for segment in found) else []

    def refresh(self, now: datetime) -> list[Segment]:
        """Write what closed since; returns all segments. Days close at midnight UTC.

        Several processes may do it at once: the second finds it done. Raises StoreError, RightlabError.
        """
        last = self._last_closed(now)
        found = self.current()
        if found and found[-1].last >= last:
            return found
        make_dir(self.folder)
        with file_lock(self.folder / _MANIFEST):
            found = self.current()
            done = found[-1].last if found else 0
            while done < last:
                keep = found[:-1] if found and found[-1].rows < FULL else found
                begin = keep[-1].last if keep else 0
                segment = self._write(begin, last)
                if segment is None:
                    break
                found, done = [*keep, segment], segment.last
                self._publish(found)
        return found

    def path(self, segment: Segment) -> Path:
        return self.folder / segment.name

    def _last_closed(self, now: datetime) -> int:
        today = now.replace(hour=0, minute=0, second=0, microsecond=0)
        # A row of the far future (a clock that was wrong) must not keep the days after it open.
        first_open = self.store.value(
            "SELECT MIN(id) FROM usage_events WHERE ts >= ? AND ts < ?",
            iso(today),
            iso(today + timedelta(days=2)),
        )
        if first_open is not None:
            return int(first_open) - 1
        return int(self.store.value("SELECT MAX(id) FROM usage_events") or 0)

    def _is_ours(self, segment: Segment) -> bool:
        ends = [
            self.store.value("SELECT ts FROM usage_events WHERE id = ?", number)
            for number in (segment.first, segment.last)
        ]
        return ends == [segment.first_ts, segment.last_ts] and self.path(segment).is_file()

    def _write(self, begin: int, last: int) -> Segment | None:
        import pyarrow as pa
        import pyarrow.compute as pc
        import pyarrow.parquet as pq

        parts: list[pa.Table] = []
        ends: list[tuple[int, str]] = []
        rows = 0
        while rows < FULL:
            part, found = _page(self.store, begin, last)
            if not found:
                break
            parts.append(part)
            ends += found
            rows += part.num_rows
            begin = found[-1][0]
        if not parts:
            return None
        buffer = io.BytesIO()
        table = pa.concat_tables(parts)
        pq.write_table(table, buffer, compression="zstd", row_group_size=FULL)
        (first, first_ts), (end, end_ts) = ends[0], ends[-1]
        # Ids do not say which database they are of; the time of the last row keeps an old file from being taken.
        stamp = "".join(character for character in end_ts if character.isdigit())
        name = f"usage-{first:012}-{end:012}-{stamp}.parquet"
        times = table.column("ts_us")
        bounds = pc.min(times).as_py(), pc.max(times).as_py()
        segment = Segment(name, first, end, rows, first_ts, end_ts, *bounds, values_of(table))
        atomic_write(self.path(segment), buffer.getvalue(), 0o600)
        return segment

    def _publish(self, segments: Sequence[Segment]) -> None:
        entries = {"format": _FORMAT, "segments": [asdict(segment) for segment in segments]}
        old = sorted(self.folder.glob("usage-*.parquet"))
        atomic_write(self.folder / _MANIFEST, json.dumps(entries), 0o600)
        listed = {segment.name for segment in segments}
        for path in old:
            if path.name not in listed:
                remove(path)


def values_of(table: "pa.Table") -> dict[str, list[Any] | None]:
    """The different values of each of :data:`GROUPED` in ``table``, unknown ones left out; None when they are many."""
    import pyarrow.compute as pc

    found: dict[str, list[Any] | None] = {}
    for name in GROUPED:
        unique = pc.unique(table.column(name)).drop_null()
        found[name] = unique.to_pylist() if len(unique) <= FEW else None
    return found


def arrow_rows(store: Store, after: int) -> tuple["pa.Table", int]:
    """The rows with ids above ``after`` in the columns of a segment, and the last id (``after`` when none)."""
    import pyarrow as pa

    parts = []
    while True:
        part, ends = _page(store, after, None)
        parts.append(part)
        if not ends:
            return pa.concat_tables(parts), after
        after = ends[-1][0]


def _page(store: Store, after: int, last: int | None) -> tuple["pa.Table", list[tuple[int, str]]]:
    """A page of rows as a table, and id and time of its first and its last row."""
    import pyarrow as pa

    upper, params = ("", [after, _STEP]) if last is None else (" AND id <= ?", [after, last, _STEP])
    sql = f"SELECT {', '.join(_COLUMNS)} FROM usage_events WHERE id > ?{upper} ORDER BY id LIMIT ?"
    rows = store.rows(sql, *params)
    columns: dict[str, Sequence[Any]] = dict(
        zip(_COLUMNS, zip(*rows, strict=True) if rows else [()] * len(_COLUMNS), strict=True)
    )
    times = pa.array(columns["ts"], pa.string()).cast(pa.timestamp("us", tz="UTC"))
    arrays = {"ts_us": times.cast(pa.int64())}
    arrays |= {name: pa.array(columns[name], pa.string()) for name in TEXTS}
    arrays |= {name: pa.array(columns[name], pa.int64()) for name in INTEGERS}
    arrays |= {name: pa.array(columns[name], pa.float64()) for name in NUMBERS}
    ids, written = columns["id"], columns["ts"]
    return pa.table(arrays), [(ids[0], written[0]), (ids[-1], written[-1])] if rows else []
