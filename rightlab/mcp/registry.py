"""Which invocation may act for which chat (spec agent-runtime 8.1): the only place a scope comes from.

The CLI sends ``X-Right-Invocation`` and that invocation's bearer with every MCP request; the tools take chat,
thread and session from the entry of that name and from nowhere else, so an agent cannot name somebody else's
chat.
"""

import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from rightlab.content import RichContent
from rightlab.errors import UsageError

__all__ = ["InvocationKind", "InvocationRegistry", "MessagePort", "Scope"]

InvocationKind = Literal[
    "foreground", "cron", "background", "delivery", "reflection", "probe_writer", "curator"
]


class MessagePort(Protocol):
    """Sends a message of its own into the scope's chat, while the turn goes on."""

    async def send_message(
        self, scope: "Scope", content: RichContent | None, attachments: Sequence[Any]
    ) -> list[int]:
        """The ids of the messages sent. Raises ChannelError when nothing was sent."""
        ...


@dataclass(eq=False)
class Scope:
    """What one running invocation acts for. ``calls`` counts its calls per tool (limits of spec 8.3)."""

    invocation_id: str
    kind: InvocationKind
    chat_id: int
    thread_id: int = 0
    session_id: str | None = None
    messages: MessagePort | None = None
    calls: Counter[str] = field(default_factory=Counter)


class InvocationRegistry:
    """The invocations that run now. Safe from any thread.

    A warm process keeps its invocation id over many turns: each turn registers it anew (with fresh limits)
    and unregisters it at its end, so a call between turns finds no scope.
    """

    def __init__(self) -> None:
        self._scopes: dict[str, Scope] = {}
        self._lock = threading.Lock()

    def register(
        self,
        invocation_id: str,
        kind: InvocationKind,
        chat_id: int,
        thread_id: int = 0,
        session_id: str | None = None,
        *,
        messages: MessagePort | None = None,
    ) -> Scope:
        """Open a scope.

        Raises:
            UsageError: an invocation of this id is running.
        """
        scope = Scope(invocation_id, kind, chat_id, thread_id, session_id, messages)
        with self._lock:
            if invocation_id in self._scopes:
                raise UsageError("this invocation is running already", where=invocation_id)
            self._scopes[invocation_id] = scope
        return scope

    def unregister(self, invocation_id: str) -> None:
        """Close a scope; one that is not open is fine."""
        with self._lock:
            self._scopes.pop(invocation_id, None)

    def lookup(self, invocation_id: str | None) -> Scope | None:
        """The open scope of this id, or None."""
        with self._lock:
            return None if invocation_id is None else self._scopes.get(invocation_id)

    def running(self) -> list[Scope]:
        """All open scopes, oldest first."""
        with self._lock:
            return list(self._scopes.values())
