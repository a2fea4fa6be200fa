"""What a dead process left: delivered, run again once, or told as lost (design 4)."""

import asyncio
from typing import Any

import pytest

from rightlab.conversation import SendLater
from rightlab.testing.scripted_transport import Answer
from rightlab.turn.runner import LOST, STOPPED_AGAIN

THINKS = Answer(reply="never said", delay=30)


async def cut_while_thinking(desk: Any, text: str = "hello", **more: Any) -> Any:
    desk.restart([THINKS])
    message = desk.message(text, **more)
    await desk.cut(message, when=lambda: desk.transport.running == 1)
    return message


async def cut_after_a_tool(desk: Any, text: str = "hello", **more: Any) -> Any:
    """The tool call was seen, its result never came."""

    async def script(call: Any) -> Any:
        return Answer(reply="never said", tools=[("Bash", {"command": "touch x"})])

    desk.restart(script)
    update = desk.records.update
    held = asyncio.Event()

    async def hold(turn_id: str, **values: Any) -> None:
        await update(turn_id, **values)
        if "first_tool_at" in values:
            held.set()
            await asyncio.Event().wait()

    desk.records.update = hold
    message = desk.message(text, **more)
    await desk.cut(message, when=held.is_set)
    return message


async def test_a_turn_that_had_done_nothing_runs_again_once(desk) -> None:
    message = await cut_while_thinking(desk)
    assert desk.row()["status"] == "running"
    desk.restart(["Here I am."])
    [turn] = await desk.recover()
    assert (turn.status, turn.text) == ("delivered", "Here I am.")
    assert desk.channel.sent == [(7, "Here I am.", message.message_id)]
    assert (desk.row()["attempt"], desk.states()) == (2, ["done"])
    assert "hello" in desk.transport.calls[0].stdin
    assert await desk.recover() == []


async def test_a_second_cut_is_told_and_not_tried_again(desk) -> None:
    await cut_while_thinking(desk)
    desk.restart([THINKS])
    tasks = await desk.runner.recover(desk.channel_of)
    await desk.until(lambda: desk.transport.running == 1)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    desk.restart(["no"])
    [turn] = await desk.recover()
    assert (turn.status, desk.transport.calls) == ("lost", [])
    assert len(desk.channel.texts) == 1
    assert desk.states() == ["done"]


async def test_the_line_says_whether_it_had_begun_to_act(desk) -> None:
    """Twice cut without a tool: nothing was done, so the chat is not told that something was."""
    await cut_while_thinking(desk)
    desk.store.transact(lambda tx: tx.run("UPDATE turns SET attempt = 2"))
    desk.restart(["no"])
    await desk.recover()
    assert desk.channel.texts == [STOPPED_AGAIN]


async def test_a_turn_that_had_begun_to_act_is_told_as_lost(desk) -> None:
    message = await cut_after_a_tool(desk)
    desk.restart(["no"])
    [turn] = await desk.recover()
    assert (turn.status, turn.error) == ("lost", LOST)
    assert desk.channel.sent == [(7, LOST, message.message_id)]
    assert desk.transport.calls == []
    row = desk.row()
    assert (row["status"], row["error_kind"], desk.states()) == ("lost", "lost", ["done"])
    assert await desk.recover() == []


async def test_a_first_call_that_was_cut_starts_a_session_of_its_own(desk) -> None:
    """The CLI refuses to create one session id twice."""
    await cut_while_thinking(desk)
    before = desk.row()["session_id"]
    desk.restart(["ok"])
    [turn] = await desk.recover()
    assert desk.transport.calls[0].invocation.resume is False
    assert turn.session_id != before
    assert desk.sessions.active(7, 0).session_id == turn.session_id


async def test_a_later_call_that_was_cut_goes_on_in_its_session(desk) -> None:
    first = await desk.run(desk.message("a"))
    await cut_while_thinking(desk, "b")
    desk.restart(["ok"])
    [turn] = await desk.recover()
    assert desk.transport.calls[0].invocation.resume is True
    assert turn.session_id == first.session_id


