"""Claude sessions bound to a (chat, thread); at most one is active there (spec agent-runtime 3.7)."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rightlab.clock import Clock, iso, parse_iso
from rightlab.errors import UsageError
from rightlab.store import Row, Store, Tx

__all__ = ["Session", "Sessions"]

LABEL_MAX = 60


@dataclass(frozen=True, slots=True)
class Session:
    """One conversation of the model. ``session_id`` is the root id: the one given to the CLI first."""

    session_id: str
    chat_id: int
    thread_id: int
    label: str | None
    is_active: bool
    created_at: datetime
    last_used_at: datetime


class Sessions:
    """The sessions of one agent."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def active(self, chat_id: int, thread_id: int) -> Session | None:
        row = self._store.row(
            "SELECT * FROM sessions WHERE chat_id = ? AND thread_id = ? AND is_active = 1", chat_id, thread_id
        )
        return None if row is None else _session(row)

    def get(self, session_id: str) -> Session | None:
        row = self._store.row("SELECT * FROM sessions WHERE root_session_id = ?", session_id)
        return None if row is None else _session(row)

    def list(self, chat_id: int, thread_id: int) -> list[Session]:
        """All sessions of a scope, the last used first."""
        rows = self._store.rows(
            "SELECT * FROM sessions WHERE chat_id = ? AND thread_id = ? ORDER BY last_used_at DESC, id DESC",
            chat_id,
            thread_id,
        )
        return [_session(row) for row in rows]

    def open(
        self,
        chat_id: int,
        thread_id: int,
        session_id: str,
        label: str | None = None,
        *,
        tx: Tx | None = None,
    ) -> None:
        """Make ``session_id`` the scope's active session; the one before stays and can be switched back to.

        A label is cut at 60 characters.
        """
        now = iso(self._clock.now())
        short = None if label is None else label.strip()[:LABEL_MAX] or None

        def work(tx: Tx) -> None:
            _park(tx, chat_id, thread_id)
            tx.run(
                "INSERT INTO sessions (chat_id, thread_id, root_session_id, label, is_active, created_at,"
                " last_used_at) VALUES (?, ?, ?, ?, 1, ?, ?)",
                chat_id,
                thread_id,
                session_id,
                short,
                now,
                now,
            )

        self._do(work, tx)

    def touch(self, session_id: str, *, tx: Tx | None = None) -> None:
        now = iso(self._clock.now())
        self._do(
            lambda tx: tx.run(
                "UPDATE sessions SET last_used_at = ? WHERE root_session_id = ?", now, session_id
            ),
            tx,
        )

    def deactivate(self, session_id: str, *, tx: Tx | None = None) -> None:
        self._do(
            lambda tx: tx.run("UPDATE sessions SET is_active = 0 WHERE root_session_id = ?", session_id), tx
        )

    def activate(self, session_id: str) -> Session:
        """Switch the session's scope to it, in one step. Raises :class:`UsageError` for an unknown id."""
        now = iso(self._clock.now())

        def work(tx: Tx) -> bool:
            row = tx.row("SELECT chat_id, thread_id FROM sessions WHERE root_session_id = ?", session_id)
            if row is None:
                return False
            _park(tx, row["chat_id"], row["thread_id"])
            tx.run(
                "UPDATE sessions SET is_active = 1, last_used_at = ? WHERE root_session_id = ?",
                now,
                session_id,
            )
            return True

        found = self._store.transact(work)
        session = self.get(session_id) if found else None
        if session is None:
            raise UsageError(f"no session {session_id}", fix="Ask /list for the ids of this chat.")
        return session

    def _do(self, work: Any, tx: Tx | None) -> None:
        if tx is not None:
            work(tx)
        else:
            self._store.transact(work)


def _park(tx: Tx, chat_id: int, thread_id: int) -> None:
    tx.run(
        "UPDATE sessions SET is_active = 0 WHERE chat_id = ? AND thread_id = ? AND is_active = 1",
        chat_id,
        thread_id,
    )


def _session(row: Row) -> Session:
    return Session(
        session_id=row["root_session_id"],
        chat_id=row["chat_id"],
        thread_id=row["thread_id"],
        label=row["label"],
        is_active=bool(row["is_active"]),
        created_at=parse_iso(row["created_at"]),
        last_used_at=parse_iso(row["last_used_at"]),
    )
