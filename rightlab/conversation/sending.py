"""What a channel's send says about a part, and how a delivery ended (spec agent-runtime 2.2)."""

from dataclasses import dataclass
from typing import Literal

from rightlab.errors import ChannelError

__all__ = ["Delivery", "OutboxState", "SendLater", "SendRejected", "SendUncertain"]

OutboxState = Literal["waiting", "delivered", "partial", "uncertain", "failed"]


class SendRejected(ChannelError):
    """The platform refused the message for good; nothing was stored.

    ``whole`` is true when no other part can fare better (chat gone, bot blocked).
    """

    def __init__(self, message: str, *, whole: bool = False, fix: str | None = None) -> None:
        super().__init__(message, fix=fix)
        self.whole = whole


class SendUncertain(ChannelError):
    """The request may have reached the platform, the answer did not come back."""


class SendLater(ChannelError):
    """Nothing was stored; try again.

    ``retry_after`` is the wait in seconds that the platform asked for, and is obeyed whatever its length.
    ``None`` means that the platform was not reached: tried again with growing pauses, then left for the
    next connection.
    """

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


@dataclass(frozen=True, slots=True)
class Delivery:
    """How a delivery ended.

    ``delivered``: every part is confirmed. ``partial``: some are, the others were refused. ``failed``:
    none is, all were refused. ``uncertain``: at least one part may or may not have arrived. ``waiting``:
    the platform was not reached, the rest goes out with the next :meth:`Outbox.deliver`. ``message_ids``
    are the confirmed ones in order; ``sent`` pairs them with their text; ``error`` is the first one met.
    """

    state: OutboxState
    message_ids: tuple[int, ...]
    error: str | None
    sent: tuple[tuple[int, str], ...] = ()
