"""Numbered migrations: found, checked, and applied as one batch (spec agent-runtime 10).

A migration is a module ``migrations/mNNNN_name.py`` with ``NUMBER``, ``NAME`` and ``STATEMENTS`` (idempotent
SQL). Numbers may have gaps; whatever is missing in a database is applied in ascending order, all of it in one
immediate transaction, and written down with its time in ``schema_migrations``.
"""

import re
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

from rightlab.clock import Clock, iso
from rightlab.errors import StoreError
from rightlab.store.connection import guarded

__all__ = ["Migration", "applied", "check", "known_migrations", "migrate"]

_MODULE = re.compile(r"m(\d{4})_([a-z0-9_]+)")
_LEDGER = (
    "CREATE TABLE IF NOT EXISTS schema_migrations "
    "(number INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at TEXT NOT NULL)"
)
_UPGRADE = "Upgrade rightlab: python3 -m pip install -U rightlab."
_START = "Start the agent once to bring it up to date: `rightlab up`."


@dataclass(frozen=True)
class Migration:
    """One step of the schema. Its statements can be run twice without harm."""

    number: int
    name: str
    statements: tuple[str, ...]


@cache
def known_migrations() -> tuple[Migration, ...]:
    """All migrations this version brings, ascending.

    Raises:
        StoreError: two modules share a number, or a module's name and ``NUMBER`` disagree (a bug of ours).
    """
    package = import_module("rightlab.store.migrations")
    found: dict[int, Migration] = {}
    for info in iter_modules(package.__path__):
        match = _MODULE.fullmatch(info.name)
        if match is None:
            continue
        module = import_module(f"{package.__name__}.{info.name}")
        step = Migration(module.NUMBER, module.NAME, tuple(module.STATEMENTS))
        if step.number != int(match[1]) or step.number in found:
            raise StoreError(f"migration {info.name} has the wrong or a used number {step.number}")
        found[step.number] = step
    return tuple(found[number] for number in sorted(found))


def applied(connection: sqlite3.Connection) -> set[int]:
    """The numbers written down in this database; empty when it has no ledger yet."""
    if not connection.execute(
        "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'schema_migrations'"
    ).fetchall():
        return set()
    return {row[0] for row in connection.execute("SELECT number FROM schema_migrations").fetchall()}


def check(connection: sqlite3.Connection, path: Path, migrations: Sequence[Migration]) -> list[Migration]:
    """The migrations this database still needs.

    Raises:
        StoreError: a newer rightlab made it, or it is a database of somebody else.
    """

    def work() -> list[Migration]:
        done = applied(connection)
        if not done and connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchall():
            raise StoreError(
                "this database was not made by rightlab", where=path, fix="Move it away or use another home."
            )
        newer = done - {step.number for step in migrations}
        if newer:
            raise StoreError(
                f"a newer rightlab made this database (migration {max(newer)} is unknown here)",
                where=path,
                fix=_UPGRADE,
            )
        return [step for step in migrations if step.number not in done]

    return guarded(path, work)


def require_current(connection: sqlite3.Connection, path: Path, migrations: Sequence[Migration]) -> None:
    """Raise StoreError unless the database has exactly the schema of this version."""
    pending = check(connection, path, migrations)
    if pending:
        numbers = ", ".join(str(step.number) for step in pending)
        raise StoreError(
            f"an older rightlab made this database (needs migration {numbers})", where=path, fix=_START
        )


def migrate(
    connection: sqlite3.Connection, path: Path, migrations: Sequence[Migration], clock: Clock
) -> list[int]:
    """Apply what is pending under the lock between processes; returns the numbers applied.

    The lock is advisory and the kernel's: a process that dies leaves neither it nor half a batch behind.
    """
    if not check(connection, path, migrations):
        return []
    from filelock import FileLock, Timeout

    try:
        with FileLock(f"{path}.migrate.lock", timeout=60, mode=0o600):
            return guarded(path, lambda: _batch(connection, path, migrations, clock))
    except Timeout:
        raise StoreError(
            "another process has been migrating this database for 60 s",
            where=path,
            fix="Wait for it to finish.",
        ) from None


def _batch(
    connection: sqlite3.Connection, path: Path, migrations: Sequence[Migration], clock: Clock
) -> list[int]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        pending = check(connection, path, migrations)
        connection.execute(_LEDGER)
        for step in pending:
            for statement in step.statements:
                connection.execute(statement)
            connection.execute(
                "INSERT INTO schema_migrations (number, name, applied_at) VALUES (?, ?, ?)",
                (step.number, step.name, iso(clock.now())),
            )
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return [step.number for step in pending]
