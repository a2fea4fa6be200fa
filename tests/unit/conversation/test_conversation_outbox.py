import asyncio

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rightlab.content import Part
from rightlab.conversation import Outbox, SendLater, SendRejected, SendUncertain
from rightlab.errors import ContentError, UsageError
from rightlab.store import Store


def parts(*texts: str) -> list[Part]:
    return [Part(index, "text", text) for index, text in enumerate(texts)]


class Platform:
    """Answers each call with the next scripted outcome: an exception to raise, or None to store the part."""

    def __init__(self, *script: Exception | None) -> None:
        self.script = list(script)
        self.stored: list[str] = []
        self.calls: list[str] = []

    async def send(self, part: Part) -> int:
        self.calls.append(part.text)
        outcome = self.script.pop(0) if self.script else None
        if outcome is not None:
            raise outcome
        self.stored.append(part.text)
        return 100 + len(self.stored)


def put(outbox: Outbox, *texts: str, chat_id: int = 5) -> int:
    return outbox.enqueue(source="reply", chat_id=chat_id, thread_id=0, parts=parts(*texts))


async def test_every_confirmed_id_is_stored(outbox: Outbox) -> None:
    outbox_id = outbox.enqueue(
        source="reply",
        chat_id=5,
        thread_id=7,
        parts=parts("a", "b"),
        turn_id="t",
        reply_to=3,
        content_json={"text": "ab"},
    )
    platform = Platform()
    done = await outbox.deliver(outbox_id, platform.send)
    assert (done.state, done.message_ids, done.error) == ("delivered", (101, 102), None)
    assert done.sent == ((101, "a"), (102, "b"))
    row = outbox.get(outbox_id)
    assert [part.message_id for part in row.parts] == [101, 102]
    assert (row.thread_id, row.reply_to, row.content) == (7, 3, {"text": "ab"})
    assert outbox.undelivered() == []
    assert outbox.of_turn("t") == [row]


async def test_delivering_again_sends_nothing(outbox: Outbox) -> None:
    outbox_id = put(outbox, "a", "b")
    platform = Platform()
    first = await outbox.deliver(outbox_id, platform.send)
    assert await outbox.deliver(outbox_id, platform.send) == first
    assert platform.calls == ["a", "b"]


async def test_C13_a_failure_on_part_2_of_3_keeps_the_others_and_is_not_resent(outbox: Outbox) -> None:
    outbox_id = put(outbox, "a", "b", "c")
    platform = Platform(None, SendRejected("message is too long"))
    done = await outbox.deliver(outbox_id, platform.send)
    assert (done.state, done.message_ids, done.error) == ("partial", (101, 102), "message is too long")
    assert platform.calls == ["a", "b", "c"]
    await outbox.deliver(outbox_id, platform.send)
    assert platform.calls == ["a", "b", "c"]
    assert outbox.undelivered()[0].parts[1].error == "message is too long"


async def test_an_uncertain_part_is_shown_and_never_sent_again(outbox: Outbox) -> None:
    outbox_id = put(outbox, "a", "b")
    platform = Platform(SendUncertain("connection lost"))
    done = await outbox.deliver(outbox_id, platform.send)
    assert (done.state, done.message_ids) == ("uncertain", (101,))
    await outbox.deliver(outbox_id, platform.send)
    assert platform.calls == ["a", "b"]
    assert outbox.waiting() == []
    assert outbox.undelivered()[0].error == "connection lost"


async def test_an_unexpected_error_counts_as_uncertain(outbox: Outbox) -> None:
    done = await outbox.deliver(put(outbox, "a"), Platform(ValueError("bug")).send)
    assert (done.state, done.error) == ("uncertain", "ValueError while sending")


async def test_a_refusal_about_the_chat_ends_the_delivery(outbox: Outbox) -> None:
    platform = Platform(SendRejected("bot was blocked by the user", whole=True))
    done = await outbox.deliver(put(outbox, "a", "b"), platform.send)
    assert (done.state, platform.calls) == ("failed", ["a"])


