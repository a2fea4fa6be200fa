"""What was said: the durable inbox, the searchable archive, sessions, and the outbox with delivery states."""

from rightlab.conversation.archive import Archive, Found
from rightlab.conversation.inbox import Inbox, InboxRow, NewUpdate
from rightlab.conversation.messages import Attachment, Inbound, ReplyTarget, Sender
from rightlab.conversation.outbox import Outbox
from rightlab.conversation.sending import (
    Delivery,
    OutboxRow,
    PartRow,
    SendLater,
    SendRejected,
    SendUncertain,
)
from rightlab.conversation.sessions import Session, Sessions

__all__ = [
    "Archive",
    "Attachment",
    "Delivery",
    "Found",
    "Inbound",
    "Inbox",
    "InboxRow",
    "NewUpdate",
    "Outbox",
    "OutboxRow",
    "PartRow",
    "ReplyTarget",
    "SendLater",
    "SendRejected",
    "SendUncertain",
    "Sender",
    "Session",
    "Sessions",
]
