"""``Store``: the only door to a ``data.db``."""

import asyncio
import contextlib
import os
import secrets
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

from rightlab.clock import Clock, SystemClock
from rightlab.errors import StoreError
from rightlab.store.connection import Row, Tx, connect_reader, first, guarded
from rightlab.store.schema import Migration, known_migrations, migrate, require_current
from rightlab.store.writer import Writer, borrow_writer

__all__ = ["Role", "Store"]

T = TypeVar("T")
Role = Literal["owner", "writer", "reader"]
_IDLE_READERS = 4


class Store:
    """One agent's database: reads from any thread, writes as immediate transactions on the one writer thread.

    ``role``: an *owner* migrates when it opens; a *writer* and a *reader* refuse a schema that is not this
    version's; a reader cannot write at all. Never open the file by other means in the same process while a
    store is open: closing such a descriptor would drop SQLite's locks.
    """

    def __init__(self, path: Path, role: Role, writer: Writer | None, fence: int | None) -> None:
        self.path = path
        self.role = role
        self.fence = fence
        self._writer = writer
        self._readers: list[sqlite3.Connection] = []
        self._lock = threading.Lock()
        self._closed = False

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        role: Role = "writer",
        clock: Clock | None = None,
        fence: int | None = None,
        migrations: Sequence[Migration] | None = None,
    ) -> "Store":
        """Open ``path``. With ``fence`` every transaction first checks that nobody took the agent over.

        ``migrations`` replaces the known ones (for tests of upgrades).

        Raises:
            StoreError: no file (except for an owner), damaged, no database, another version's schema, locked.
        """
        file = Path(os.path.abspath(path))
        steps = known_migrations() if migrations is None else tuple(migrations)
        if role != "owner" and not file.is_file():
            raise StoreError(
                "there is no database yet", where=file, fix="Start the agent once: `rightlab up`."
            )
        if role == "reader":
            store = cls(file, role, None, None)
            with store._reader() as connection:
                require_current(connection, file, steps)
            return store

        def prepare(connection: sqlite3.Connection) -> None:
            if role == "owner":
                migrate(connection, file, steps, clock or SystemClock())
            require_current(connection, file, steps)

        return cls(file, role, borrow_writer(file, prepare), fence)

    def rows(self, sql: str, *params: Any) -> list[Row]:
        """All rows of a query, as of the last commit."""
        with self._reader() as connection:
            return guarded(self.path, lambda: connection.execute(sql, params).fetchall())

    def row(self, sql: str, *params: Any) -> Row | None:
        """The first row of a query, or None."""
        with self._reader() as connection:
            return guarded(self.path, lambda: first(connection.execute(sql, params)))

    def value(self, sql: str, *params: Any) -> Any:
        """The first column of the first row, or None."""
        row = self.row(sql, *params)
        return None if row is None else row[0]

    def transact(self, fn: Callable[[Tx], T]) -> T:
        """Run ``fn`` in one immediate transaction on the writer thread and wait for the commit.

        An exception of ``fn`` rolls everything back and is raised here. ``fn`` must not call back into the
        store.

        Raises:
            FencedOut: the store has a fence and somebody took the agent over.
            StoreError: locked for 5 s, disk full, a constraint, a reader's store, a closed one.
        """
        result: T = self._submit(fn).result()
        return result

    async def atransact(self, fn: Callable[[Tx], T]) -> T:
        """:meth:`transact` without blocking the loop.

        Cancelled while it waits for its turn, it never begins; once begun it is finished all the same.
        """
        result: T = await asyncio.wrap_future(self._submit(fn))
        return result

    def take_fence(self) -> int:
        """Take the agent over: raise the fence by one; this store acts under it from now on."""

        def take(tx: Tx) -> int:
            tx.run("UPDATE meta SET value = value + 1 WHERE key = 'fence'")
            return int(tx.value("SELECT value FROM meta WHERE key = 'fence'"))

        self.fence = int(self._submit(take, taking=True).result())
        return self.fence

    def snapshot(self, path: str | os.PathLike[str]) -> Path:
        """A consistent, compact copy of the database at ``path`` (0600), replaced whole; also while others
        write."""
        target = Path(os.path.abspath(path))
        temporary = target.with_name(f".{target.name}.{secrets.token_hex(6)}.tmp")
        try:
            # VACUUM INTO takes an empty file; made by us first, for its permissions.
            os.close(os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
            with contextlib.closing(connect_reader(self.path)) as connection:
                guarded(self.path, lambda: _vacuum_into(connection, temporary))
            _sync(temporary)
            os.replace(temporary, target)
            _sync(target.parent)
        except OSError as error:
            raise StoreError(
                f"the copy cannot be written: {os.strerror(error.errno or 0).lower()}",
                where=target,
                fix="Check the folder and its free space.",
            ) from error
        finally:
            temporary.unlink(missing_ok=True)
        return target

    def check(self) -> list[str]:
        """SQLite's own findings about the file's integrity; empty when it is sound. Reads the whole file."""
        with self._reader() as connection:
            found = guarded(self.path, lambda: connection.execute("PRAGMA quick_check(20)").fetchall())
        return [row[0] for row in found if row[0] != "ok"]

    def schema(self) -> list[Row]:
        """The migrations applied: ``number``, ``name``, ``applied_at``, ascending."""
        return self.rows("SELECT number, name, applied_at FROM schema_migrations ORDER BY number")

    def close(self) -> None:
        """Close; transactions that wait already are still made. Closing twice is fine."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            readers, self._readers = self._readers, []
        for connection in readers:
            connection.close()
        if self._writer is not None:
            self._writer.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Store({str(self.path)!r}, role={self.role!r})"

    def _submit(self, fn: Callable[[Tx], Any], *, taking: bool = False) -> "Future[Any]":
        if self._writer is None:
            raise StoreError("opened for reading only", where=self.path)
        with self._lock:
            self._require_open()
            return self._writer.submit(fn, self.fence, taking=taking)

    @contextlib.contextmanager
    def _reader(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            self._require_open()
            connection = self._readers.pop() if self._readers else None
        if connection is None:
            connection = connect_reader(self.path)
        try:
            yield connection
        finally:
            with self._lock:
                keep = not self._closed and len(self._readers) < _IDLE_READERS
                if keep:
                    self._readers.append(connection)
            if not keep:
                connection.close()

    def _require_open(self) -> None:
        if self._closed:
            raise StoreError("this store is closed", where=self.path)


def _vacuum_into(connection: sqlite3.Connection, target: Path) -> None:
    connection.execute("PRAGMA query_only = OFF")
    connection.execute("VACUUM INTO ?", (str(target),))


def _sync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
