"""Logs: one rotating file per agent, never a handler on a stream (spec jupyter 3.2: nothing prints into cells)."""

import io
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from logging.handlers import RotatingFileHandler
from pathlib import Path

from rightlab.claude import redact_secrets
from rightlab.home import AgentHome, make_dir, open_append

__all__ = ["attach", "detach", "follow", "log_time", "tail"]

FILE = "rightlab.log"


_agent: ContextVar[str | None] = ContextVar("rightlab_agent", default=None)
"""Whose work this is: set where an agent starts and inherited by every task of it."""


class _Redacting(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return redact_secrets(super().format(record))


class _LogFile(RotatingFileHandler):
    """One agent's log, 0600. A process may host several agents: lines of another one stay out."""

    def __init__(self, path: Path, agent: str) -> None:
        self._name_of_agent = agent
        super().__init__(path, maxBytes=2_000_000, backupCount=3, encoding="utf-8", delay=True)

    def filter(self, record: logging.LogRecord) -> bool:
        return _agent.get() in (None, self._name_of_agent) and bool(super().filter(record))

    def _open(self) -> io.TextIOWrapper:
        return io.TextIOWrapper(open_append(self.baseFilename, 0o600), encoding="utf-8", write_through=True)

    def handleError(self, record: logging.LogRecord) -> None:
        """Say nothing: logging's own way is to print the traceback, in a kernel into the running cell."""


def attach(agent: AgentHome) -> logging.Handler:
    """Log what this task and all it starts say under ``rightlab`` into the agent's file; :func:`detach` ends it."""
    _agent.set(agent.name)
    make_dir(agent.logs_dir, 0o700)
    handler = _LogFile(agent.logs_dir / FILE, agent.name)
    handler.setFormatter(_Redacting("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    root = logging.getLogger("rightlab")
    root.setLevel(logging.INFO)
    root.propagate = False
    root.addHandler(handler)
    return handler


def detach(handler: logging.Handler) -> None:
    logging.getLogger("rightlab").removeHandler(handler)
    handler.close()


def tail(agent: AgentHome, lines: int) -> Iterable[str]:
    """The last ``lines`` lines of the current log file."""
    try:
        with (agent.logs_dir / FILE).open(encoding="utf-8", errors="replace") as file:
            return [line.rstrip("\n") for line in deque(file, maxlen=lines)]
    except FileNotFoundError:
        return []


def log_time(agent: AgentHome) -> float | None:
    """When the log was last written (seconds since the epoch), None without a log."""
    try:
        return (agent.logs_dir / FILE).stat().st_mtime
    except OSError:
        return None


def follow(agent: AgentHome, wait: Callable[[], object]) -> Iterator[str]:
    """Lines as they are added from now on, for ever; ``wait`` is called when there is nothing new."""
    path = agent.logs_dir / FILE
    at = path.stat().st_size if path.exists() else 0
    while True:
        size = path.stat().st_size if path.exists() else 0
        if size < at:
            at = 0  # rotated
        if size == at:
            wait()
            continue
        with path.open("rb") as file:
            file.seek(at)
            chunk = file.read(size - at)
        whole = chunk[: chunk.rfind(b"\n") + 1]
        at += len(whole)
        if not whole:
            wait()
        yield from whole.decode("utf-8", "replace").splitlines()
