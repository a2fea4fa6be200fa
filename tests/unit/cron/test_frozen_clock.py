"""FrozenClock, the public stand-in for the clock."""

import asyncio
import threading
from datetime import UTC, datetime

import pytest

from rightlab.clock import Clock
from rightlab.testing import FrozenClock


def test_it_is_a_clock_that_stands_still() -> None:
    clock: Clock = FrozenClock("2026-03-29T01:30:00+02:00")
    assert clock.now() == datetime(2026, 3, 28, 23, 30, tzinfo=UTC) == clock.now()
    assert clock.monotonic() == clock.monotonic()
    with pytest.raises(ValueError, match="aware"):
        FrozenClock(datetime(2026, 1, 1))


async def test_advance_wakes_only_who_is_due_in_order() -> None:
    clock = FrozenClock()
    woken: list[int] = []

    async def sleeper(seconds: int) -> None:
        await clock.sleep(seconds)
        woken.append(seconds)

    tasks = [asyncio.create_task(sleeper(seconds)) for seconds in (30, 10, 20)]
    await asyncio.sleep(0)
    assert clock.sleepers == 3
    clock.advance(9.9)
    await asyncio.sleep(0)
    assert woken == []
    clock.advance(15)
    await asyncio.sleep(0.01)
    assert woken == [10, 20]
    clock.set("2030-01-01T00:00:00Z")
    await asyncio.sleep(0.01)
    assert woken == [10, 20]
    assert clock.now().year == 2030
    await clock.run_for(10)
    assert woken == [10, 20, 30]
    await asyncio.gather(*tasks)
    assert clock.sleepers == 0


async def test_a_cancelled_sleeper_is_forgotten_and_zero_yields() -> None:
    clock = FrozenClock()
    task = asyncio.create_task(clock.sleep(5))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert clock.sleepers == 0
    await clock.sleep(0)
    await clock.sleep(-1)


def test_sleepers_of_another_threads_loop_wake() -> None:
    clock = FrozenClock()
    thread = threading.Thread(target=lambda: asyncio.run(clock.sleep(60)))
    thread.start()
    while clock.sleepers == 0:
        pass
    clock.advance(60)
    thread.join(timeout=5)
    assert not thread.is_alive()
