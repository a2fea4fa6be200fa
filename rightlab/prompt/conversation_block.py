"""What the prompt says about the conversation it is for (spec agent-runtime 1.7)."""

from dataclasses import dataclass

from rightlab.prompt.scalars import quote

__all__ = ["ConversationInfo", "conversation_block"]


@dataclass(frozen=True)
class ConversationInfo:
    """The stable facts of one (chat, thread). ``kind`` is ``dm`` or ``group``; the rest as far as known."""

    chat_id: int
    kind: str = "dm"
    user_name: str | None = None
    username: str | None = None
    user_id: int | None = None
    title: str | None = None
    topic_id: int | None = None
    topic: str | None = None


def conversation_block(info: ConversationInfo) -> str:
    """The lines below ``## Current Conversation``; text is quoted so that no name can forge a line."""
    lines = [f"chat_id: {info.chat_id}", f"kind: {info.kind}"]
    if info.kind == "dm":
        notes = []
        if info.username:
            notes.append(quote("@" + info.username.removeprefix("@")))
        if info.user_id is not None:
            notes.append(f"id {info.user_id}")
        if info.user_name is not None or notes:
            suffix = f" ({', '.join(notes)})" if notes else ""
            lines.append(f"user: {quote(info.user_name or '')}{suffix}")
        return "\n".join(lines)
    if info.title is not None:
        lines.append(f"title: {quote(info.title)}")
    if info.topic_id:
        lines.append(f"topic_id: {info.topic_id}")
        if info.topic is not None:
            lines.append(f"topic: {quote(info.topic)}")
    return "\n".join(lines)
