"""Who is heard: the routing decision (spec agent-runtime 4.1, B.2). Pure functions of an update and the
allowlist.
"""

from dataclasses import dataclass
from typing import Literal

from telegram import Message, MessageEntity, Update, User
from telegram.constants import ChatType

from rightlab.telegram.ports import Group, Trust

__all__ = ["Decision", "Kind", "addressed_kind", "decide", "effective_thread", "without_mention"]

Kind = Literal[
    "DirectMessage",
    "GroupReplyToBot",
    "GroupMentionEntity",
    "GroupMentionText",
    "GroupSlashCommand",
    "Admitted",
]
"""``Admitted``: unaddressed, but let in as an album sibling, a forward, or by mode ``all``."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What happens with a message: ``kind`` when it is to be run; archived or not; else why it is not run."""

    kind: Kind | None
    addressed: bool
    archive: bool
    reason: str | None = None


def effective_thread(message: Message) -> int:
    """The thread of the scope key: 0 for none, for General, and for the thread id that plain replies
    carry.
    """
    thread = message.message_thread_id
    return thread if thread is not None and thread > 1 and message.is_topic_message else 0


def decide(update: Update, trust: Trust, me: User) -> Decision:
    """Route, archive or ignore one update."""
    if update.channel_post is not None or update.edited_channel_post is not None:
        return _channel_post(update, trust)
    message = update.effective_message
    if message is None or (update.message is None and update.edited_message is None):
        return Decision(None, False, False, "not a message")
    sender = message.from_user
    if sender is None:
        return Decision(None, False, False, "no sender")
    if message.chat.type == ChatType.PRIVATE:
        if trust.trusts(sender.id):
            return Decision("DirectMessage", True, True)
        return Decision(None, False, False, "sender is not on the allowlist")
    group = trust.group(message.chat.id)
    if group is None and not trust.trusts(sender.id):
        return Decision(None, False, False, "neither sender nor group is on the allowlist")
    kind = addressed_kind(message, me)
    if kind is not None:
        return Decision(kind, True, True)
    if _admitted(message, group):
        return Decision("Admitted", False, True)
    return Decision(None, False, True, "not addressed")


def _channel_post(update: Update, trust: Trust) -> Decision:
    message = update.effective_message
    group = trust.group(message.chat.id) if message is not None else None
    if group is None or group.kind != "channel":
        return Decision(None, False, False, "the channel is not open")
    return Decision(None, False, True, "channel posts are archived only")


def _admitted(message: Message, group: Group | None) -> bool:
    return (
        message.media_group_id is not None
        or message.forward_origin is not None
        or (group is not None and group.mode_for(effective_thread(message)) == "all")
    )


def addressed_kind(message: Message, me: User) -> Kind | None:
    """How a group message addresses the bot, if it does: reply, text mention, @mention, command, in this
    order.
    """
    replied = message.reply_to_message
    if replied is not None and replied.from_user is not None and replied.from_user.id == me.id:
        return "GroupReplyToBot"
    entities = _entities(message)
    if any(entity.type == MessageEntity.TEXT_MENTION and _is(entity, me) for entity, _ in entities):
        return "GroupMentionEntity"
    handle = f"@{me.username}".lower()
    if any(entity.type == MessageEntity.MENTION and text.lower() == handle for entity, text in entities):
        return "GroupMentionText"
    for entity, text in entities:
        if entity.type == MessageEntity.BOT_COMMAND:
            _, at, suffix = text.partition("@")
            if not at or suffix.lower() == (me.username or "").lower():
                return "GroupSlashCommand"
    return None


def without_mention(message: Message, me: User) -> str:
    """The message's text or caption without mentions of the bot."""
    text = message.text or message.caption or ""
    handle = f"@{me.username}".lower()
    raw = text.encode("utf-16-le", "surrogatepass")
    for entity, found in sorted(_entities(message), key=lambda pair: pair[0].offset, reverse=True):
        mention = entity.type == MessageEntity.MENTION and found.lower() == handle
        if mention or (entity.type == MessageEntity.TEXT_MENTION and _is(entity, me)):
            raw = raw[: entity.offset * 2] + raw[(entity.offset + entity.length) * 2 :]
    return raw.decode("utf-16-le", "surrogatepass").strip()


def _is(entity: MessageEntity, me: User) -> bool:
    return entity.user is not None and entity.user.id == me.id


def _entities(message: Message) -> list[tuple[MessageEntity, str]]:
    found = message.parse_entities() if message.text else message.parse_caption_entities()
    return list(found.items())
