from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from rightlab.conversation import Archive, Inbox, Outbox, Sessions
from rightlab.store import Store


class StepClock:
    """A clock that only moves when somebody sleeps; it writes the sleeps down."""

    def __init__(self) -> None:
        self.moment = datetime(2026, 11, 30, 9, 0, tzinfo=UTC)
        self.slept: list[float] = []

    def now(self) -> datetime:
        return self.moment

    def monotonic(self) -> float:
        return self.moment.timestamp()

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.moment += timedelta(seconds=seconds)


@pytest.fixture
def clock() -> StepClock:
    return StepClock()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "data.db", role="owner") as opened:
        yield opened


@pytest.fixture
def inbox(store: Store, clock: StepClock) -> Inbox:
    return Inbox(store, clock)


@pytest.fixture
def archive(store: Store, clock: StepClock) -> Archive:
    return Archive(store, clock)


@pytest.fixture
def sessions(store: Store, clock: StepClock) -> Sessions:
    return Sessions(store, clock)


@pytest.fixture
def outbox(store: Store, clock: StepClock) -> Outbox:
    return Outbox(store, clock)
