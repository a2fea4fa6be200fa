"""The record of every connection a guest made or tried: JSON lines, a few files of bounded size."""

import json
import logging
import os
import time
from pathlib import Path
from typing import Protocol

from rightlab.clock import Clock, iso
from rightlab.errors import RightlabError
from rightlab.home.writers import append_line

__all__ = ["EgressLog"]

_MAX_BYTES = 4 * 1024 * 1024
_KEEP = 3


class _Connection(Protocol):
    started: float
    verdict: str
    method: str
    host: str
    port: int | None
    addr: str | None
    sent: int
    received: int
    reason: str | None


class EgressLog:
    """Appends ``{time, agent, verdict, method, host, port, addr, bytes, sent, received, ms, reason}``.

    ``verdict`` is allow, deny or error; ``bytes`` = sent + received. At ``max_bytes`` the file becomes
    ``<name>.1`` (and so on, ``keep`` old ones). A disk that cannot take the line is told once to the
    process's log; the connection's own fate does not depend on it.
    """

    def __init__(
        self, path: Path | None, agent: str, clock: Clock, *, max_bytes: int = _MAX_BYTES, keep: int = _KEEP
    ) -> None:
        self._path, self._agent, self._clock = path, agent, clock
        self._max_bytes, self._keep = max_bytes, keep
        self._told = False

    def write(self, connection: _Connection) -> None:
        if self._path is None:
            return
        line = {
            "time": iso(self._clock.now()),
            "agent": self._agent,
            "verdict": connection.verdict,
            "method": connection.method,
            "host": connection.host,
            "port": connection.port,
            "addr": connection.addr,
            "bytes": connection.sent + connection.received,
            "sent": connection.sent,
            "received": connection.received,
            "ms": round((time.monotonic() - connection.started) * 1000, 1),
            "reason": connection.reason,
        }
        try:
            self._rotate(self._path)
            append_line(self._path, json.dumps(line, ensure_ascii=False))
            self._told = False
        except (RightlabError, OSError) as error:
            if not self._told:
                self._told = True
                logging.getLogger(__name__).warning("the egress log cannot be written: %s", error)

    def _rotate(self, path: Path) -> None:
        try:
            if path.stat().st_size < self._max_bytes:
                return
        except FileNotFoundError:
            return
        for number in range(self._keep, 0, -1):
            older = path if number == 1 else path.with_name(f"{path.name}.{number - 1}")
            if older.exists():
                os.replace(older, path.with_name(f"{path.name}.{number}"))
