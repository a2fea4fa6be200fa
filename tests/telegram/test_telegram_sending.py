"""Messages out: the outbox over the real client against the strict server."""

import asyncio
import time

import pytest

from rightlab.content import Part, RichContent, split_text, text_parts, utf16_len
from rightlab.conversation import SendLater, SendRejected, SendUncertain


def parts_of(*texts: str) -> list[Part]:
    return [Part(index, "text", text) for index, text in enumerate(texts)]


async def deliver(bench, *texts: str, chat_id: int = 42, thread_id: int = 0, reply_to: int | None = None):
    outbox_id = bench.outbox.enqueue(
        source="reply", chat_id=chat_id, thread_id=thread_id, parts=parts_of(*texts), reply_to=reply_to
    )
    return outbox_id, await bench.outbox.deliver(
        outbox_id, lambda part: bench.channel.send(chat_id, thread_id, part, reply_to)
    )


@pytest.fixture
async def running(bench):
    bench.api.add_chat(42)
    await bench.channel.start()
    return bench


async def test_every_part_is_confirmed_and_replies_to_its_message(running) -> None:
    running.api.send_text(42, "question", message_id=7)
    _, done = await deliver(running, "one", "two", reply_to=7)
    sent = running.api.messages(42)
    assert done.state == "delivered"
    assert list(done.message_ids) == [message["message_id"] for message in sent]
    assert [message["reply_to_message"]["message_id"] for message in sent] == [7, 7]


async def test_a_reply_to_a_deleted_message_still_arrives(running) -> None:
    _, done = await deliver(running, "hello", reply_to=999)
    assert done.state == "delivered"


async def test_text_is_literal(running) -> None:
    text = "<b>*not* _markup_</b> & [x](http://e.org) https://example.org"
    await deliver(running, text)
    assert running.api.texts(42) == [text]
    assert "entities" not in running.api.messages(42)[0]
    assert "link_preview_options" in running.api.calls_of("sendMessage")[0].params


async def test_pain_H11466_emoji_boundary_at_4096_units(running) -> None:
    text = "a" * 4095 + "😀" + "b" * 10
    chunks = split_text(text)
    _, done = await deliver(running, *chunks)
    assert done.state == "delivered"
    assert all(utf16_len(chunk) <= 4096 for chunk in running.api.texts(42))
    assert "".join(running.api.texts(42)) == text


async def test_pain_NB262_ten_thousand_characters_all_arrive(running) -> None:
    text = "word " * 2000
    _, done = await deliver(running, *(part.text for part in text_parts(RichContent.from_text(text))))
    assert done.state == "delivered"
    assert "".join("".join(running.api.texts(42)).split()) == "word" * 2000


async def test_too_long_a_part_is_refused_and_the_others_arrive(running) -> None:
    _, done = await deliver(running, "a", "😀" * 2049, "c")
    assert (done.state, running.api.texts(42)) == ("partial", ["a", "c"])
    assert "too long" in done.error.lower()


async def test_pain_14_2_7_connection_lost_after_storing_is_one_message(running) -> None:
    running.api.drop_after_storing("sendMessage")
    outbox_id, done = await deliver(running, "only once", "and the next")
    assert done.state == "uncertain"
    assert running.api.texts(42) == ["only once", "and the next"]
    await running.outbox.deliver(outbox_id, lambda part: running.channel.send(42, 0, part))
    assert running.api.texts(42) == ["only once", "and the next"]
    assert "may have arrived" in running.outbox.undelivered()[0].error


async def test_pain_H102402_PR105340_floods_hold_the_order(running) -> None:
    running.api.fail_next("sendMessage", 429, retry_after=1)
    started = time.monotonic()
    first = asyncio.create_task(deliver(running, "1", "2", "3"))
    await asyncio.sleep(0.1)
    second = asyncio.create_task(deliver(running, "4"))
    await asyncio.gather(first, second)
    assert running.api.texts(42) == ["1", "2", "3", "4"]
    assert time.monotonic() - started >= 1.0


async def test_pain_H102402_another_chat_does_not_wait(running) -> None:
    running.api.add_chat(43)
    running.api.flood(42, 1.2)
    slow = asyncio.create_task(deliver(running, "slow"))
    await asyncio.sleep(0.05)
    started = time.monotonic()
    await deliver(running, "quick", chat_id=43)
    assert time.monotonic() - started < 0.7
    assert (await slow)[1].state == "delivered"
    assert len(running.api.calls_of("sendMessage")) <= 4


async def test_a_bot_that_was_blocked_gives_up_at_once(running) -> None:
    running.api.block(42)
    _, done = await deliver(running, "a", "b", "c")
    assert done.state == "failed"
    assert "blocked by the user" in done.error
    assert len(running.api.calls_of("sendMessage")) == 1


async def test_an_unknown_chat_gives_up_at_once(running) -> None:
    _, done = await deliver(running, "a", "b", chat_id=4040)
    assert (done.state, len(running.api.calls_of("sendMessage"))) == ("failed", 1)
    assert "chat not found" in done.error.lower()


