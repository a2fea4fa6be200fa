"""The outbox: what must be said, and the one algorithm by which every channel says it (spec
agent-runtime 2.2).

A part's life: ``pending`` -> ``sending`` -> ``sent`` | ``uncertain`` | ``failed``. ``sending`` is
committed before the channel is called, the message id right after it answered. A part that is found in
``sending`` was cut by a crash, so nobody knows whether it arrived: it becomes ``uncertain``, is shown as
such, and is never sent again. A channel that says "not stored, later" puts the part back to ``pending``
with the time before which it must not be tried.
"""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any, TypeVar

from rightlab.clock import Clock, iso, parse_iso
from rightlab.content import Part
from rightlab.conversation.sending import (
    Delivery,
    OutboxRow,
    OutboxState,
    PartRow,
    PartState,
    SendLater,
    SendRejected,
    SendUncertain,
)
from rightlab.errors import ContentError, UsageError
from rightlab.store import Row, Store, Tx

__all__ = ["Outbox"]

T = TypeVar("T")

_log = logging.getLogger(__name__)


class Outbox:
    """The outbox of one agent. Only the agent's owner delivers; every process may :meth:`enqueue`.

    ``offline_pauses`` are the seconds between tries while the platform is not reached.
    """

    def __init__(
        self, store: Store, clock: Clock, *, offline_pauses: Sequence[float] = (0.5, 1.0, 2.0, 4.0, 8.0)
    ) -> None:
        self._store = store
        self._clock = clock
        self._offline_pauses = tuple(offline_pauses)
        self._chats: dict[int, tuple[asyncio.Lock, int]] = {}

    def enqueue(
        self,
        *,
        source: str,
        chat_id: int,
        thread_id: int,
        parts: Sequence[Part],
        turn_id: str | None = None,
        run_id: str | None = None,
        reply_to: int | None = None,
        content_json: Any = None,
        tx: Tx | None = None,
    ) -> int:
        """Store a message and its parts; the outbox id. Raises :class:`ContentError` when there is no
        part.
        """
        if not parts:
            raise ContentError("EmptyContent", "nothing to send")
        now = iso(self._clock.now())
        content = None if content_json is None else json.dumps(content_json, ensure_ascii=False)

        def work(tx: Tx) -> int:
            outbox_id = tx.run(
                "INSERT INTO outbox (source, chat_id, thread_id, turn_id, run_id,"
                " reply_to, content, created_at)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                source,
                chat_id,
                thread_id,
                turn_id,
                run_id,
                reply_to,
                content,
                now,
            ).lastrowid
            for number, part in enumerate(parts):
                tx.run(
                    "INSERT INTO outbox_parts (outbox_id, part, kind, text, updated_at)"
                    " VALUES (?, ?, ?, ?, ?)",
                    outbox_id,
                    number,
                    part.kind,
                    part.text,
                    now,
                )
            return int(outbox_id)

        return work(tx) if tx is not None else self._store.transact(work)

    def recover(self) -> list[int]:
        """Settle what a crash left in ``sending`` as ``uncertain``; the outbox ids concerned.

        To be called once when the owner starts, before any delivery.
        """

        def work(tx: Tx) -> list[int]:
            ids = [
                row["outbox_id"]
                for row in tx.rows(
                    "SELECT DISTINCT outbox_id FROM outbox_parts WHERE state = 'sending' ORDER BY outbox_id"
                )
            ]
            for outbox_id in ids:
                self._settle_cut(tx, outbox_id)
            return ids

        return self._store.transact(work)

    def waiting(self, chat_id: int | None = None) -> list[int]:
        """Outbox ids (of one chat) that still have parts to send, oldest first."""
        return [
            row["outbox_id"]
            for row in self._store.rows(
                "SELECT DISTINCT outbox_id FROM outbox_parts JOIN outbox ON outbox.id = outbox_id"
                " WHERE outbox_parts.state IN ('pending', 'sending') AND (? IS NULL OR chat_id = ?)"
                " ORDER BY outbox_id",
                chat_id,
                chat_id,
            )
        ]

    def undelivered(self, limit: int = 200) -> list[OutboxRow]:
        """Everything that is not fully confirmed, with the reason, oldest first."""
        rows = self._store.rows("SELECT * FROM outbox WHERE state <> 'delivered' ORDER BY id LIMIT ?", limit)
        return [self._with_parts(row) for row in rows]

    def get(self, outbox_id: int) -> OutboxRow | None:
        row = self._store.row("SELECT * FROM outbox WHERE id = ?", outbox_id)
        return None if row is None else self._with_parts(row)

    def of_turn(self, turn_id: str) -> list[OutboxRow]:
        """What a turn sent or has to send, oldest first."""
        return [
            self._with_parts(row)
            for row in self._store.rows("SELECT * FROM outbox WHERE turn_id = ? ORDER BY id", turn_id)
        ]

    async def deliver(
        self,
        outbox_id: int,
        send: Callable[[Part], Awaitable[int]],
        *,
        stop_at_failure: bool = False,
    ) -> Delivery:
        """Send what is left of a message, in order; how it ended.

        ``send`` sends one part and returns the platform's message id, or raises :class:`SendRejected`,
        :class:`SendUncertain` or :class:`SendLater`; anything else counts as uncertain. One delivery at a
        time goes to a chat, so that what waits for the platform keeps its place. A refused part does not
        stop the others, unless ``stop_at_failure`` (channel posts) or the refusal is about the chat.
        Raises :class:`UsageError` for an unknown id.
        """
        chat_id = self._store.value("SELECT chat_id FROM outbox WHERE id = ?", outbox_id)
        if chat_id is None:
            raise UsageError(f"no outbox entry {outbox_id}")
        async with self._turn_of(chat_id):
            await self._commit(lambda tx: self._settle_cut(tx, outbox_id))
            await self._send_all(outbox_id, send, stop_at_failure)
        return self._outcome(outbox_id)

    async def _send_all(
        self, outbox_id: int, send: Callable[[Part], Awaitable[int]], stop_at_failure: bool
    ) -> None:
        offline = 0
        while (row := self._next(outbox_id)) is not None:
            number = row.part
            await self._wait_until(row.not_before)
            try:
                claimed = await self._store.atransact(self._claiming(outbox_id, number))
            except asyncio.CancelledError:
                # The claim may or may not have been made, the call certainly was not.
                self._mark(outbox_id, number, "pending")
                raise
            if not claimed:
                return
            part = Part(index=number, kind="text", text=row.text)
            try:
                message_id = await send(part)
            except SendLater as exc:
                wait = exc.retry_after
                if wait is None:
                    wait = self._offline_pauses[min(offline, len(self._offline_pauses) - 1)]
                    offline += 1
                await self._settle(outbox_id, number, "pending", error=str(exc), wait=wait)
                if offline > len(self._offline_pauses):
                    return
            except SendRejected as exc:
                await self._settle(outbox_id, number, "failed", error=str(exc))
                if exc.whole or stop_at_failure:
                    await self._give_up(outbox_id, str(exc))
                    return
            except SendUncertain as exc:
                await self._settle(outbox_id, number, "uncertain", error=str(exc))
                if stop_at_failure:
                    await self._give_up(outbox_id, str(exc))
                    return
            except asyncio.CancelledError:
                self._mark(outbox_id, number, "uncertain", error="stopped while it was being sent")
                raise
            except Exception as exc:
                _log.exception("sending part %d of outbox entry %d broke", number, outbox_id)
                await self._settle(
                    outbox_id, number, "uncertain", error=f"{type(exc).__name__} while sending"
                )
            else:
                offline = 0
                await self._settle(outbox_id, number, "sent", message_id=message_id)

    async def _wait_until(self, moment: datetime | None) -> None:
        # A wall clock that jumps back must not hold a chat for longer than was asked: sleep once.
        if moment is not None and (seconds := (moment - self._clock.now()).total_seconds()) > 0:
            await self._clock.sleep(seconds)

    def _next(self, outbox_id: int) -> PartRow | None:
        row = self._store.row(
            "SELECT * FROM outbox_parts WHERE outbox_id = ? AND state = 'pending' ORDER BY part LIMIT 1",
            outbox_id,
        )
        return None if row is None else _part(row)

    def _claiming(self, outbox_id: int, number: int) -> Callable[[Tx], bool]:
        now = iso(self._clock.now())

        def work(tx: Tx) -> bool:
            done = tx.run(
                "UPDATE outbox_parts SET state = 'sending', attempts = attempts + 1,"
                " not_before = NULL, updated_at = ?"
                " WHERE outbox_id = ? AND part = ? AND state = 'pending'",
                now,
                outbox_id,
                number,
            )
            return done.rowcount == 1

        return work

    async def _settle(self, outbox_id: int, number: int, state: PartState, **more: Any) -> None:
        await self._commit(self._marking(outbox_id, number, state, **more))

    def _mark(self, outbox_id: int, number: int, state: PartState, **more: Any) -> None:
        self._store.transact(self._marking(outbox_id, number, state, **more))

    def _marking(
        self,
        outbox_id: int,
        number: int,
        state: PartState,
        *,
        message_id: int | None = None,
        error: str | None = None,
        wait: float | None = None,
    ) -> Callable[[Tx], None]:
        now = self._clock.now()
        not_before = None if wait is None else iso(now + timedelta(seconds=wait))

        def work(tx: Tx) -> None:
            # A confirmation beats "uncertain": another process may have judged the part while we were
            # sending it.
            tx.run(
                "UPDATE outbox_parts SET state = ?, message_id = coalesce(?, message_id),"
                " error = ?, not_before = ?,"
                " updated_at = ? WHERE outbox_id = ? AND part = ?"
                " AND (state = 'sending' OR (state = 'uncertain' AND ? = 'sent'))",
                state,
                message_id,
                error,
                not_before,
                iso(now),
                outbox_id,
                number,
                state,
            )
            self._summarise(tx, outbox_id)

        return work

    def _settle_cut(self, tx: Tx, outbox_id: int) -> None:
        cut = tx.run(
            "UPDATE outbox_parts SET state = 'uncertain', error = 'cut while it was being sent',"
            " updated_at = ?"
            " WHERE outbox_id = ? AND state = 'sending'",
            iso(self._clock.now()),
            outbox_id,
        )
        if cut.rowcount:
            self._summarise(tx, outbox_id)

    async def _give_up(self, outbox_id: int, why: str) -> None:
        now = iso(self._clock.now())

        def work(tx: Tx) -> None:
            tx.run(
                "UPDATE outbox_parts SET state = 'failed', error = ?, updated_at = ?"
                " WHERE outbox_id = ? AND state = 'pending'",
                why,
                now,
                outbox_id,
            )
            self._summarise(tx, outbox_id)

        await self._commit(work)

    def _summarise(self, tx: Tx, outbox_id: int) -> None:
        # In the transaction that settles a part, so that no crash leaves the two apart.
        rows = tx.rows("SELECT state, error FROM outbox_parts WHERE outbox_id = ? ORDER BY part", outbox_id)
        state = _overall([row["state"] for row in rows])
        tx.run(
            "UPDATE outbox SET state = ?, error = ?, settled_at = ? WHERE id = ?",
            state,
            next((row["error"] for row in rows if row["error"]), None),
            None if state == "waiting" else iso(self._clock.now()),
            outbox_id,
        )

    async def _commit(self, work: Callable[[Tx], T]) -> T:
        """Commit even when cancelled meanwhile: ``work`` is safe to run twice."""
        try:
            return await self._store.atransact(work)
        except asyncio.CancelledError:
            self._store.transact(work)
            raise

    @asynccontextmanager
    async def _turn_of(self, chat_id: int) -> AsyncIterator[None]:
        lock, users = self._chats.get(chat_id, (asyncio.Lock(), 0))
        self._chats[chat_id] = (lock, users + 1)
        try:
            async with lock:
                yield
        finally:
            lock, users = self._chats[chat_id]
            if users == 1:
                del self._chats[chat_id]
            else:
                self._chats[chat_id] = (lock, users - 1)

    def _outcome(self, outbox_id: int) -> Delivery:
        row = self.get(outbox_id)
        if row is None:
            raise UsageError(f"no outbox entry {outbox_id}")
        sent = tuple((part.message_id, part.text) for part in row.parts if part.message_id is not None)
        return Delivery(row.state, tuple(message_id for message_id, _ in sent), row.error, sent)

    def _with_parts(self, row: Row) -> OutboxRow:
        parts = self._store.rows("SELECT * FROM outbox_parts WHERE outbox_id = ? ORDER BY part", row["id"])
        content = row["content"]
        return OutboxRow(
            id=row["id"],
            source=row["source"],
            chat_id=row["chat_id"],
            thread_id=row["thread_id"],
            turn_id=row["turn_id"],
            run_id=row["run_id"],
            reply_to=row["reply_to"],
            content=None if content is None else json.loads(content),
            state=row["state"],
            error=row["error"],
            created_at=parse_iso(row["created_at"]),
            parts=tuple(_part(part) for part in parts),
        )


def _overall(states: Sequence[str]) -> OutboxState:
    if "pending" in states or "sending" in states:
        return "waiting"
    if "uncertain" in states:
        return "uncertain"
    if "failed" not in states:
        return "delivered"
    return "partial" if "sent" in states else "failed"


def _part(row: Row) -> PartRow:
    not_before = row["not_before"]
    return PartRow(
        part=row["part"],
        kind=row["kind"],
        text=row["text"],
        state=row["state"],
        message_id=row["message_id"],
        error=row["error"],
        attempts=row["attempts"],
        not_before=None if not_before is None else parse_iso(not_before),
    )
