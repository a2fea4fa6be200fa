"""Reading a database that is not ours, from a copy, so that nothing can happen to the original."""

import os
import shutil
import sqlite3
import tempfile
from pathlib import Path
from typing import Any

from rightlab.errors import StoreError

__all__ = ["MAGIC", "read_copy"]

MAGIC = b"SQLite format 3\0"
"""How a database file begins."""
_TRIES = 3


def read_copy(path: str | os.PathLike[str], sql: str) -> list[dict[str, Any]]:
    """The rows of a query over a private copy of a database, also of one whose schema stock SQLite refuses.

    The original is only read. What its writer has committed into the ``-wal`` file beside it is seen.

    Raises:
        StoreError: no database, a broken one, or one without what the query asks for.
    """
    source = Path(path)
    error: Exception | None = None
    for _ in range(_TRIES):
        try:
            return _read(source, sql)
        except (sqlite3.Error, OSError) as failure:
            # A checkpoint between the two copies makes a pair that does not fit; the next try has one.
            error = failure
    raise StoreError(f"cannot be read: {error}", where=source) from error


def _read(source: Path, sql: str) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="rightlab-") as folder:
        copy = Path(folder) / "copy.db"
        shutil.copyfile(source, copy)
        wal = source.with_name(f"{source.name}-wal")
        if wal.is_file():
            shutil.copyfile(wal, copy.with_name("copy.db-wal"))
        connection = sqlite3.connect(copy)
        try:
            connection.row_factory = sqlite3.Row
            # An index of a kind this SQLite does not know must not hide the tables beside it.
            connection.execute("PRAGMA writable_schema = ON")
            return [dict(row) for row in connection.execute(sql)]
        finally:
            connection.close()
