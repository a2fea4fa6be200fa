"""The processes a child started, whatever session they moved to.

Claude Code's Bash tool gives its commands a session of their own, so that killing the child's process group
leaves them running. A sandbox with a pid namespace ends them with the child; without one they are found here.
"""

import contextlib
import os
import signal
from pathlib import Path

__all__ = ["Family"]

_PROC = Path("/proc")


class Family:
    """Descendants of one process. They are told by pid and start time, so a pid used again is not hit.

    Works where there is ``/proc``; elsewhere it knows of nobody.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._start = _start_of(pid)
        self._known: dict[int, str] = {}

    def look(self) -> None:
        """Remember who is there now. To be called while the head of the family is alive: later its orphans
        cannot be told from others."""
        todo = self._alive()
        if self._start is not None and _start_of(self.pid) == self._start:
            todo.append(self.pid)
        while todo:
            for pid in _children_of(todo.pop()):
                start = _start_of(pid)
                if start is not None and self._known.get(pid) != start:
                    self._known[pid] = start
                    todo.append(pid)

    def kill(self) -> None:
        """Kill everybody known, also those they start meanwhile."""
        for _ in range(3):
            self.look()
            alive = self._alive()
            if not alive:
                return
            for pid in alive:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)

    def _alive(self) -> list[int]:
        return [pid for pid, start in self._known.items() if _start_of(pid) == start]


def _children_of(pid: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError, ValueError):
        for task in os.scandir(_PROC / str(pid) / "task"):
            with contextlib.suppress(OSError):
                found += map(int, (Path(task.path) / "children").read_bytes().split())
    return found


def _start_of(pid: int) -> str | None:
    """When a process started, in clock ticks; None when it is gone or only a zombie."""
    try:
        fields = (_PROC / str(pid) / "stat").read_text(errors="replace").rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        return None
    return None if fields[0] in "ZX" else fields[19]
