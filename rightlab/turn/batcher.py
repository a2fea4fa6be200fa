"""Batching (spec agent-runtime 4.2, B.3): one worker per (chat, thread), a quiet half second closes a batch."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from rightlab.clock import Clock
from rightlab.conversation import Inbound

__all__ = ["ALBUM_CAP", "ALBUM_IDLE", "IDLE", "Batcher"]

IDLE: Final = 0.5
ALBUM_IDLE: Final = 1.0
ALBUM_CAP: Final = 2.5

log = logging.getLogger(__name__)

Scope = tuple[str, int, int]


class Batcher:
    """Collects messages per scope and hands each batch to ``run``, one at a time per scope, in order of arrival.

    ``run`` gets ``(channel name, batch)``. What it raises is logged; the scope's next batch runs all the same.
    """

    def __init__(self, clock: Clock, run: Callable[[str, list[Inbound]], Awaitable[object]]) -> None:
        self._clock = clock
        self._run = run
        self._queues: dict[Scope, asyncio.Queue[Inbound]] = {}
        self._workers: dict[Scope, asyncio.Task[None]] = {}

    async def put(self, message: Inbound) -> None:
        """Add ``message`` to its scope's batch."""
        scope = (message.channel, message.chat_id, message.thread_id)
        queue = self._queues.setdefault(scope, asyncio.Queue())
        queue.put_nowait(message)
        if scope not in self._workers:
            self._workers[scope] = asyncio.create_task(self._work(scope, queue), name=f"batch {scope}")

    @property
    def waiting(self) -> int:
        """Messages that are in no turn yet."""
        return sum(queue.qsize() for queue in self._queues.values())

    async def close(self) -> None:
        """Stop every worker. Messages still waiting stay in the inbox and come back at the next start."""
        workers = list(self._workers.values())
        for worker in workers:
            worker.cancel()
        if workers:
            await asyncio.wait(workers, timeout=0.5)
        self._workers.clear()
        self._queues.clear()

    async def _work(self, scope: Scope, queue: asyncio.Queue[Inbound]) -> None:
        while True:
            batch = await self._collect(queue)
            try:
                await self._run(scope[0], batch)
            except Exception:
                log.exception("a turn of chat %s ended with an error nobody expected", scope[1])
            if queue.empty():
                # No await between the check and the removal: a put() cannot slip in and be stranded.
                del self._workers[scope], self._queues[scope]
                return

    async def _collect(self, queue: asyncio.Queue[Inbound]) -> list[Inbound]:
        batch = [await queue.get()]
        first_of_album: float | None = None
        while True:
            quiet = IDLE
            if batch[-1].media_group_id is not None:
                first_of_album = first_of_album if first_of_album is not None else self._clock.monotonic()
                quiet = min(ALBUM_IDLE, max(0.0, first_of_album + ALBUM_CAP - self._clock.monotonic()))
            getter = asyncio.ensure_future(queue.get())
            timer = asyncio.ensure_future(self._clock.sleep(quiet))
            try:
                await asyncio.wait({getter, timer}, return_when=asyncio.FIRST_COMPLETED)
                if not getter.done():
                    return batch
                batch.append(getter.result())
            finally:
                timer.cancel()
                if not getter.done():
                    getter.cancel()
