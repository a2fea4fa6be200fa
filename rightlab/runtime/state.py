"""``run/<agent>/state.json``: who owns an agent and how to reach it (design 7). 0600; written by the owner."""

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from rightlab.home import AgentHome
from rightlab.home.processes import is_alive
from rightlab.home.writers import atomic_write

__all__ = ["OwnerState", "clear_state", "read_state", "write_state"]


@dataclass(frozen=True, slots=True)
class OwnerState:
    """``pid`` and ``start`` together name one process; ``token`` opens the control socket; ``host`` says what it is."""

    pid: int
    start: str
    fence: int
    token: str
    host: str
    since: str
    ports: dict[str, Any] = field(default_factory=dict)


def write_state(agent: AgentHome, state: OwnerState) -> None:
    atomic_write(agent.state_path, json.dumps(asdict(state), indent=1), mode=0o600)


def read_state(agent: AgentHome) -> OwnerState | None:
    """The owner's state, or None when nobody is alive behind it."""
    try:
        raw = json.loads(agent.state_path.read_text())
        state = OwnerState(**raw)
    except (OSError, ValueError, TypeError):
        return None
    return state if is_alive(state.pid, state.start) else None


def clear_state(agent: AgentHome) -> None:
    agent.state_path.unlink(missing_ok=True)
