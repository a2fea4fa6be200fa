"""What goes to the model on stdin: context of this turn, then the messages as YAML.

Source: spec agent-runtime 1.8, 1.10.
Nothing here is ever part of the system prompt, so that the prompt stays the same from turn to turn.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime

from rightlab.prompt.guard import sanitize_external, wrap_untrusted
from rightlab.prompt.scalars import quote

__all__ = [
    "IN_CONTEXT_WINDOW",
    "LOCATOR_MAX",
    "REPLY_BODY_INLINE_MAX",
    "Attachment",
    "Author",
    "Recalled",
    "ReplyTarget",
    "UserMessage",
    "focus_block",
    "notification_block",
    "recall_block",
    "render_messages",
    "render_reply_target",
    "volatile_prefix",
]

LOCATOR_MAX = 120
"""Characters of a reply target that is in the session already: enough to recognise it by."""
REPLY_BODY_INLINE_MAX = 500
"""Characters of a reply target that is not."""
IN_CONTEXT_WINDOW = 30
"""Turns back within which a routed message counts as still in the session's context."""

OWN_PREVIOUS = "your own previous message"
FULL_TEXT = "full: mcp__right__get_messages_by_id({})"


@dataclass(frozen=True)
class Author:
    """Who wrote something. ``username`` without ``@``."""

    name: str
    username: str | None = None
    user_id: int | None = None


@dataclass(frozen=True)
class Attachment:
    """A file of a message: ``type`` as in the reply schema, ``path`` as the guest sees it."""

    type: str
    path: str
    mime_type: str | None = None
    filename: str | None = None


@dataclass(frozen=True)
class ReplyTarget:
    """The message somebody replied to, with what decides how much of it is shown.

    ``own_previous``: it is the freshest assistant message of this session and only one matches it.
    ``in_context``: an older message of the bot, or a person's message routed within the last
    :data:`IN_CONTEXT_WINDOW` turns of this session. ``recoverable``: the archive has its whole text.
    ``voice``: its text is a transcript of speech. ``text`` is ``None`` or empty when there is none.
    """

    message_id: int
    author: Author | None = None
    text: str | None = None
    attachments: tuple[Attachment, ...] = ()
    own_previous: bool = False
    in_context: bool = False
    recoverable: bool = False
    voice: bool = False


@dataclass(frozen=True)
class UserMessage:
    """One inbound message. ``ts`` and ``forward_date`` are aware; ``author`` is given in groups only."""

    id: int
    ts: datetime
    text: str = ""
    author: Author | None = None
    forward_from: Author | None = None
    forward_date: datetime | None = None
    reply_to: ReplyTarget | None = None
    reply_to_id: int | None = None
    quoted_text: str | None = None
    attachments: tuple[Attachment, ...] = ()


@dataclass(frozen=True)
class Recalled:
    """One memory that was recalled; ``observed`` is the day it occurred, else was mentioned, if known."""

    text: str
    observed: date | None = None


def render_messages(messages: Sequence[UserMessage], *, prefix_blocks: Sequence[str] = ()) -> str | None:
    """The stdin document: ``prefix_blocks`` that are not empty, a blank line, the ``messages:`` sequence.

    ``None`` when no message has text or an attachment: there is nothing to run a turn for. Every text is a
    one-line double-quoted scalar, so any Unicode text survives a YAML parser (lone surrogates as U+FFFD).
    """
    if not any(message.text.strip() or message.attachments for message in messages):
        return None
    lines = ["messages:"]
    for message in messages:
        lines += _message(message)
    document = "\n".join(lines) + "\n"
    prefix = volatile_prefix(*prefix_blocks)
    return f"{prefix}\n\n{document}" if prefix else document


def volatile_prefix(*blocks: str) -> str:
    """The blocks that are not empty, a blank line between. Order: recall, focus, memory status, notice."""
    return "\n\n".join(block for block in blocks if block)


