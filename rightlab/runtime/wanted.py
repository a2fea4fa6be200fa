"""Which kernel is meant to run an agent: a restart of that kernel brings the agent back, a stop on purpose does not.

Loaded with the extension, so it imports nothing that costs time.
"""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rightlab.home import AgentHome

__all__ = ["kernel_id", "unwant", "want", "wanted_by"]

NAME = "wanted.json"


def kernel_id() -> str | None:
    """The connection file's name: the same before and after a restart of this kernel. None outside a kernel."""
    if "ipykernel" not in sys.modules:
        return None
    try:
        from ipykernel.connect import get_connection_file

        return Path(get_connection_file()).name
    except (RuntimeError, OSError, ValueError):
        return None


def want(agent: "AgentHome") -> None:
    """Note that this kernel is meant to run ``agent``; nothing outside a kernel."""
    from rightlab.home import atomic_write

    name = kernel_id()
    if name is not None:
        atomic_write(agent.run_dir / NAME, json.dumps({"kernel": name}), mode=0o600)


def unwant(agent: "AgentHome") -> None:
    """Somebody stopped the agent on purpose: no kernel brings it back."""
    (agent.run_dir / NAME).unlink(missing_ok=True)


def wanted_by(home: Path, kernel: str) -> list[str]:
    """The agents of the home folder ``home`` that ``kernel`` is meant to run. Only looks."""
    found = []
    for note in sorted((home / "run").glob(f"*/{NAME}")):
        try:
            wanted = json.loads(note.read_text())["kernel"] == kernel
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if wanted:
            found.append(note.parent.name)
    return found