async def test_pain_tdlib447_General_is_addressed_without_a_thread_id(running) -> None:
    running.api.add_topic(-100, 9)
    for thread_id in (0, 1, 9):
        _, done = await deliver(running, f"to {thread_id}", chat_id=-100, thread_id=thread_id)
        assert done.state == "delivered"
    threads = [message.get("message_thread_id") for message in running.api.messages(-100)]
    assert threads == [None, None, 9]


async def test_pain_H27012_opencrabs130_a_topics_answer_stays_in_its_topic(running) -> None:
    running.api.add_topic(-100, 9)
    await deliver(running, "in the topic", chat_id=-100, thread_id=9)
    assert running.api.messages(-100)[0]["message_thread_id"] == 9


async def test_pain_tdlib854_a_deleted_topic_is_reported(running) -> None:
    running.api.add_topic(-100, 9)
    running.api.delete_topic(-100, 9)
    _, done = await deliver(running, "a", "b", chat_id=-100, thread_id=9)
    assert done.state == "failed"
    assert "thread not found" in done.error.lower()
    assert running.api.messages(-100) == []


async def test_a_server_that_is_down_leaves_the_reply_waiting_then_it_goes_out(bench) -> None:
    bench.api.add_chat(42)

    async def on_connected() -> None:
        for outbox_id in bench.outbox.waiting():
            await bench.outbox.deliver(outbox_id, lambda part: channel.send(42, 0, part))

    channel = bench.make(on_connected=on_connected)
    await channel.start()
    bench.api.offline()
    outbox_id = bench.outbox.enqueue(source="reply", chat_id=42, thread_id=0, parts=parts_of("a", "b"))
    done = await bench.outbox.deliver(outbox_id, lambda part: channel.send(42, 0, part))
    assert (done.state, "not reached" in done.error) == ("waiting", True)
    await bench.until(lambda: channel.status()["state"] == "offline")
    bench.api.online()
    await bench.until(lambda: bench.api.texts(42) == ["a", "b"])
    await bench.until(lambda: bench.outbox.undelivered() == [])


@pytest.mark.parametrize(
    ("status", "description", "kind"),
    [
        (400, "Bad Request: message text is empty", SendRejected),
        (403, "Forbidden: bot was kicked from the supergroup chat", SendRejected),
        (500, "Internal Server Error", SendUncertain),
        (502, "Bad Gateway", SendUncertain),
    ],
)
async def test_what_the_servers_answers_mean(running, status: int, description: str, kind: type) -> None:
    running.api.fail_next("sendMessage", status, description)
    with pytest.raises(kind):
        await running.channel.send(42, 0, Part(0, "text", "x"))


async def test_what_the_networks_faults_mean(running) -> None:
    part = Part(0, "text", "x")
    running.api.drop_before_storing("sendMessage")
    with pytest.raises(SendUncertain, match="may have arrived"):
        await running.channel.send(42, 0, part)
    running.api.offline()
    with pytest.raises(SendLater) as refused:
        await running.channel.send(42, 0, part)
    assert refused.value.retry_after is None
    running.api.online()
    running.api.fail_next("sendMessage", 429, retry_after=149)
    with pytest.raises(SendLater) as flood:
        await running.channel.send(42, 0, part)
    assert flood.value.retry_after == 149
    running.api.fail_next(
        "sendMessage", 400, "Bad Request: group chat was upgraded", migrate_to_chat_id=-1009
    )
    with pytest.raises(SendRejected, match="-1009"):
        await running.channel.send(42, 0, part)


async def test_typing_is_shown_while_the_block_runs(running, monkeypatch) -> None:
    monkeypatch.setattr("rightlab.telegram.channel._TYPING_SECONDS", 0.05)
    async with running.channel.typing(42, 1):
        await asyncio.sleep(0.25)
    shown = len(running.api.actions)
    assert shown >= 3
    assert set(running.api.actions) == {(42, 0, "typing")}
    await asyncio.sleep(0.15)
    assert len(running.api.actions) == shown


async def test_typing_never_breaks_a_turn(running) -> None:
    running.api.block(42)
    async with running.channel.typing(42):
        await asyncio.sleep(0.05)
    running.api.offline()
    async with running.channel.typing(42):
        await asyncio.sleep(0.05)


async def test_delete_says_whether_it_could(running) -> None:
    running.api.send_text(42, "a secret", message_id=7)
    assert await running.channel.delete(42, 7)
    assert not await running.channel.delete(42, 7)


@pytest.mark.parametrize(
    ("asked", "seconds"),
    [(10**15, 604_800), (10**400, 604_800), (1.5, 1.5), (-3, 1), ("5", 1), ([], 1), (float("nan"), 1)],
)
async def test_an_absurd_wait_is_still_a_wait(running, asked: object, seconds: float) -> None:
    running.api.fail_next("sendMessage", 429, retry_after=asked)
    with pytest.raises(SendLater) as flood:
        await running.channel.send(42, 0, Part(0, "text", "x"))
    assert flood.value.retry_after == seconds
