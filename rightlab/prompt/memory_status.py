"""When the agent is told that its memory works differently now (spec agent-runtime 1.9).

Edge-triggered per (chat, thread) and kept in memory only: a change is told once, an unchanged state never
again, recovery once. What was told counts only after it really reached the process.
"""

from dataclasses import dataclass
from enum import Enum

__all__ = ["MemoryState", "MemoryStatus", "MemoryStatusMarker", "PendingMarker"]


class MemoryState(Enum):
    """How the memory service is."""

    HEALTHY = "healthy"
    DEGRADED = "degraded"
    UNAVAILABLE_AUTH = "unavailable-auth"
    UNAVAILABLE_CREDITS = "unavailable-credits"
    RETAIN_ERRORS = "retain-errors"


@dataclass(frozen=True)
class MemoryStatus:
    """A state with the number of records rejected in the last 24 hours (for ``RETAIN_ERRORS``)."""

    state: MemoryState
    dropped: int = 0

    def body(self) -> str:
        """The text between the marker's tags; ``recovered`` for a healthy memory."""
        match self.state:
            case MemoryState.DEGRADED:
                return "degraded — what is recalled may be incomplete or old, what is stored may have to wait"
            case MemoryState.UNAVAILABLE_CREDITS:
                return (
                    "unavailable — the memory account is out of credits, and every memory call will fail until "
                    "it has some. Tell the user clearly that they must add credits at "
                    "https://hindsight.vectorize.io"
                )
            case MemoryState.UNAVAILABLE_AUTH:
                return (
                    "unavailable — memory provider authentication failed, and every memory call will fail "
                    "until the user rotates the API key"
                )
            case MemoryState.RETAIN_ERRORS:
                return (
                    f"retain-errors: {self.dropped} records were rejected in the last 24h; the logs say why"
                )
            case MemoryState.HEALTHY:
                return "recovered — memory works as usual again"


@dataclass
class PendingMarker:
    """A marker to put before the message. :meth:`commit` once stdin was delivered; else it is told again."""

    text: str
    _owner: "MemoryStatusMarker"
    _scope: tuple[int, int]
    _state: MemoryState

    def commit(self) -> None:
        self._owner._told[self._scope] = self._state


class MemoryStatusMarker:
    """What each (chat, thread) was last told about memory."""

    def __init__(self) -> None:
        self._told: dict[tuple[int, int], MemoryState] = {}

    def pending(self, chat_id: int, thread_id: int, status: MemoryStatus) -> PendingMarker | None:
        """The marker this conversation should get now, or ``None`` when it knows already.

        The end of retain errors is no recovery worth a line: that change is committed at once, without one.
        """
        scope = (chat_id, thread_id)
        told = self._told.get(scope, MemoryState.HEALTHY)
        if status.state is told:
            return None
        if status.state is MemoryState.HEALTHY and told is MemoryState.RETAIN_ERRORS:
            self._told[scope] = MemoryState.HEALTHY
            return None
        return PendingMarker(f"<memory-status>{status.body()}</memory-status>", self, scope, status.state)
