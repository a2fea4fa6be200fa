"""Imported rows that outlive the files they came from: transcripts vanish after 30 days (CU#721, CU#609).

A folder of Parquet segments, which are only added, and ``state.json``, which tells how far each file was
read. A segment is written before the state that counts it, so a crash in between costs a second reading and
nothing else: a request that lies in several segments is one.
"""

import hashlib
import io
import json
import os
from collections.abc import Iterable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rightlab.errors import StoreError
from rightlab.home.writers import atomic_write, file_lock, make_dir, remove
from rightlab.usage.finding import Source, find_files
from rightlab.usage.importing import FileState, Imported, Watch, read_sources
from rightlab.usage.reading import Request

if TYPE_CHECKING:
    import pyarrow

__all__ = ["ImportStore"]

VERSION = 1
MANY = 24
"""So many segments are made one."""
_TAIL = 512
_PROMPT = "prompt"
_REQUEST = "request"


class ImportStore:
    """The imported rows in ``folder``; made at the first import."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder).expanduser().absolute()
        self.state_path = self.folder / "state.json"

    def load(self) -> Imported:
        """Everything that was imported so far. Raises StoreError for a state that cannot be read."""
        into = Imported()
        for state in self._states():
            into.files[state.path] = state
        for path in self._segments():
            self._load(path, into)
        return into

    def update(
        self,
        paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
        *,
        processes: int | None = None,
        progress: Watch | None = None,
    ) -> Imported:
        """Read what is new in the files of ``paths`` and return everything the store holds.

        A file that did not change is not opened; one that grew is read from where it ended; one that became
        another is read anew, and what it told before stays.

        Raises:
            UsageError: a path that is not there, or a folder that cannot be written.
            StoreError: a store that cannot be read.
        """
        found = find_files(paths)
        make_dir(self.folder)
        with file_lock(self.state_path, timeout=600.0):
            into = self.load()
            into.found = len(found.sources)
            into.errors = found.errors
            before = {path: asdict(state) for path, state in into.files.items()}
            prompts = set(into.prompts)
            jobs = [(source, self._place(source, into)) for source in found.sources]
            jobs = [
                (source, place) for source, place in jobs if place < source.size or source.path not in before
            ]
            fresh = read_sources(into, jobs, processes=processes, progress=progress)
            for source, _ in jobs:
                state = into.files[source.path]
                state.tail = _tail(source.path, state.offset)
            new = sorted(into.prompts - prompts)
            if fresh or new:
                self._append(fresh, new)
            if before != {path: asdict(state) for path, state in into.files.items()}:
                self._save(into)
            if len(self._segments()) > MANY:
                self._compact(into)
        here = {source.path for source in found.sources}
        away = [path for path in into.files if path not in here]
        if away:
            gone = sum(not os.path.exists(path) for path in away)
            into.notes.append(
                f"the store also holds what {len(away)} other files told, {gone} of which are gone"
            )
        return into

    def _place(self, source: Source, into: Imported) -> int:
        """Where to go on reading; the end of the file when there is nothing new."""
        state = into.files.get(source.path)
        if state is None:
            return 0
        if any(line is None for line, _ in state.errors):
            # It could not be read to its end.
            into.files[source.path] = FileState(source.path)
            return 0
        if (state.size, state.mtime_ns, state.inode) == (source.size, source.mtime_ns, source.inode):
            return source.size
        if not source.path.endswith(".jsonl"):
            # A document or a database is one thing, not lines to go on from.
            into.files[source.path] = FileState(source.path)
            return 0
        if source.size >= state.offset and _tail(source.path, state.offset) == state.tail:
            if source.size == state.size:
                # Only touched: what it holds is what was read.
                state.mtime_ns, state.inode = source.mtime_ns, source.inode
                return source.size
            return state.offset
        into.files[source.path] = FileState(source.path)
        return 0

    def _states(self) -> list[FileState]:
        try:
            document = json.loads(self.state_path.read_bytes())
        except FileNotFoundError:
            return []
        except (OSError, ValueError) as error:
            raise self._broken(self.state_path, error) from error
        if not isinstance(document, dict) or document.get("version") != VERSION:
            raise StoreError(
                "this store was written by another version", where=self.folder, fix="Use a new folder."
            )
        try:
            return [_state(one) for one in document["files"]]
        except (KeyError, TypeError) as error:
            raise self._broken(self.state_path, error) from error

    def _save(self, into: Imported) -> None:
        files = [asdict(into.files[path]) for path in sorted(into.files)]
        atomic_write(self.state_path, json.dumps({"version": VERSION, "files": files}), mode=0o600)

    def _segments(self) -> list[Path]:
        return sorted(self.folder.glob("segment-*.parquet"))

    def _load(self, path: Path, into: Imported) -> None:
        import pyarrow as pa
        import pyarrow.compute as pc
        import pyarrow.parquet as pq

        try:
            table = pq.read_table(io.BytesIO(path.read_bytes()), use_threads=False)
            prompts = table.filter(pc.equal(table["kind"], _PROMPT))["key"].to_pylist()
            requests = table.filter(pc.equal(table["kind"], _REQUEST))
            rows = [requests[name].to_pylist() for name in Request._fields]
        except (OSError, KeyError, pa.ArrowException) as error:
            raise self._broken(path, error) from error
        into.prompts.update(prompts)
        found = map(Request._make, zip(*rows, strict=True))
        if into.requests:
            for request in found:
                into.add(request)
        else:
            into.requests = {request.key: request for request in found}

    def _append(self, requests: Iterable[Request], prompts: Iterable[str]) -> Path:
        import pyarrow.parquet as pq

        sink = io.BytesIO()
        pq.write_table(_table(list(requests), list(prompts)), sink, compression="zstd")
        data = sink.getvalue()
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%fZ")
        path = self.folder / f"segment-{stamp}-{hashlib.sha256(data).hexdigest()[:8]}.parquet"
        atomic_write(path, data, mode=0o600)
        return path

    def _compact(self, into: Imported) -> None:
        old = self._segments()
        kept = self._append(into.requests.values(), sorted(into.prompts))
        for path in old:
            if path != kept:
                remove(path)

    def _broken(self, path: Path, error: Exception) -> StoreError:
        return StoreError(
            f"cannot be read: {error}",
            where=path,
            fix="Restore it from a backup, or import into a new folder.",
        )


def _table(requests: list[Request], prompts: list[str]) -> "pyarrow.Table":
    import pyarrow as pa

    text, count, flag = pa.string(), pa.int64(), pa.bool_()
    types: dict[str, Any] = dict.fromkeys(Request._fields, count) | {"cost": pa.float64()}
    types |= dict.fromkeys(("key", "file", "model", "project", "session", "agent", "version"), text)
    types |= {"request_id": text, "sidechain": flag, "standard": flag, "differs": flag}
    columns: dict[str, list[Any]] = {
        name: [*values, *([None] * len(prompts))]
        for name, values in zip(
            Request._fields, zip(*requests, strict=True) if requests else [()] * len(Request._fields),
            strict=True,
        )
    }  # fmt: skip
    columns["key"][len(requests) :] = prompts
    arrays = {name: pa.array(values, types[name]) for name, values in columns.items()}
    kinds = [_REQUEST] * len(requests) + [_PROMPT] * len(prompts)
    return pa.table({"kind": pa.array(kinds, text).dictionary_encode(), **arrays})


def _state(one: dict[str, Any]) -> FileState:
    state = FileState(**one)
    state.errors = [(line, text) for line, text in state.errors]
    state.cut = None if state.cut is None else (state.cut[0], state.cut[1])
    return state


def _tail(path: str, offset: int) -> str:
    """The digest of the bytes before ``offset``; empty when they cannot be read."""
    try:
        with open(path, "rb") as stream:
            stream.seek(max(0, offset - _TAIL))
            return hashlib.sha256(stream.read(min(_TAIL, offset))).hexdigest()[:16]
    except OSError:
        return ""
