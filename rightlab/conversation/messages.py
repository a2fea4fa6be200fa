"""One inbound message as a turn sees it, whatever the channel (spec agent-runtime 1.10, 4.1)."""

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Literal

from rightlab.clock import iso, parse_iso

__all__ = ["Attachment", "ChatKind", "Inbound", "ReplyTarget", "Sender"]

ChatKind = Literal["dm", "group", "channel"]


@dataclass(frozen=True, slots=True)
class Sender:
    """Who wrote a message: the platform's number, the shown name, the handle without ``@``."""

    user_id: int
    name: str
    username: str | None = None


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file that came with a message. ``path`` is where the guest sees it, once it was fetched."""

    kind: str
    file_id: str | None = None
    mime_type: str | None = None
    filename: str | None = None
    size: int | None = None
    path: str | None = None


@dataclass(frozen=True, slots=True)
class ReplyTarget:
    """The message that this one answers; ``text`` is ``None`` when the platform did not send it."""

    message_id: int
    author: Sender | None = None
    text: str | None = None
    attachments: tuple[Attachment, ...] = ()


@dataclass(frozen=True, slots=True)
class Inbound:
    """One message that came in.

    ``thread_id`` is the effective one: 0 where there is no topic (spec agent-runtime 4.1). ``sent_at`` is
    aware. ``inbox_id`` is set once the message's inbox row is committed.
    """

    channel: str
    update_id: int | None
    chat_id: int
    thread_id: int
    message_id: int
    sent_at: datetime
    chat_kind: ChatKind
    sender: Sender
    text: str
    chat_title: str | None = None
    attachments: tuple[Attachment, ...] = ()
    reply_to: ReplyTarget | None = None
    quoted_text: str | None = None
    forward_from: Sender | None = None
    forward_date: datetime | None = None
    media_group_id: str | None = None
    addressed: bool = True
    edited: bool = False
    inbox_id: int | None = None

    def to_json(self) -> dict[str, Any]:
        """A JSON object from which :meth:`from_json` makes an equal message; dates as
        :func:`rightlab.clock.iso`.
        """
        data = asdict(self)
        data["sent_at"] = iso(self.sent_at)
        data["forward_date"] = None if self.forward_date is None else iso(self.forward_date)
        return data

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Inbound":
        """The inverse of :meth:`to_json`. Raises ``KeyError`` or ``TypeError`` on other shapes."""
        reply = data.get("reply_to")
        forward_date = data.get("forward_date")
        return cls(
            **{
                **data,
                "sent_at": parse_iso(data["sent_at"]),
                "sender": Sender(**data["sender"]),
                "attachments": _attachments(data.get("attachments")),
                "reply_to": None
                if reply is None
                else ReplyTarget(
                    message_id=reply["message_id"],
                    author=_sender(reply.get("author")),
                    text=reply.get("text"),
                    attachments=_attachments(reply.get("attachments")),
                ),
                "forward_from": _sender(data.get("forward_from")),
                "forward_date": None if forward_date is None else parse_iso(forward_date),
            }
        )


def _sender(data: dict[str, Any] | None) -> Sender | None:
    return None if data is None else Sender(**data)


def _attachments(data: Any) -> tuple[Attachment, ...]:
    return tuple(Attachment(**item) for item in data or ())
