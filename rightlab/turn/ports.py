"""What a turn needs from rooms beside or above it, as small protocols (design 3). ``runtime/`` hands them in."""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from rightlab.content import Part

__all__ = ["CallScope", "Channel", "PromptContext", "ToolAccess"]

Kind = Literal["foreground", "cron"]


@dataclass(frozen=True, slots=True)
class CallScope:
    """What one invocation may act for. Tools take chat, thread and session from here and nowhere else (spec 8.1)."""

    invocation_id: str
    kind: Kind
    chat_id: int
    thread_id: int
    session_id: str | None


class Channel(Protocol):
    """Where a turn's messages come from and its reply goes to."""

    @property
    def name(self) -> str: ...

    async def send(self, chat_id: int, thread_id: int, part: Part, *, reply_to: int | None = None) -> int:
        """Send one part, return the server's message id; raises the outbox's three send errors."""
        ...

    def typing(self, chat_id: int, thread_id: int) -> AbstractAsyncContextManager[None]:
        """Show that a turn runs (typing) while the context is open."""
        ...


class ToolAccess(Protocol):
    """The aggregator as a turn sees it: one MCP configuration per invocation."""

    def open(self, scope: CallScope, *, channel: Channel | None) -> Mapping[str, Any]:
        """Register ``scope`` and return the ``{"mcpServers": ...}`` document for it."""
        ...

    def close(self, invocation_id: str) -> None: ...


class PromptContext(Protocol):
    """Facts of one agent that the assembly context needs and that live elsewhere."""

    def __call__(self, *, chat_id: int, thread_id: int) -> Mapping[str, Any]: ...
