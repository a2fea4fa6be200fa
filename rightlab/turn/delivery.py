"""From the outbox to a chat: the last step of a turn, a cron result or a tool's message, the same for all."""

import logging
from collections.abc import Callable

from rightlab.content import Part
from rightlab.conversation import Archive, Delivery, Outbox
from rightlab.errors import ChannelError
from rightlab.store import Store
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
        """Send the message ``outbox_id`` on the channel of its chat. Raises ChannelError when that is not open."""
        row = self._outbox.get(outbox_id)
        if row is None:
            raise ChannelError(f"no outbox entry {outbox_id}")
        channel = self._channel_of(row.chat_id)
        if channel is None:
            raise ChannelError(
                f"chat {row.chat_id} is on a channel that is not open",
                fix="Give the agent a Telegram token; the message waits in the outbox.",
            )

        async def send(part: Part) -> int:
            return await channel.send(row.chat_id, row.thread_id, part, reply_to=row.reply_to)

        delivery = await self._outbox.deliver(outbox_id, send)
        if delivery.sent:
            self._archive.record_assistant(
                platform=channel.name,
                chat_id=row.chat_id,
                thread_id=row.thread_id,
                messages=delivery.sent,
                session_id=session_id,
                turn_id=row.turn_id,
            )
        if row.turn_id is not None and delivery.state != "waiting":
            status = "delivered" if delivery.state == "delivered" else "partial"
            await self._store.atransact(
                lambda tx: tx.run(
                    "UPDATE turns SET status = ? WHERE turn_id = ? AND status = 'replied'",
                    status,
                    row.turn_id,
                )
            )
        return delivery

    async def deliver_waiting(self) -> int:
        """Send everything that still waits and has an open channel; how many messages were tried."""
        tried = 0
        for outbox_id in self._outbox.waiting():
            row = self._outbox.get(outbox_id)
            if row is not None and self._channel_of(row.chat_id) is not None:
                tried += 1
                delivery = await self.deliver(outbox_id)
                log.info("outbox %s: %s", outbox_id, delivery.state)
        return tried
