"""From the outbox to a chat: the last step of a turn, a cron result or a tool's message, the same for all."""

import asyncio
import logging
from collections.abc import Callable

from rightlab.content import Part
from rightlab.conversation import Archive, Delivery, Outbox, OutboxRow
from rightlab.errors import ChannelError
from rightlab.store import Store, Tx
from rightlab.turn.ports import Channel

__all__ = ["Deliverer"]

log = logging.getLogger(__name__)


class Deliverer:
    """Sends what the outbox holds and writes down what arrived: archive rows, and the turn's status."""

    def __init__(
        self, store: Store, outbox: Outbox, archive: Archive, channel_of: Callable[[int], Channel | None]
    ) -> None:
        self._store = store
        self._outbox = outbox
        self._archive = archive
        self._channel_of = channel_of

    async def deliver(self, outbox_id: int, *, session_id: str | None = None) -> Delivery:
        """Send the message ``outbox_id`` on the channel of its chat, after what still waits for that chat.

        Raises ChannelError when the channel is not open.
        """
        row = self._row(outbox_id)
        for older in self._outbox.waiting(row.chat_id):
            if older >= outbox_id:
                break
            ahead = await self._send(self._row(older), None)
            if ahead.state == "waiting":
                return Delivery("waiting", (), ahead.error)
        return await self._send(row, session_id)

    async def deliver_waiting(self) -> int:
        """Send everything that still waits and has an open channel, the chats side by side; how many messages."""
        chats: dict[int, list[int]] = {}
        for outbox_id in (*self._outbox.waiting(), *self._unclosed()):
            row = self._row(outbox_id)
            if self._channel_of(row.chat_id) is not None:
                chats.setdefault(row.chat_id, []).append(outbox_id)
        await asyncio.gather(*(self._deliver_all(waiting) for waiting in chats.values()))
        return sum(len(waiting) for waiting in chats.values())

    async def _deliver_all(self, waiting: list[int]) -> None:
        for outbox_id in sorted(waiting):
            delivery = await self.deliver(outbox_id)
            log.info("outbox %s: %s", outbox_id, delivery.state)

    async def _send(self, row: OutboxRow, session_id: str | None) -> Delivery:
        channel = self._channel_of(row.chat_id)
        if channel is None:
            raise ChannelError(
                f"chat {row.chat_id} is on a channel that is not open",
                fix="Give the agent a Telegram token; the message waits in the outbox.",
            )

        async def send(part: Part) -> int:
            return await channel.send(row.chat_id, row.thread_id, part, reply_to=row.reply_to)

        delivery = await self._outbox.deliver(row.id, send)
        status = "delivered" if delivery.state == "delivered" else "partial"

        def work(tx: Tx) -> None:
            turn = tx.row("SELECT session_id FROM turns WHERE turn_id = ?", row.turn_id)
            self._archive.record_assistant(
                platform=channel.name,
                chat_id=row.chat_id,
                thread_id=row.thread_id,
                messages=delivery.sent,
                session_id=session_id if turn is None else turn["session_id"],
                turn_id=row.turn_id,
                tx=tx,
            )
            if delivery.state != "waiting":
                tx.run(
                    "UPDATE turns SET status = ? WHERE turn_id = ? AND status = 'replied'",
                    status,
                    row.turn_id,
                )

        await self._store.atransact(work)
        return delivery

    def _unclosed(self) -> list[int]:
        """Replies that are out, of turns a crash kept from saying so."""
        return [
            row["outbox_id"]
            for row in self._store.rows(
                "SELECT outbox_id FROM turns JOIN outbox ON outbox.id = outbox_id"
                " WHERE turns.status = 'replied' AND outbox.state <> 'waiting'"
            )
        ]

    def _row(self, outbox_id: int) -> OutboxRow:
        row = self._outbox.get(outbox_id)
        if row is None:
            raise ChannelError(f"no outbox entry {outbox_id}")
        return row