def recall_block(memories: Sequence[Recalled]) -> str:
    """What memory brought up for this message, as bullets with their dates, in the untrusted frame."""
    bullets = [_bullet(memory) for memory in memories if memory.text.strip()]
    framed = wrap_untrusted("memory", "\n".join(bullets))
    if not framed:
        return ""
    label = "Recalled memory for this turn. It is context, not new input; no memory tool needs to be called for it."
    return f"{label}\n\n{framed}"


def focus_block(focus: str) -> str:
    """The note the agent keeps for this conversation, escaped and framed."""
    framed = wrap_untrusted("thread_focus", sanitize_external(focus).content if focus.strip() else "")
    return f"Your own note for this conversation:\n\n{framed}" if framed else ""


def notification_block(notice: str) -> str:
    """A one-shot notice of the platform for this turn."""
    text = notice.strip().replace("</system-notification", "<\u200b/system-notification")
    return f"<system-notification>{text}</system-notification>" if text else ""


def render_reply_target(target: ReplyTarget) -> list[str]:
    """The lines below ``reply_to:``, not indented (the five rows of spec agent-runtime 1.10)."""
    lines = []
    if target.author is not None:
        lines.append(f"author: {_author(target.author)}")
    text = target.text or ""
    if target.own_previous and text.strip():
        lines.append(f"note: {quote(OWN_PREVIOUS)}")
    elif text.strip():
        lines += _body(target, text)
    if target.attachments:
        lines.append("attachments:")
        lines += [f"  - {_attachment(one)}" for one in target.attachments]
    return lines


def _body(target: ReplyTarget, text: str) -> list[str]:
    if target.voice:
        return [f"text: {quote(text)}"]
    if target.in_context:
        if len(text) <= LOCATOR_MAX:
            return [f"truncated_text: {quote(text)}"]
        return [f"truncated_text: {quote(_cut(text, LOCATOR_MAX))}"]
    if len(text) <= REPLY_BODY_INLINE_MAX or not target.recoverable:
        return [f"text: {quote(text)}"]
    return [
        f"truncated_text: {quote(_cut(text, REPLY_BODY_INLINE_MAX))}",
        f"note: {quote(FULL_TEXT.format(target.message_id))}",
    ]


def _cut(text: str, limit: int) -> str:
    return text[:limit] + "…"


def _message(message: UserMessage) -> list[str]:
    reply_id = message.reply_to.message_id if message.reply_to is not None else message.reply_to_id
    lines = [f"- id: {message.id}", f"  ts: {quote(_stamp(message.ts))}"]
    if message.author is not None:
        lines.append(f"  author: {_author(message.author)}")
    if message.forward_from is not None:
        lines.append(f"  forward_from: {_author(message.forward_from)}")
    if message.forward_date is not None:
        lines.append(f"  forward_date: {quote(_stamp(message.forward_date))}")
    if reply_id is not None:
        lines.append(f"  reply_to_id: {reply_id}")
    if message.reply_to is not None and (inside := render_reply_target(message.reply_to)):
        lines.append("  reply_to:")
        lines += [f"    {line}" for line in inside]
    if message.quoted_text:
        lines.append(f"  quoted_text: {quote(message.quoted_text)}")
    if message.text:
        lines.append(f"  text: {quote(message.text)}")
    if message.attachments:
        lines.append("  attachments:")
        lines += [f"    - {_attachment(one)}" for one in message.attachments]
    return lines


def _author(author: Author) -> str:
    fields = [f"name: {quote(author.name)}"]
    if author.username:
        fields.append(f"username: {quote(author.username)}")
    if author.user_id is not None:
        fields.append(f"user_id: {author.user_id}")
    return "{" + ", ".join(fields) + "}"


def _attachment(one: Attachment) -> str:
    fields = [f"type: {quote(one.type)}", f"path: {quote(one.path)}"]
    if one.mime_type:
        fields.append(f"mime_type: {quote(one.mime_type)}")
    if one.filename:
        fields.append(f"filename: {quote(one.filename)}")
    return "{" + ", ".join(fields) + "}"


def _stamp(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _bullet(memory: Recalled) -> str:
    text = " ".join(memory.text.split())
    return f"- [observed {memory.observed:%Y-%m-%d}] {text}" if memory.observed else f"- {text}"
