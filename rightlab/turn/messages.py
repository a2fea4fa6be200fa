"""From a channel's message to what the prompt shows of it (spec agent-runtime 1.7, 1.10)."""

from rightlab.conversation import Inbound, Sender
from rightlab.prompt import Attachment, Author, ConversationInfo, UserMessage

__all__ = ["conversation_info", "user_message"]


def user_message(message: Inbound) -> UserMessage:
    """``message`` as one entry of the stdin document. DMs name no author: the conversation block does."""
    return UserMessage(
        id=message.message_id,
        ts=message.sent_at,
        text=message.text,
        author=_author(message.sender) if message.chat_kind != "dm" else None,
        forward_from=_author(message.forward_from),
        forward_date=message.forward_date,
        reply_to_id=message.reply_to.message_id if message.reply_to is not None else None,
        quoted_text=message.quoted_text,
        attachments=tuple(
            Attachment(type=item.kind, path=item.path, mime_type=item.mime_type, filename=item.filename)
            for item in message.attachments
            if item.path is not None
        ),
    )


def conversation_info(message: Inbound) -> ConversationInfo:
    """The stable facts of the chat ``message`` came from."""
    dm = message.chat_kind == "dm"
    return ConversationInfo(
        chat_id=message.chat_id,
        kind="dm" if dm else "group",
        user=_author(message.sender) if dm else None,
        title=None if dm else message.chat_title,
        topic_id=message.thread_id or None,
    )


def _author(sender: Sender | None) -> Author | None:
    if sender is None:
        return None
    return Author(name=sender.name, username=sender.username, user_id=sender.user_id)
