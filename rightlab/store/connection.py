"""SQLite connections: pragmas, rows, and every failure as one line."""

import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote

from rightlab.errors import StoreError

__all__ = ["BUSY_SECONDS", "Result", "Row", "Tx", "connect", "connect_reader", "guarded", "store_failure"]

T = TypeVar("T")

BUSY_SECONDS = 5.0
"""How long a statement waits for another writer (spec agent-runtime 10)."""

_BUSY, _LOCKED, _READONLY, _IOERR, _CORRUPT, _FULL, _CANTOPEN, _NOTADB = 5, 6, 8, 10, 11, 13, 14, 26


class Row(sqlite3.Row):
    """One row: ``row["name"]``, ``row[0]``, ``dict(row)``, ``row.get("name")``; iterating gives the
    values."""

    def get(self, name: str, default: Any = None) -> Any:
        """The named column, or ``default`` when the query has none of that name."""
        return self[name] if name in self.keys() else default

    def __repr__(self) -> str:
        return f"Row({dict(self)!r})"


class Result(NamedTuple):
    """What a statement did: rows changed (-1 where that has no meaning) and the last inserted row id."""

    rowcount: int
    lastrowid: int


class Tx:
    """One immediate transaction, valid inside the function given to ``Store.transact`` only."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection: sqlite3.Connection | None = connection
        self._path = path

    def rows(self, sql: str, *params: Any) -> list[Row]:
        """All rows of a query."""
        return guarded(self._path, lambda: self._live().execute(sql, params).fetchall())

    def row(self, sql: str, *params: Any) -> Row | None:
        """The first row of a query, or None."""
        return guarded(self._path, lambda: first(self._live().execute(sql, params)))

    def value(self, sql: str, *params: Any) -> Any:
        """The first column of the first row, or None."""
        row = self.row(sql, *params)
        return None if row is None else row[0]

    def run(self, sql: str, *params: Any) -> Result:
        """Run one statement that changes something."""

        def work() -> Result:
            cursor = self._live().execute(sql, params)
            return Result(cursor.rowcount, cursor.lastrowid or 0)

        return guarded(self._path, work)

    def run_many(self, sql: str, rows: Iterable[Sequence[Any]]) -> int:
        """Run one statement for each row of parameters; returns how many rows changed."""
        return guarded(self._path, lambda: self._live().executemany(sql, rows).rowcount)

    def end(self) -> None:
        """Make the object unusable; called when its transaction is over."""
        self._connection = None

    def _live(self) -> sqlite3.Connection:
        if self._connection is None:
            raise StoreError("this transaction is over", where=self._path)
        return self._connection


def first(cursor: sqlite3.Cursor) -> Row | None:
    """The first row of an executed query; the cursor is closed, so that it keeps no read lock."""
    try:
        row: Row | None = cursor.fetchone()
        return row
    finally:
        cursor.close()


def guarded(path: Path, work: Callable[[], T]) -> T:
    """``work()`` with SQLite's errors turned into :class:`StoreError`."""
    try:
        return work()
    except sqlite3.Error as error:
        raise store_failure(error, path) from error


def store_failure(error: sqlite3.Error, path: Path) -> StoreError:
    """The one line for an SQLite error: what happened and what to do."""
    code = getattr(error, "sqlite_errorcode", None)
    primary = None if code is None else code & 0xFF
    if primary == _NOTADB:
        return StoreError(
            "this file is not a database",
            where=path,
            fix="Move it away, or restore a backup with `rightlab agent restore`.",
        )
    if primary == _CORRUPT:
        return StoreError(
            "the database is damaged",
            where=path,
            fix="Keep a copy of the file and restore a backup with `rightlab agent restore`.",
        )
    if primary == _FULL:
        return StoreError(
            "the disk is full; nothing of this step was stored",
            where=path,
            fix="Free some space and try again.",
        )
    if primary in (_BUSY, _LOCKED):
        return StoreError(
            f"the database stayed locked for {BUSY_SECONDS:g} s",
            where=path,
            fix="Find the process that holds it (`rightlab status`) and try again.",
        )
    if primary == _READONLY:
        return StoreError("the database is read-only here", where=path, fix="Check the file's permissions.")
    if primary == _CANTOPEN:
        return StoreError(
            "the database cannot be opened", where=path, fix="Check that its folder exists and is yours."
        )
    if primary == _IOERR:
        return StoreError(f"{error}", where=path, fix="Check the disk: full, failing or gone.")
    return StoreError(f"{error}", where=path)


def connect(path: Path) -> sqlite3.Connection:
    """A connection that writes; creates the file (0600) when there is none."""

    def work() -> sqlite3.Connection:
        # Made by us first, for its permissions; -wal and -shm take them over.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        connection = _open(f"file:{quote(str(path))}?mode=rw")
        try:
            _use_wal(connection)
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA journal_size_limit = 67108864")
        except BaseException:
            connection.close()
            raise
        return connection

    try:
        return guarded(path, work)
    except OSError as error:
        raise StoreError(
            f"the database cannot be opened: {os.strerror(error.errno or 0).lower()}",
            where=path,
            fix="Check that its folder exists and is yours.",
        ) from error


def _use_wal(connection: sqlite3.Connection) -> None:
    # The switch needs the file alone and does not wait by itself: two processes on a new file meet here.
    deadline = time.monotonic() + BUSY_SECONDS
    while connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF != _BUSY or time.monotonic() >= deadline:
                raise
            time.sleep(0.01)


def connect_reader(path: Path) -> sqlite3.Connection:
    """A connection that cannot write: opened read-only, ``query_only`` on top.

    Also where the folder is read-only and no log is left beside the file (nobody writes there then).
    """

    def work() -> sqlite3.Connection:
        uri = f"file:{quote(str(path))}?mode=ro"
        try:
            return _probe(_open(uri))
        except sqlite3.OperationalError as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            if code not in (_CANTOPEN, _READONLY) or os.access(path.parent, os.W_OK) or _log_left(path):
                raise
            return _probe(_open(f"{uri}&immutable=1"))

    return guarded(path, work)


def _log_left(path: Path) -> bool:
    try:
        return os.stat(f"{path}-wal").st_size > 0
    except FileNotFoundError:
        return False


def _open(uri: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
    )
    connection.row_factory = Row
    try:
        connection.execute("PRAGMA foreign_keys = ON")
    except BaseException:
        connection.close()
        raise
    return connection


def _probe(connection: sqlite3.Connection) -> sqlite3.Connection:
    try:
        connection.execute("PRAGMA query_only = ON")
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection
