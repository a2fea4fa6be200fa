"""The clock: one of the four ways out of the process (design 3). Tests freeze it."""

import asyncio
import time
from datetime import UTC, datetime
from typing import Protocol

__all__ = ["Clock", "SystemClock", "iso", "parse_iso"]


class Clock(Protocol):
    """Wall time (aware, UTC), monotonic seconds, and sleeping by either."""

    def now(self) -> datetime: ...

    def monotonic(self) -> float: ...

    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """The machine's own clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def iso(moment: datetime) -> str:
    """``moment`` (aware) as the one text form the store uses: UTC, microseconds, ``Z``; sorts as time."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_iso(text: str) -> datetime:
    """The inverse of :func:`iso`; also takes any ISO 8601 text with an offset."""
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
