"""NotebookChannel: chat in a cell (design 4). No token, no network; the same inbox, turn and outbox as Telegram."""

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from rightlab.clock import Clock
from rightlab.content import Part
from rightlab.conversation import Archive, Inbound, Inbox, Sender

__all__ = ["NOTEBOOK_CHAT", "NotebookChannel"]

NOTEBOOK_CHAT: Final = 2**53 - 1
"""The notebook chat's id (contract): larger than any Telegram id, exact in JSON and JavaScript. Always allowed."""

YOU: Final = Sender(user_id=NOTEBOOK_CHAT, name="You", username=None)


class NotebookChannel:
    """Messages come from ``ask``; a part is delivered once it is in the archive that the cell shows."""

    name = "notebook"

    def __init__(self, inbox: Inbox, archive: Archive, clock: Clock) -> None:
        self._inbox = inbox
        self._archive = archive
        self._clock = clock
        start = int(clock.now().timestamp() * 1_000_000)
        # Ids only need to grow, also over restarts; microseconds do.
        self._ids = itertools.count(start)

    def message(self, text: str) -> Inbound:
        """``text`` as a durable inbound message: its inbox row is committed when this returns."""
        number = next(self._ids)
        now = self._clock.now()
        inbox_id = self._inbox.put(
            self.name,
            number,
            {"text": text, "sent_at": now.isoformat()},
            chat_id=NOTEBOOK_CHAT,
            thread_id=0,
        )
        message = Inbound(
            channel=self.name,
            update_id=number,
            chat_id=NOTEBOOK_CHAT,
            thread_id=0,
            message_id=number,
            sent_at=now,
            chat_kind="dm",
            sender=YOU,
            text=text,
            inbox_id=inbox_id,
        )
        self._archive.record_inbound(message, addressed=True, routed=True)
        return message

    async def send(self, chat_id: int, thread_id: int, part: Part, *, reply_to: int | None = None) -> int:
        return next(self._ids)

    @asynccontextmanager
    async def typing(self, chat_id: int, thread_id: int) -> AsyncIterator[None]:
        yield
