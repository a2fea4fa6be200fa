"""What the prompt says about the conversation it is for (spec agent-runtime 1.7)."""

from dataclasses import dataclass

from rightlab.prompt.message import Author
from rightlab.prompt.scalars import quote

__all__ = ["ConversationInfo", "conversation_block"]


@dataclass(frozen=True)
class ConversationInfo:
    """The stable facts of one (chat, thread). ``kind`` is ``dm`` or ``group``; the rest as far as known."""

    chat_id: int
    kind: str = "dm"
    user: Author | None = None
    title: str | None = None
    topic_id: int | None = None
    topic: str | None = None


def conversation_block(info: ConversationInfo) -> str:
    """The lines below ``## Current Conversation``; text is quoted so that no name can forge a line."""
    lines = [f"chat_id: {info.chat_id}", f"kind: {info.kind}"]
    if info.kind == "dm":
        if info.user is not None:
            lines.append(f"user: {_person(info.user)}")
        return "\n".join(lines)
    if info.title is not None:
        lines.append(f"title: {quote(info.title)}")
    if info.topic_id:
        lines.append(f"topic_id: {info.topic_id}")
        if info.topic is not None:
            lines.append(f"topic: {quote(info.topic)}")
    return "\n".join(lines)


def _person(user: Author) -> str:
    notes = []
    if user.username:
        notes.append(quote("@" + user.username.removeprefix("@")))
    if user.user_id is not None:
        notes.append(f"id {user.user_id}")
    return quote(user.name) + (f" ({', '.join(notes)})" if notes else "")
