"""From a Telegram update to an :class:`~rightlab.conversation.Inbound` (spec agent-runtime 1.10, 2.9,
4.1).
"""

from datetime import datetime
from typing import Any

from telegram import (
    Message,
    MessageOriginChannel,
    MessageOriginChat,
    MessageOriginHiddenUser,
    MessageOriginUser,
    PhotoSize,
    Update,
    User,
)
from telegram.constants import ChatType

from rightlab.conversation import Attachment, Inbound, ReplyTarget, Sender
from rightlab.conversation.messages import ChatKind
from rightlab.telegram.routing import effective_thread, without_mention

__all__ = ["CHANNEL", "to_inbound"]

CHANNEL = "telegram"

_KINDS = ("document", "video", "audio", "voice", "video_note", "sticker", "animation")


def to_inbound(update: Update, me: User, *, addressed: bool) -> Inbound | None:
    """The update's message; ``None`` when it carries none. The text of a group message loses the bot's
    mention.
    """
    message = update.effective_message
    if message is None:
        return None
    chat = message.chat
    forward_from, forward_date = _forward(message)
    return Inbound(
        channel=CHANNEL,
        update_id=update.update_id,
        chat_id=chat.id,
        thread_id=effective_thread(message),
        message_id=message.message_id,
        sent_at=message.edit_date or message.date,
        chat_kind=_chat_kind(chat.type),
        sender=_author(message) or Sender(chat.id, chat.title or ""),
        text=without_mention(message, me)
        if chat.type != ChatType.PRIVATE
        else message.text or message.caption or "",
        chat_title=chat.title,
        attachments=_attachments(message),
        reply_to=_reply_target(message),
        quoted_text=None if message.quote is None else message.quote.text,
        forward_from=forward_from,
        forward_date=forward_date,
        media_group_id=message.media_group_id,
        addressed=addressed,
        edited=update.edited_message is not None or update.edited_channel_post is not None,
    )


def _chat_kind(chat_type: str) -> ChatKind:
    if chat_type == ChatType.PRIVATE:
        return "dm"
    return "channel" if chat_type == ChatType.CHANNEL else "group"


def _author(message: Message) -> Sender | None:
    user = message.from_user
    if user is not None:
        return Sender(user.id, user.full_name, user.username)
    chat = message.sender_chat
    return None if chat is None else Sender(chat.id, chat.title or chat.full_name or "", chat.username)


def _reply_target(message: Message) -> ReplyTarget | None:
    target = message.reply_to_message
    if target is None or target.forum_topic_created is not None:
        # In a topic every message "replies" to the service message that opened it.
        return None
    return ReplyTarget(
        message_id=target.message_id,
        author=_author(target),
        text=target.text or target.caption,
        attachments=_attachments(target),
    )


def _forward(message: Message) -> tuple[Sender | None, datetime | None]:
    origin = message.forward_origin
    if origin is None:
        return None, None
    if isinstance(origin, MessageOriginUser):
        user = origin.sender_user
        return Sender(user.id, user.full_name, user.username), origin.date
    if isinstance(origin, MessageOriginHiddenUser):
        return Sender(0, origin.sender_user_name), origin.date
    if isinstance(origin, MessageOriginChat):
        return Sender(origin.sender_chat.id, origin.sender_chat.title or ""), origin.date
    if isinstance(origin, MessageOriginChannel):
        return Sender(origin.chat.id, origin.chat.title or "", origin.chat.username), origin.date
    return None, origin.date


def _attachments(message: Message) -> tuple[Attachment, ...]:
    found = [_photo(message.photo)] if message.photo else []
    for kind in _KINDS:
        file: Any = getattr(message, kind)
        # An animation comes with a document of the same file, for clients that do not know animations.
        if file is None or (kind == "document" and message.animation is not None):
            continue
        found.append(
            Attachment(
                kind=kind,
                file_id=file.file_id,
                mime_type=getattr(file, "mime_type", None),
                filename=getattr(file, "file_name", None),
                size=file.file_size,
            )
        )
    return tuple(found)


def _photo(sizes: tuple[PhotoSize, ...]) -> Attachment:
    largest = sizes[-1]
    return Attachment("photo", largest.file_id, "image/jpeg", None, largest.file_size)
