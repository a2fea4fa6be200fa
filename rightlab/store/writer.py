"""The one thread of a process that writes to a database file."""

import contextlib
import os
import queue
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from rightlab.errors import FencedOut, StoreError
from rightlab.store.connection import BUSY_SECONDS, Tx, connect, guarded, store_failure

__all__ = ["Writer", "borrow_writer"]

_RETRY = {5, 6}
_writers: dict[tuple[int, int], "Writer"] = {}
_lock = threading.Lock()


class Writer:
    """A connection, the thread that alone uses it, and the jobs waiting for it in order."""

    def __init__(self, path: Path, connection: sqlite3.Connection, key: tuple[int, int]) -> None:
        self.path = path
        self.users = 0
        self._key = key
        self._connection = connection
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=f"rightlab-store-{path.name}", daemon=True)
        self._thread.start()

    def submit(self, fn: Callable[[Tx], Any], fence: int | None, *, taking: bool = False) -> "Future[Any]":
        """Queue one transaction. A future that is cancelled before its turn is never begun."""
        if threading.current_thread() is self._thread:
            raise StoreError(
                "a transaction inside a transaction", where=self.path, fix="Use the one you have."
            )
        future: Future[Any] = Future()

        def job() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = self._transact(fn, None if taking else fence)
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)

        self._jobs.put(job)
        return future

    def release(self) -> None:
        """Give the writer back; with its last user it ends, after the jobs that wait already."""
        with _lock:
            self.users -= 1
            if self.users > 0:
                return
            if _writers.get(self._key) is self:
                del _writers[self._key]
        self._jobs.put(None)
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout=BUSY_SECONDS)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
            del job  # so that a job's data does not live until the next one comes
        self._connection.close()

    def _transact(self, fn: Callable[[Tx], Any], fence: int | None) -> Any:
        self._begin()
        tx = Tx(self._connection, self.path)
        try:
            if fence is not None:
                found = tx.value("SELECT value FROM meta WHERE key = 'fence'")
                if found != fence:
                    raise FencedOut(
                        f"another process has taken this agent over (fence {found}, ours {fence})",
                        where=self.path,
                    )
            result = fn(tx)
            guarded(self.path, lambda: self._connection.execute("COMMIT"))
        except BaseException:
            # SQLite may have rolled back by itself (disk full, I/O error).
            if self._connection.in_transaction:
                with contextlib.suppress(sqlite3.Error):
                    self._connection.execute("ROLLBACK")
            raise
        finally:
            tx.end()
        return result

    def _begin(self) -> None:
        # The busy handler covers waiting for a writer; recovery and checkpoints can still answer "busy" at
        # once.
        deadline = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                return
            except sqlite3.OperationalError as error:
                code = getattr(error, "sqlite_errorcode", 0) & 0xFF
                if code not in _RETRY or time.monotonic() >= deadline:
                    raise store_failure(error, self.path) from error
                time.sleep(0.01)
            except sqlite3.Error as error:
                raise store_failure(error, self.path) from error


def borrow_writer(path: Path, prepare: Callable[[sqlite3.Connection], None]) -> Writer:
    """The process's writer for this file, started when there is none; ``prepare`` sees its connection first.

    Files are told apart by device and inode: a database that was moved away and made anew gets a new writer.
    """
    with _lock:
        connection = connect(path)
        try:
            prepare(connection)
            found = os.stat(path)
            key = (found.st_dev, found.st_ino)
            writer = _writers.get(key)
            if writer is None:
                writer = _writers[key] = Writer(path, connection, key)
            else:
                connection.close()
        except BaseException:
            connection.close()
            raise
        writer.users += 1
        return writer


def _forget() -> None:
    """In a forked child no writer thread lives on; its connections must not be used or closed there."""
    global _lock
    _lock = threading.Lock()
    _orphans.extend(_writers.values())
    _writers.clear()


_orphans: list[Writer] = []
os.register_at_fork(after_in_child=_forget)
