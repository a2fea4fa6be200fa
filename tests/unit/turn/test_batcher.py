"""Batching (spec agent-runtime 4.2, B.3)."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime

from rightlab.clock import SystemClock
from rightlab.conversation import Inbound, Sender
from rightlab.turn import Batcher

FIRST = Inbound(
    channel="telegram",
    update_id=1,
    chat_id=7,
    thread_id=0,
    message_id=1,
    sent_at=datetime(2026, 11, 30, tzinfo=UTC),
    chat_kind="dm",
    sender=Sender(7, "Ann"),
    text="a",
)


class Fast(SystemClock):
    """A clock whose seconds are ten times shorter."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / 10)


def message(number: int, chat: int = 7, **more) -> Inbound:
    return replace(FIRST, update_id=number, message_id=number, chat_id=chat, text=str(number), **more)


async def test_messages_within_half_a_second_are_one_batch_in_order() -> None:
    batches: list[list[str]] = []

    async def run(channel: str, batch: list[Inbound]) -> None:
        batches.append([m.text for m in batch])

    batcher = Batcher(Fast(), run)
    for number in range(3):
        await batcher.put(message(number))
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.12)
    await batcher.put(message(9))
    await asyncio.sleep(0.12)
    assert batches == [["0", "1", "2"], ["9"]]
    assert batcher.waiting == 0


async def test_one_turn_at_a_time_per_scope_and_scopes_side_by_side() -> None:
    running: set[int] = set()
    most = 0
    order: list[str] = []

    async def run(channel: str, batch: list[Inbound]) -> None:
        nonlocal most
        assert batch[0].chat_id not in running
        running.add(batch[0].chat_id)
        most = max(most, len(running))
        await asyncio.sleep(0.15)
        order.extend(m.text for m in batch)
        running.discard(batch[0].chat_id)

    batcher = Batcher(Fast(), run)
    for chat in (1, 2):
        await batcher.put(message(10 * chat, chat))
    await asyncio.sleep(0.1)
    await batcher.put(message(11, 1))
    await asyncio.sleep(0.5)
    assert most == 2
    assert order.index("10") < order.index("11")


async def test_a_turn_that_raises_does_not_stop_the_scope() -> None:
    seen: list[str] = []

    async def run(channel: str, batch: list[Inbound]) -> None:
        seen.append(batch[0].text)
        raise RuntimeError("boom")

    batcher = Batcher(Fast(), run)
    await batcher.put(message(1))
    await asyncio.sleep(0.1)
    await batcher.put(message(2))
    await asyncio.sleep(0.1)
    assert seen == ["1", "2"]


async def test_an_album_waits_longer_but_not_for_ever() -> None:
    batches: list[int] = []

    async def run(channel: str, batch: list[Inbound]) -> None:
        batches.append(len(batch))

    batcher = Batcher(SystemClock(), run)
    await batcher.put(message(0, media_group_id="g"))
    await asyncio.sleep(0.7)
    await batcher.put(message(1, media_group_id="g"))
    await asyncio.sleep(0.2)
    assert batches == []
    await asyncio.sleep(1.0)
    assert batches == [2]


async def test_close_ends_every_worker() -> None:
    async def run(channel: str, batch: list[Inbound]) -> None:
        await asyncio.sleep(60)

    batcher = Batcher(Fast(), run)
    await batcher.put(message(1))
    await asyncio.sleep(0.1)
    await batcher.close()
    assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("batch")]
