"""One agent's services under supervision, the host thread, the lease, the control socket (design 3, 7).

Modules are imported where they are used: what only reads needs none of what runs agents.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rightlab.runtime.agent import AgentRuntime

__all__ = ["AgentRuntime"]


def __getattr__(name: str) -> Any:
    if name == "AgentRuntime":
        from rightlab.runtime.agent import AgentRuntime

        return AgentRuntime
    raise AttributeError(f"module 'rightlab.runtime' has no attribute {name!r}")
