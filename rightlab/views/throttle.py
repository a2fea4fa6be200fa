"""At most five updates a second, however many events there are (spec jupyter 3.2)."""

import threading
import time
from collections.abc import Callable

__all__ = ["HERTZ", "Throttle"]

HERTZ = 5.0


class Throttle:
    """Calls ``work`` at most ``hertz`` times a second after any number of :meth:`poke`.

    ``poke`` may come from any thread, the bot's too, and never blocks: ``work`` runs in a thread of the throttle's
    own. What is poked while ``work`` waits or runs is covered by one more run, so the last state is always shown.
    """

    def __init__(self, work: Callable[[], None], *, hertz: float = HERTZ) -> None:
        self._work = work
        self._gap = 1 / hertz
        self._lock = threading.Lock()
        self._running = threading.Lock()
        self._waiting: threading.Timer | None = None
        self._last = float("-inf")
        self._closed = False

    def poke(self) -> None:
        """Something changed. Does nothing when a run is due already, or after :meth:`close`."""
        with self._lock:
            if self._closed or self._waiting is not None:
                return
            timer = threading.Timer(max(0.0, self._last + self._gap - time.monotonic()), self._run)
            timer.name = "rightlab-view"
            timer.daemon = True
            self._waiting = timer
            timer.start()

    def _run(self) -> None:
        with self._running:
            with self._lock:
                self._waiting = None
                if self._closed:
                    return
            try:
                self._work()
            finally:
                # Counted from the end: a slow ``work`` must not leave the process without air.
                self._last = time.monotonic()

    def close(self) -> None:
        """No run starts from now on. One that is under way ends by itself."""
        with self._lock:
            self._closed = True
            if self._waiting is not None:
                self._waiting.cancel()
                self._waiting = None
