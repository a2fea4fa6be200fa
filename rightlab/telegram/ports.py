"""What the Telegram room needs from others, as ports."""

from collections.abc import Awaitable, Callable
from typing import Protocol

from rightlab.conversation import Inbound

__all__ = ["Group", "OnConnected", "OnMessage", "Trust"]


class Group(Protocol):
    """An opened group or channel (spec agent-runtime 9.1): ``kind`` is group or channel."""

    @property
    def kind(self) -> str: ...

    def mode_for(self, thread_id: int) -> str:
        """The response mode there: ``addressed`` or ``all``."""
        ...


class Trust(Protocol):
    """The allowlist as it is now."""

    def trusts(self, user_id: int) -> bool: ...

    def group(self, chat_id: int) -> Group | None: ...


OnMessage = Callable[[Inbound], Awaitable[None]]
"""Called for each routed message after its inbox row is committed, in order. It should queue and return:
while it
runs no other update is fetched."""

OnConnected = Callable[[], Awaitable[None]]
"""Called each time the server answers again after it did not: what waits in the outbox can go out."""
