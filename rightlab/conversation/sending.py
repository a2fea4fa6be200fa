"""What a channel's send says about a part, how a delivery ended, and its rows (spec agent-runtime 2.2)."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from rightlab.errors import ChannelError

__all__ = [
    "Delivery",
    "OutboxRow",
    "OutboxState",
    "PartRow",
    "PartState",
    "SendLater",
    "SendRejected",
    "SendUncertain",
]

OutboxState = Literal["waiting", "delivered", "partial", "uncertain", "failed"]
PartState = Literal["pending", "sending", "sent", "uncertain", "failed"]


class SendRejected(ChannelError):
    """The platform refused the message for good; nothing was stored.

    ``whole`` is true when no other part can fare better (chat gone, bot blocked).
    """

    def __init__(self, message: str, *, whole: bool = False, fix: str | None = None) -> None:
        super().__init__(message, fix=fix)
        self.whole = whole


class SendUncertain(ChannelError):
    """The request may have reached the platform, the answer did not come back."""


_LONGEST_WAIT = 7 * 86_400.0
"""Seconds. What a platform asks for beyond this is a mistake, not a wait."""


class SendLater(ChannelError):
    """Nothing was stored; try again.

    ``retry_after`` is the wait in seconds that the platform asked for, and is obeyed up to a week.
    ``None`` means that the platform was not reached: tried again with growing pauses, then left for the
    next connection.
    """

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        if retry_after is not None and not 0 <= retry_after <= _LONGEST_WAIT:
            # No date can hold it; nan, which is no number at all, comes here too.
            retry_after = 0.0 if retry_after < 0 else _LONGEST_WAIT
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


@dataclass(frozen=True, slots=True)
class PartRow:
    """One part as stored."""

    part: int
    kind: str
    text: str
    state: PartState
    message_id: int | None
    error: str | None
    attempts: int
    not_before: datetime | None


@dataclass(frozen=True, slots=True)
class OutboxRow:
    """One message to somebody, with its parts."""

    id: int
    source: str
    chat_id: int
    thread_id: int
    turn_id: str | None
    run_id: str | None
    reply_to: int | None
    content: Any
    state: OutboxState
    error: str | None
    created_at: datetime
    parts: tuple[PartRow, ...]
