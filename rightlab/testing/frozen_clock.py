"""``FrozenClock``: a clock that moves only when told to, for tests of schedules, deadlines and backoff."""

import asyncio
import threading
from datetime import UTC, datetime, timedelta

from rightlab.clock import parse_iso

__all__ = ["FrozenClock"]


class FrozenClock:
    """A :class:`rightlab.clock.Clock` under the test's hand; safe to use from several threads and loops.

    ``start`` is an aware datetime or ISO 8601 text (default 2026-01-01T00:00:00Z). :meth:`advance` moves
    wall and monotonic time together and wakes the sleepers that are due; :meth:`set` moves only the wall
    clock, as a person or NTP does, so nobody wakes.
    """

    def __init__(self, start: datetime | str | None = None) -> None:
        moment = parse_iso(start) if isinstance(start, str) else start or datetime(2026, 1, 1, tzinfo=UTC)
        if moment.tzinfo is None:
            raise ValueError("FrozenClock needs an aware start")
        self._now = moment.astimezone(UTC)
        self._monotonic = 1000.0
        self._lock = threading.Lock()
        self._sleepers: list[tuple[float, asyncio.AbstractEventLoop, asyncio.Future[None]]] = []

    def now(self) -> datetime:
        """Wall time, aware, UTC."""
        with self._lock:
            return self._now

    def monotonic(self) -> float:
        """Monotonic seconds."""
        with self._lock:
            return self._monotonic

    async def sleep(self, seconds: float) -> None:
        """Return once the clock was advanced by ``seconds``; at once for 0 or less."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        loop = asyncio.get_running_loop()
        woken: asyncio.Future[None] = loop.create_future()
        with self._lock:
            entry = (self._monotonic + seconds, loop, woken)
            self._sleepers.append(entry)
        try:
            await woken
        finally:
            with self._lock:
                if entry in self._sleepers:
                    self._sleepers.remove(entry)

    @property
    def sleepers(self) -> int:
        """How many tasks sleep on this clock now."""
        with self._lock:
            return len(self._sleepers)

    def advance(self, seconds: float) -> None:
        """Move time forward and wake whoever is due; they run once their loop gets control."""
        if seconds < 0:
            raise ValueError("time does not run backwards here; use set() for the wall clock")
        with self._lock:
            self._now += timedelta(seconds=seconds)
            self._monotonic += seconds
            due = [entry for entry in self._sleepers if entry[0] <= self._monotonic]
            self._sleepers = [entry for entry in self._sleepers if entry[0] > self._monotonic]
        for _, loop, woken in sorted(due, key=lambda entry: entry[0]):
            if not loop.is_closed():
                loop.call_soon_threadsafe(_wake, woken)

    async def run_for(self, seconds: float, step: float = 1.0) -> None:
        """Advance by ``seconds`` in steps, giving the tasks of this loop time to act after each one."""
        left = seconds
        while left > 0:
            self.advance(min(step, left))
            left -= step
            for _ in range(5):
                await asyncio.sleep(0)

    def set(self, moment: datetime | str) -> None:
        """Set the wall clock, forwards or backwards; monotonic time stands still and nobody wakes."""
        value = parse_iso(moment) if isinstance(moment, str) else moment
        if value.tzinfo is None:
            raise ValueError("FrozenClock needs an aware time")
        with self._lock:
            self._now = value.astimezone(UTC)

    def __repr__(self) -> str:
        return f"FrozenClock({self.now().isoformat()})"


def _wake(woken: "asyncio.Future[None]") -> None:
    if not woken.done():
        woken.set_result(None)
