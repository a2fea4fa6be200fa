"""Logs: one rotating file per agent, never a handler on a stream (spec jupyter 3.2: nothing prints into cells)."""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from logging.handlers import RotatingFileHandler

from rightlab.claude import redact_secrets
from rightlab.home import AgentHome, make_dir

__all__ = ["attach", "detach", "follow", "tail"]

FILE = "rightlab.log"


class _Redacting(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return redact_secrets(super().format(record))


def attach(agent: AgentHome) -> logging.Handler:
    """Start logging ``rightlab.*`` into the agent's log file; :func:`detach` ends it."""
    make_dir(agent.logs_dir, 0o700)
    handler = RotatingFileHandler(
        agent.logs_dir / FILE, maxBytes=2_000_000, backupCount=3, encoding="utf-8", delay=True
    )
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
