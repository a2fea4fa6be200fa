import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rightlab.clock import SystemClock
from rightlab.conversation import Archive, Inbound, Inbox, Outbox
from rightlab.store import Store
from rightlab.telegram import TelegramChannel
from rightlab.testing.botapi import BotApi


@dataclass
class People:
    """An allowlist for tests; ``groups`` maps chat id to (kind, mode, {thread: mode})."""

    users: set[int] = field(default_factory=lambda: {42})
    groups: dict[int, tuple[str, str, dict[int, str]]] = field(default_factory=dict)

    def trusts(self, user_id: int) -> bool:
        return user_id in self.users

    def group(self, chat_id: int) -> Any:
        if chat_id not in self.groups:
            return None
        kind, mode, topics = self.groups[chat_id]
        return SimpleNamespace(kind=kind, mode_for=lambda thread: topics.get(thread, mode))


@dataclass
class Bench:
    """A channel on a stand-in server, with all that stands behind it."""

    api: BotApi
    store: Store
    inbox: Inbox
    archive: Archive
    outbox: Outbox
    people: People
    seen: list[Inbound]
    make: Callable[..., TelegramChannel]
    channel: TelegramChannel

    async def until(self, predicate: Callable[[], Any], timeout: float = 5.0) -> Any:
        async with asyncio.timeout(timeout):
            while True:
                if result := predicate():
                    return result
                await asyncio.sleep(0.005)

    async def settled(self) -> None:
        """Wait until every update is acknowledged."""
        await self.until(lambda: not self.api.pending_updates)


@pytest.fixture
def api() -> Iterator[BotApi]:
    with BotApi(token="123456:test-token_abc") as running:
        yield running


@pytest.fixture
async def bench(api: BotApi, tmp_path: Path) -> AsyncIterator[Bench]:
    store = Store.open(tmp_path / "data.db", role="owner")
    clock = SystemClock()
    inbox, archive = Inbox(store, clock), Archive(store, clock)
    people = People()
    seen: list[Inbound] = []
    made: list[TelegramChannel] = []

    async def on_message(message: Inbound) -> None:
        seen.append(message)

    def make(**more: Any) -> TelegramChannel:
        given = {
            "token": api.token,
            "api_base": api.base_url,
            "store": store,
            "inbox": inbox,
            "archive": archive,
            "allowlist": lambda: people,
            "on_message": on_message,
            "poll_seconds": 2,
            "offline_pauses": (0.05, 0.1),
            "conflict_pauses": (0.2, 0.4),
            **more,
        }
        made.append(TelegramChannel(**given))
        return made[-1]

    outbox = Outbox(store, clock, offline_pauses=(0.05, 0.05, 0.05))
    yield Bench(api, store, inbox, archive, outbox, people, seen, make, make())
    for channel in made:
        await channel.stop()
    store.close()
