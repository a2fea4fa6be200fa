"""One turn at a time per conversation (spec agent-runtime 3.7)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

__all__ = ["ScopeLocks"]


class ScopeLocks:
    """A lock per (chat, thread), held for a whole turn. Locks exist only while somebody holds or waits for them.

    A turn holds its conversation while its reply waits for the platform, but no process: a chat that a flood wait
    holds up keeps nobody else waiting.
    """

    def __init__(self) -> None:
        self._locks: dict[tuple[int, int], tuple[asyncio.Lock, int]] = {}

    @asynccontextmanager
    async def hold(self, chat_id: int, thread_id: int) -> AsyncIterator[None]:
        scope = (chat_id, thread_id)
        lock, users = self._locks.get(scope, (asyncio.Lock(), 0))
        self._locks[scope] = (lock, users + 1)
        try:
            async with lock:
                yield
        finally:
            lock, users = self._locks[scope]
            if users == 1:
                del self._locks[scope]
            else:
                self._locks[scope] = (lock, users - 1)