async def test_after_a_lost_first_turn_its_session_goes_on_when_the_cli_has_it(desk) -> None:
    await cut_after_a_tool(desk)
    session = desk.row()["session_id"]
    desk.restart(["ok"])
    await desk.recover()
    turn = await desk.run(desk.message("next"))
    assert (turn.status, turn.session_id) == ("delivered", session)


async def test_a_stored_reply_is_delivered_and_not_asked_for_again(desk) -> None:
    desk.channel.trouble = SendLater("not reached")
    desk.restart(["stored"])
    await desk.run(desk.message())
    assert desk.row()["status"] == "replied"
    desk.channel.trouble = None
    desk.restart(["no"])
    assert await desk.recover() == []
    desk.outbox.recover()
    assert await desk.deliverer.deliver_waiting() == 1
    assert (desk.channel.texts, desk.transport.calls) == (["stored"], [])
    assert desk.row()["status"] == "delivered"


async def test_a_part_cut_while_it_was_sent_is_uncertain_and_never_sent_again(desk) -> None:
    hold = asyncio.Event()
    sending = asyncio.Event()

    async def send(*_: Any, **__: Any) -> int:
        sending.set()
        await hold.wait()
        return 1

    desk.restart(["ok"])
    desk.channel.send = send
    await desk.cut(desk.message(), when=sending.is_set)
    del desk.channel.send
    desk.restart(["no"])
    desk.outbox.recover()
    assert await desk.recover() == []
    await desk.deliverer.deliver_waiting()
    assert desk.channel.sent == []
    [row] = desk.outbox.undelivered()
    assert row.state == "uncertain"


async def test_a_turn_cut_while_its_reply_was_sent_does_not_stay_open(desk) -> None:
    """The process died in the send: the outbox knows it as uncertain, so does the turn."""
    await test_a_part_cut_while_it_was_sent_is_uncertain_and_never_sent_again(desk)
    assert desk.row()["status"] == "partial"


async def test_a_turn_of_a_channel_that_is_not_open_stays(desk) -> None:
    await cut_while_thinking(desk)
    channel, desk.channel = desk.channel, None
    desk.restart(["ok"])
    assert await desk.recover() == []
    assert (desk.row()["status"], desk.states()) == ("running", ["turn"])
    desk.channel = channel
    [turn] = await desk.recover()
    assert turn.status == "delivered"


async def test_cut_turns_stand_before_newer_messages_and_in_their_own_order(desk) -> None:
    """Two turns of one chat were open when the process died; a new message comes while they are settled."""
    desk.restart([THINKS])
    first, second = desk.message("first"), desk.message("second")
    tasks = [asyncio.create_task(desk.run(message)) for message in (first, second)]
    await desk.until(
        lambda: desk.store.value("SELECT count(*) FROM turns") == 2 and desk.transport.running == 1
    )
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    desk.restart(lambda call: Answer(reply="ok", delay=0.03 if call.number == 0 else 0))
    settling = await desk.runner.recover(desk.channel_of)
    newer = desk.message("newer")
    await asyncio.gather(desk.run(newer), *settling)
    assert [to for _, _, to in desk.channel.sent] == [first.message_id, second.message_id, newer.message_id]


@pytest.mark.parametrize("chats", [1, 3])
async def test_one_that_cannot_be_settled_does_not_keep_the_others(desk, chats: int) -> None:
    for chat in range(1, chats + 1):
        await cut_while_thinking(desk, chat=chat)
    desk.store.transact(lambda tx: tx.run("UPDATE turns SET messages_json = '[{}]' WHERE chat_id = 1"))
    desk.restart("ok")
    tasks = await desk.runner.recover(desk.channel_of)
    done = await asyncio.gather(*tasks, return_exceptions=True)
    assert len(done) == chats
    assert len(desk.channel.texts) == chats - 1
