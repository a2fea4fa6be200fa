"""The inbox: every update is a committed row before anything acts on it (design 4).

A row's life: ``received`` -> ``ignored`` | ``queued`` -> ``turn`` -> ``done``. The payload is dropped
when the row is ignored or done, the row stays: its update id is how a redelivered update is recognised,
also after a restart.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from rightlab.clock import Clock, iso, parse_iso
from rightlab.store import Row, Store, Tx

__all__ = ["Inbox", "InboxRow", "InboxState", "NewUpdate"]

InboxState = Literal["received", "ignored", "queued", "turn", "done"]

_CLOSED = ("ignored", "done")


@dataclass(frozen=True, slots=True)
class NewUpdate:
    """An update about to be stored. ``payload`` is the platform's own JSON object."""

    update_id: int | None
    payload: Mapping[str, Any]
    chat_id: int
    thread_id: int = 0
    state: InboxState = "received"
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class InboxRow:
    """A stored update; ``payload`` is ``None`` once it was dropped."""

    id: int
    channel: str
    origin: str
    update_id: int | None
    chat_id: int
    thread_id: int
    state: InboxState
    reason: str | None
    turn_id: str | None
    payload: dict[str, Any] | None
    received_at: datetime


class Inbox:
    """The inbox of one agent.

    ``channel`` names the platform; ``origin`` tells apart senders whose update ids are independent of
    each other (two bots, when a person changes the token).
    """

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def put(
        self,
        channel: str,
        update_id: int | None,
        payload: Mapping[str, Any],
        *,
        chat_id: int,
        thread_id: int = 0,
        origin: str = "",
        state: InboxState = "received",
        reason: str | None = None,
        tx: Tx | None = None,
    ) -> int | None:
        """Store one update; the row id, or ``None`` for a duplicate. Committed on return unless ``tx``
        is given.
        """
        update = NewUpdate(update_id, payload, chat_id, thread_id, state, reason)
        return self.put_many(channel, [update], origin=origin, tx=tx)[0]

    def put_many(
        self, channel: str, updates: Iterable[NewUpdate], *, origin: str = "", tx: Tx | None = None
    ) -> list[int | None]:
        """Like :meth:`put` for a batch, in one transaction and in order."""
        wanted = list(updates)

        def work(tx: Tx) -> list[int | None]:
            return [self._insert(tx, channel, origin, update) for update in wanted]

        return work(tx) if tx is not None else self._store.transact(work)

    def settle(
        self,
        ids: Sequence[int],
        state: InboxState,
        reason: str | None = None,
        *,
        turn_id: str | None = None,
        tx: Tx | None = None,
    ) -> int:
        """Move rows to ``state``; how many moved. A row that is ignored or done stays as it is."""
        now = iso(self._clock.now())

        def work(tx: Tx) -> int:
            moved = 0
            for row_id in ids:
                moved += tx.run(
                    "UPDATE inbox SET state = ?, reason = coalesce(?, reason), turn_id ="
                    " coalesce(?, turn_id),"
                    " payload = CASE WHEN ? THEN NULL ELSE payload END,"
                    " settled_at = CASE WHEN ? THEN ? ELSE settled_at END"
                    " WHERE id = ? AND state NOT IN ('ignored', 'done')",
                    state,
                    reason,
                    turn_id,
                    state in _CLOSED,
                    state in _CLOSED,
                    now,
                    row_id,
                ).rowcount
            return moved

        return work(tx) if tx is not None else self._store.transact(work)

    def claim(self, ids: Sequence[int], turn_id: str, *, tx: Tx | None = None) -> list[int]:
        """Give rows to a turn: the ids that were still free, in the given order. A row has one turn at
        most.
        """

        def work(tx: Tx) -> list[int]:
            return [
                row_id
                for row_id in ids
                if tx.run(
                    "UPDATE inbox SET state = 'turn', turn_id = ?"
                    " WHERE id = ? AND state IN ('received', 'queued')",
                    turn_id,
                    row_id,
                ).rowcount
            ]

        return work(tx) if tx is not None else self._store.transact(work)

    def pending(self, channel: str | None = None, *, origin: str | None = None) -> list[InboxRow]:
        """Rows that no turn has taken yet, oldest first: what a start has to take up again."""
        rows = self._store.rows(
            "SELECT * FROM inbox WHERE state IN ('received', 'queued')"
            " AND (? IS NULL OR channel = ?) AND (? IS NULL OR origin = ?) ORDER BY id",
            channel,
            channel,
            origin,
            origin,
        )
        return [_row(row) for row in rows]

    def of_turn(self, turn_id: str) -> list[InboxRow]:
        """The rows a turn took, oldest first."""
        return [
            _row(row)
            for row in self._store.rows("SELECT * FROM inbox WHERE turn_id = ? ORDER BY id", turn_id)
        ]

    def get(self, row_id: int) -> InboxRow | None:
        row = self._store.row("SELECT * FROM inbox WHERE id = ?", row_id)
        return None if row is None else _row(row)

    def forget(self, row_id: int, reason: str = "taken out", *, tx: Tx | None = None) -> None:
        """Take a message's content out for good: for one that carries a credential (design 4)."""
        now = iso(self._clock.now())

        def work(tx: Tx) -> None:
            tx.run(
                "UPDATE inbox SET state = 'done', reason = ?, payload = NULL, settled_at = ? WHERE id = ?",
                reason,
                now,
                row_id,
            )

        if tx is not None:
            work(tx)
        else:
            self._store.transact(work)

    def prune(self, before: datetime) -> int:
        """Delete closed rows received before ``before``; how many. Servers redeliver for a day at most."""
        limit = iso(before)
        return self._store.transact(
            lambda tx: (
                tx.run(
                    "DELETE FROM inbox WHERE state IN ('ignored', 'done') AND received_at < ?", limit
                ).rowcount
            )
        )

    def _insert(self, tx: Tx, channel: str, origin: str, update: NewUpdate) -> int | None:
        closed = update.state in _CLOSED
        now = iso(self._clock.now())
        done = tx.run(
            "INSERT OR IGNORE INTO inbox (channel, origin, update_id, chat_id, thread_id,"
            " state, reason, payload,"
            " received_at, settled_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            channel,
            origin,
            update.update_id,
            update.chat_id,
            update.thread_id,
            update.state,
            update.reason,
            None if closed else json.dumps(update.payload, ensure_ascii=False, separators=(",", ":")),
            now,
            now if closed else None,
        )
        return done.lastrowid if done.rowcount else None


def _row(row: Row) -> InboxRow:
    payload = row["payload"]
    return InboxRow(
        id=row["id"],
        channel=row["channel"],
        origin=row["origin"],
        update_id=row["update_id"],
        chat_id=row["chat_id"],
        thread_id=row["thread_id"],
        state=row["state"],
        reason=row["reason"],
        turn_id=row["turn_id"],
        payload=None if payload is None else json.loads(payload),
        received_at=parse_iso(row["received_at"]),
    )
