"""Running providers beside the event loop, so that one that never returns holds up nobody else.

A provider is synchronous and cannot be interrupted. It runs in a daemon thread; when it does not come back in
time the thread is left to itself and the provider is not called again until it does.
"""

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["Blocked", "in_thread"]

T = TypeVar("T")


class Blocked(Exception):
    """``thread`` did not end in time."""

    def __init__(self, thread: threading.Thread) -> None:
        super().__init__(thread.name)
        self.thread = thread


async def in_thread(work: Callable[[], T], seconds: float) -> T:
    """What ``work()`` returns or raises, run in a thread of its own with this task's context variables.

    Raises Blocked after ``seconds``; the thread then goes on as long as it likes and its result is dropped.
    """
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[T] = loop.create_future()
    variables = contextvars.copy_context()

    def settle(call: Callable[[Any], None], value: Any) -> None:
        if not outcome.done():
            call(value)

    def run() -> None:
        call: Callable[[Any], None] = outcome.set_result
        value: Any
        try:
            value = variables.run(work)
        except BaseException as error:
            call, value = outcome.set_exception, error
        with contextlib.suppress(RuntimeError):  # the loop may be gone by now
            loop.call_soon_threadsafe(settle, call, value)

    thread = threading.Thread(target=run, name="rightlab-providers", daemon=True)
    thread.start()
    done, _ = await asyncio.wait({outcome}, timeout=seconds)
    if not done:
        outcome.cancel()
        raise Blocked(thread)
    return outcome.result()
