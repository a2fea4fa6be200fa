"""The host thread: one daemon thread with its own event loop per process (design 7, spec jupyter 3.2).

A cell may block, be interrupted or loop for ever; the bot does not notice, because it never runs on the kernel's
loop. The thread is a daemon so that the interpreter can always end: what must survive is on disk already.
"""

import asyncio
import concurrent.futures
import logging
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from rightlab.errors import RightlabError

__all__ = ["HostThread", "host_thread"]

T = TypeVar("T")

log = logging.getLogger("rightlab.host")
# Python prints warnings of loggers that nobody handles to stderr, which in a kernel is the running cell.
for _name in ("rightlab", "asyncio", "httpx", "httpcore", "telegram", "uvicorn", "mcp"):
    logging.getLogger(_name).addHandler(logging.NullHandler())

_lock = threading.Lock()
_current: "HostThread | None" = None


class HostThread:
    """A daemon thread named ``rightlab`` that runs one event loop until :meth:`stop`."""

    def __init__(self) -> None:
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._main, name="rightlab", daemon=True)
        # A debugger that pauses every thread must not pause the bot (ipykernel marks its own threads alike).
        self._thread.pydev_do_not_trace = True  # type: ignore[attr-defined]
        self._thread.start()
        self._ready.wait()

    def _main(self) -> None:
        loop = asyncio.new_event_loop()
        loop.set_exception_handler(_log_unhandled)
        self._loop = loop
        loop.call_soon(self._ready.set)
        try:
            loop.run_forever()
        finally:
            pending = asyncio.all_tasks(loop)
            for task in pending:
                task.cancel()
            if pending:
                loop.run_until_complete(asyncio.wait(pending, timeout=1))
            loop.close()

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        assert self._loop is not None
        return self._loop

    @property
    def alive(self) -> bool:
        return self._thread.is_alive() and not self.loop.is_closed()

    @property
    def inside(self) -> bool:
        """True when called from the host thread itself."""
        return threading.current_thread() is self._thread

    def submit(self, work: Coroutine[Any, Any, T]) -> "concurrent.futures.Future[T]":
        """Start ``work`` on the thread's loop and return its future at once."""
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def call(self, work: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        """Run ``work`` on the thread and wait. An interrupt or a timeout ends the wait, never the work."""
        if self.inside:
            work.close()
            raise RightlabError("a call that waits was made from the bot's own thread; await it instead")
        return self.wait(self.submit(work), timeout)

    def wait(self, future: "concurrent.futures.Future[T]", timeout: float | None = None) -> T:
        """Wait for what :meth:`submit` gave; an interrupt or a timeout ends the wait alone."""
        # Short slices: a plain result() without a timeout cannot be interrupted on every platform.
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            left = 0.25 if deadline is None else min(0.25, deadline - time.monotonic())
            try:
                return future.result(timeout=max(left, 0))
            except concurrent.futures.TimeoutError:
                if future.done():
                    raise
                if deadline is not None and time.monotonic() >= deadline:
                    raise TimeoutError(f"no answer within {timeout:g} s; the work goes on") from None

    def call_soon(self, fn: Callable[..., object], *args: Any) -> None:
        self.loop.call_soon_threadsafe(fn, *args)

    def stop(self, timeout: float = 1.5) -> None:
        """Stop the loop; what is still running there is cancelled."""
        global _current
        with _lock:
            if _current is self:
                _current = None
        if self.alive:
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join(timeout)


def _log_unhandled(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """What nobody awaited goes to the log; asyncio's own way is to print it, into whatever cell runs."""
    error = context.get("exception")
    log.error("%s", context.get("message"), exc_info=error if isinstance(error, BaseException) else None)


def host_thread() -> HostThread:
    """The process's one host thread, started on first use."""
    global _current
    with _lock:
        if _current is None or not _current.alive:
            _current = HostThread()
        return _current
