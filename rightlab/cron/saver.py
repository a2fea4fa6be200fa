"""Throttled atomic saves of a notebook that is being executed (jupyter 4.1(5), pains 11).

Papermill saves before and after each cell by opening the output for writing, so its cost is quadratic and a kill
leaves a torn file. Here a save replaces the whole file, happens soon after something changed but never more often
than its own cost allows, and there is always one after the last change.
"""

import asyncio
import json
import logging
import time
from collections.abc import Callable
from typing import Any

from rightlab.errors import RightlabError

__all__ = ["Saver", "dump"]

_log = logging.getLogger(__name__)
_SHARE = 20  # a save of s seconds is followed by at least 20 s without one: 5 % of the time at most


def dump(nb: Any) -> bytes:
    """The notebook as compact JSON, fast; every text it can hold survives, lone surrogates too."""
    import orjson

    try:
        return orjson.dumps(nb)
    except (TypeError, ValueError, orjson.JSONEncodeError):
        return json.dumps(nb, ensure_ascii=True, default=str).encode()


class Saver:
    """Saves ``nb`` through ``write`` (atomic; called in a worker thread, one at a time).

    ``interval`` is the least time between two saves in seconds. A save that fails (disk full) is logged and tried
    again with the next change; only the final one raises.
    """

    def __init__(self, nb: Any, write: Callable[[bytes], None] | None, *, interval: float = 0.5) -> None:
        self.nb = nb
        self.saves = 0
        self._write = write
        self._interval = interval
        self._dirty = asyncio.Event()
        self._next = 0.0
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin saving on the running loop."""
        if self._write is not None:
            self._task = asyncio.create_task(self._run())

    def touch(self) -> None:
        """Say that the notebook changed."""
        self._dirty.set()

    async def close(self, final: Callable[[], bytes]) -> None:
        """Stop, then save once more with the bytes of ``final``. Raises what the write raises."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._write is not None:
            data = final()
            await asyncio.to_thread(self._write, data)
            self.saves += 1

    async def _run(self) -> None:
        while True:
            await self._dirty.wait()
            await asyncio.sleep(max(0.0, self._next - time.monotonic()))
            self._dirty.clear()
            began = time.monotonic()
            # Shielded: close() must not overtake a write that a thread has begun.
            writing = asyncio.ensure_future(asyncio.to_thread(self._save, dump(self.nb)))
            try:
                await asyncio.shield(writing)
            except asyncio.CancelledError:
                await writing
                raise
            ended = time.monotonic()
            self._next = ended + max(self._interval, _SHARE * (ended - began))

    def _save(self, data: bytes) -> None:
        assert self._write is not None
        try:
            self._write(data)
            self.saves += 1
        except (OSError, RightlabError) as error:
            _log.warning("the notebook could not be saved: %s", error)