@pytest.mark.parametrize("failure", [SendRejected("no"), SendUncertain("lost")])
async def test_channel_posts_stop_at_the_first_failure(outbox: Outbox, failure: Exception) -> None:
    outbox_id = put(outbox, "a", "b", "c")
    platform = Platform(None, failure)
    await outbox.deliver(outbox_id, platform.send, stop_at_failure=True)
    assert platform.calls == ["a", "b"]
    assert outbox.get(outbox_id).parts[2].state == "failed"


async def test_pain_H102402_the_servers_wait_is_obeyed_in_order(outbox: Outbox, clock) -> None:
    platform = Platform(None, SendLater("flood", 149.0), SendLater("flood", 18.0))
    done = await outbox.deliver(put(outbox, "a", "b", "c"), platform.send)
    assert done.state == "delivered"
    assert platform.stored == ["a", "b", "c"]
    assert platform.calls == ["a", "b", "b", "b", "c"]
    assert clock.slept == [149.0, 18.0]


async def test_pain_H102402_a_wait_holds_the_chat_and_no_other(outbox: Outbox, clock) -> None:
    released = asyncio.Event()

    async def sleep(_: float) -> None:
        await released.wait()

    clock.sleep = sleep
    order: list[str] = []
    flood = [SendLater("flood", 30.0)]

    async def send(part: Part) -> int:
        if flood and part.text == "first":
            raise flood.pop()
        order.append(part.text)
        return len(order)

    first = asyncio.create_task(outbox.deliver(put(outbox, "first"), send))
    await asyncio.sleep(0.05)
    second = asyncio.create_task(outbox.deliver(put(outbox, "second"), send))
    await outbox.deliver(put(outbox, "elsewhere", chat_id=6), send)
    assert order == ["elsewhere"]
    released.set()
    await asyncio.gather(first, second)
    assert order == ["elsewhere", "first", "second"]


async def test_the_servers_wait_survives_a_restart(outbox: Outbox, store: Store, clock) -> None:
    outbox_id = put(outbox, "a")
    pause = clock.sleep

    async def die(_: float) -> None:
        raise asyncio.CancelledError

    clock.sleep = die
    with pytest.raises(asyncio.CancelledError):
        await outbox.deliver(outbox_id, Platform(SendLater("flood", 60.0)).send)
    clock.sleep = pause
    again = Outbox(store, clock)
    assert again.recover() == []
    assert again.waiting() == [outbox_id]
    platform = Platform()
    assert (await again.deliver(outbox_id, platform.send)).state == "delivered"
    assert clock.slept == [60.0]


async def test_out_of_reach_is_tried_a_few_times_then_left_waiting(outbox: Outbox, clock) -> None:
    outbox_id = put(outbox, "a", "b")
    done = await outbox.deliver(outbox_id, Platform(*[SendLater("unreachable") for _ in range(99)]).send)
    assert (done.state, done.error) == ("waiting", "unreachable")
    assert clock.slept == [0.5, 1.0, 2.0, 4.0, 8.0]
    assert outbox.waiting() == [outbox_id]
    platform = Platform()
    assert (await outbox.deliver(outbox_id, platform.send)).state == "delivered"
    assert platform.calls == ["a", "b"]
    assert outbox.get(outbox_id).error is None


async def test_stopped_in_the_middle_of_a_send_is_uncertain(outbox: Outbox) -> None:
    outbox_id = put(outbox, "a", "b")
    reached = asyncio.Event()

    async def send(_: Part) -> int:
        reached.set()
        await asyncio.Event().wait()
        return 0

    task = asyncio.create_task(outbox.deliver(outbox_id, send))
    await reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [part.state for part in outbox.get(outbox_id).parts] == ["uncertain", "pending"]
    platform = Platform()
    assert (await outbox.deliver(outbox_id, platform.send)).state == "uncertain"
    assert platform.calls == ["b"]


async def test_stopped_at_any_await_never_doubts_a_part_that_was_not_called(outbox: Outbox) -> None:
    for steps in range(25):
        outbox_id = put(outbox, "a", "b")
        platform = Platform()
        task = asyncio.create_task(outbox.deliver(outbox_id, platform.send))
        for _ in range(steps):
            await asyncio.sleep(0)
        await asyncio.sleep(0.001 * (steps % 5))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        called = list(platform.calls)
        for part in outbox.get(outbox_id).parts:
            assert part.state == ("sent" if part.text in called else "pending"), steps
        await outbox.deliver(outbox_id, platform.send)
        assert platform.calls == ["a", "b"], steps


async def test_two_deliveries_of_one_message_send_it_once(outbox: Outbox) -> None:
    outbox_id = put(outbox, "a", "b")
    platform = Platform()
    both = await asyncio.gather(*(outbox.deliver(outbox_id, platform.send) for _ in range(2)))
    assert both[0] == both[1]
    assert platform.calls == ["a", "b"]


async def test_a_confirmation_beats_a_doubt(outbox: Outbox, store: Store, clock) -> None:
    outbox_id = put(outbox, "a")

    async def send(_: Part) -> int:
        assert Outbox(store, clock).recover() == [outbox_id]
        return 9

    assert (await outbox.deliver(outbox_id, send)).message_ids == (9,)
    assert outbox.get(outbox_id).state == "delivered"


def test_nothing_to_send_is_an_error(outbox: Outbox) -> None:
    with pytest.raises(ContentError):
        put(outbox)


async def test_an_unknown_id_is_an_error(outbox: Outbox) -> None:
    with pytest.raises(UsageError, match="77"):
        await outbox.deliver(77, Platform().send)


def test_enqueue_is_part_of_the_callers_transaction(outbox: Outbox, store: Store) -> None:
    def work(tx):
        outbox.enqueue(source="reply", chat_id=5, thread_id=0, parts=parts("a"), tx=tx)
        raise RuntimeError

    with pytest.raises(RuntimeError):
        store.transact(work)
    assert outbox.waiting() == []
    assert store.value("SELECT count(*) FROM outbox_parts") == 0


outcomes = st.sampled_from(["ok", "rejected", "whole", "uncertain", "flood", "offline", "bug"])


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(count=st.integers(1, 5), script=st.lists(outcomes, max_size=14))
async def test_law_no_part_twice_none_lost_order_kept(outbox: Outbox, count: int, script: list[str]) -> None:
    made = {
        "ok": lambda: None,
        "rejected": lambda: SendRejected("r"),
        "whole": lambda: SendRejected("w", whole=True),
        "uncertain": lambda: SendUncertain("u"),
        "flood": lambda: SendLater("f", 2.0),
        "offline": lambda: SendLater("o"),
        "bug": lambda: KeyError("b"),
    }
    platform = Platform(*(made[word]() for word in script))
    outbox_id = put(outbox, *(f"p{number}" for number in range(count)))
    for _ in range(3):
        done = await outbox.deliver(outbox_id, platform.send)
    assert platform.stored == sorted(set(platform.stored))
    rows = outbox.get(outbox_id).parts
    assert [row.text for row in rows if row.state == "sent"] == platform.stored
    assert all(row.state in ("sent", "failed", "uncertain") for row in rows)
    assert all(row.error for row in rows if row.state != "sent")
    assert (done.state == "delivered") == (len(platform.stored) == count)


@pytest.mark.parametrize("asked", [1e30, 10**400, float("inf"), float("nan"), 8 * 86_400])
async def test_an_absurd_wait_is_a_week(outbox: Outbox, clock, asked: float) -> None:
    done = await outbox.deliver(put(outbox, "a"), Platform(SendLater("flood", asked)).send)
    assert done.state == "delivered"
    assert clock.slept == [7 * 86_400.0]
