"""The foreground turn: what is on disk before the step that depends on it (design 4, spec agent-runtime 2.3, 3.5)."""

import asyncio
import json
import os
from typing import Any

import pytest

from rightlab.claude import ToolResult, ToolUse
from rightlab.conversation import Attachment, SendLater, SendRejected, SendUncertain
from rightlab.errors import FencedOut, StoreError, TurnFailed
from rightlab.testing import ScriptedTransport
from rightlab.testing.scripted_transport import Answer
from rightlab.turn.runner import FILES_ONLY


def receipt(name: str = "rightx-tea", message: str = "steeped it longer") -> dict[str, str]:
    return {"package_name": name, "message": message}


def structured(content: Any, *receipts: dict[str, str], **more: Any) -> Answer:
    return Answer(structured={"content": content, "used_skill_receipts": list(receipts), **more})


# a turn that goes well


async def test_a_message_is_answered_as_a_reply_to_it(desk) -> None:
    desk.restart(["Good morning."])
    message = desk.message("hello")
    turn = await desk.run(message)
    assert (turn.status, turn.text, turn.error) == ("delivered", "Good morning.", None)
    assert desk.channel.sent == [(7, "Good morning.", message.message_id)]
    assert desk.states() == ["done"]
    row = desk.row(turn.turn_id)
    assert row["status"] == "delivered"
    assert json.loads(row["reply_json"]) == {"text": "Good morning."}
    assert (row["chat_id"], row["channel"], row["attempt"]) == (7, "fake", 1)
    assert row["prompt_sha256"] == turn.prompt_sha256
    assert row["finished_at"] >= row["started_at"]


async def test_the_reply_is_stored_before_its_first_part_is_sent(desk) -> None:
    desk.restart(["word " * 2000])
    seen: list[tuple[str, bool, str, list[str]]] = []

    def look() -> None:
        row = desk.row()
        parts = desk.outbox.get(row["outbox_id"]).parts
        states = [part.state for part in parts]
        seen.append((row["status"], row["reply_json"] is not None, desk.states()[0], states))

    desk.channel.look = look
    await desk.run(desk.message())
    assert len(seen) == 3
    assert seen[0] == ("replied", True, "done", ["sending", "pending", "pending"])
    assert seen[2][3] == ["sent", "sent", "sending"]
    assert desk.row()["status"] == "delivered"


async def test_what_was_sent_is_archived_with_the_ids_the_chat_gave(desk) -> None:
    desk.restart(["A reply about teapots."])
    turn = await desk.run(desk.message())
    rows = desk.store.rows("SELECT * FROM conversation_messages WHERE role = 'assistant'")
    assert [(row["message_id"], row["content"]) for row in rows] == [(1001, "A reply about teapots.")]
    asked = desk.store.row("SELECT * FROM conversation_messages WHERE role = 'user'")
    assert asked["turn_id"] == turn.turn_id
    assert turn.session_id in {asked[name] for name in asked.keys()}  # noqa: SIM118 - a row iterates over values


async def test_the_turn_is_in_the_ledger_once(desk) -> None:
    desk.restart([Answer(reply="ok", usage={"input_tokens": 100, "output_tokens": 10})])
    turn = await desk.run(desk.message())
    [row] = desk.store.rows("SELECT * FROM usage_events")
    assert (row["source"], row["turn_id"], row["chat_id"]) == ("interactive", turn.turn_id, 7)
    assert (row["input_tokens"], row["output_tokens"], row["num_turns"]) == (100, 10, turn.num_turns)
    assert row["total_cost_usd"] == pytest.approx(turn.cost_usd)
    assert row["scripted"] == 1


async def test_a_batch_is_one_turn_in_order_and_answers_no_single_message(desk) -> None:
    turn = await desk.run(desk.message("one"), desk.message("two"), desk.message("three"))
    stdin = desk.transport.calls[0].stdin
    assert stdin.index("one") < stdin.index("two") < stdin.index("three")
    assert len(desk.transport.calls) == 1
    assert desk.channel.sent == [(7, "ok", None)]
    assert desk.states() == ["done"] * 3
    assert len(json.loads(desk.row(turn.turn_id)["messages_json"])) == 3


async def test_among_several_messages_the_model_says_which_one_it_answers(desk) -> None:
    """Spec agent-runtime 4.2: several messages in a DM, the model's own choice."""
    first, second, third = desk.message("one"), desk.message("two"), desk.message("three")
    desk.restart([structured({"text": "to two"}, reply_to_message_id=second.message_id)])
    await desk.run(first, second, third)
    assert desk.channel.sent == [(7, "to two", second.message_id)]


async def test_a_single_message_and_a_group_are_answered_whatever_the_model_chooses(desk) -> None:
    desk.restart([structured({"text": "a"}, reply_to_message_id=4711)] * 2)
    alone = desk.message("alone")
    await desk.run(alone)
    group = [desk.message("a", chat=-5, chat_kind="group"), desk.message("b", chat=-5, chat_kind="group")]
    await desk.run(*group)
    assert [to for _, _, to in desk.channel.sent] == [alone.message_id, group[0].message_id]


async def test_null_content_is_silence_and_not_an_error(desk) -> None:
    desk.restart([structured(None)])
    turn = await desk.run(desk.message())
    assert (turn.status, turn.reply, turn.text, turn.error) == ("delivered", None, "", None)
    assert desk.channel.sent == []
    row = desk.row()
    assert (row["status"], row["outbox_id"], row["reply_json"]) == ("delivered", None, None)
    assert desk.states() == ["done"]


async def test_receipts_are_one_paragraph_after_the_reply(desk) -> None:
    desk.restart([structured({"text": "Tea is ready."}, receipt(), receipt("rightx-cup", "chose the mug"))])
    turn = await desk.run(desk.message())
    assert turn.skills == ("rightx-tea", "rightx-cup")
    [sent] = desk.channel.texts
    assert sent.startswith("Tea is ready.")
    assert "💡 steeped it longer (rightx-tea)\n💡 chose the mug (rightx-cup)" in sent


async def test_a_receipt_without_a_reply_is_the_reply(desk) -> None:
    desk.restart([structured(None, receipt())])
    await desk.run(desk.message())
    assert desk.channel.texts == ["💡 steeped it longer (rightx-tea)"]


async def test_plain_text_instead_of_the_schema_is_the_reply(desk) -> None:
    """Spec agent-runtime 2.3: structured output may be missing on success; the result's text counts then."""
    desk.restart([Answer(text="Just words.")])
    turn = await desk.run(desk.message())
    assert (turn.status, desk.channel.texts) == ("delivered", ["Just words."])


async def test_files_alone_are_answered_by_one_line_without_a_model_call(desk) -> None:
    turn = await desk.run(desk.message("", attachments=(Attachment("photo", "file-1"),)))
    assert turn.status == "failed"
    assert desk.channel.texts == [FILES_ONLY]
    assert desk.transport.calls == []
    assert desk.row()["error_kind"] == "attachments"
    assert desk.states() == ["done"]


async def test_nothing_to_read_is_no_turn_for_the_model(desk) -> None:
    turn = await desk.run(desk.message("  \n "))
    assert turn.status == "delivered"
    assert (desk.transport.calls, desk.channel.sent, desk.states()) == ([], [], ["done"])


async def test_messages_another_turn_has_taken_are_left_out(desk) -> None:
    first, second = desk.message("one"), desk.message("two")
    await desk.run(first)
    turn = await desk.run(first, second)
    assert "one" not in desk.transport.calls[1].stdin
    assert "two" in desk.transport.calls[1].stdin
    assert turn is not None
    assert await desk.run(first, second) is None
    assert len(desk.transport.calls) == 2


async def test_typing_is_shown_while_a_turn_runs_and_ends_with_it(desk) -> None:
    desk.restart([Answer(reply="ok", delay=0.05), Answer(error=500)])
    for text in ("well", "badly"):
        await desk.run(desk.message(text))
    assert desk.channel.typing_in == [7, 7]
    assert desk.channel.typing_ended == 2


async def test_the_files_of_an_invocation_are_gone_when_it_has_ended(desk) -> None:
    seen: list[list[str]] = []

    def script(call: Any) -> str:
        folder = desk.folder / "files" / call.invocation.invocation_id
        assert call.invocation.files == folder
        assert call.invocation.mcp_config == "/files/mcp.json"
        assert call.invocation.prompt_file == "/scratch/prompt.md"
        assert call.command == ("/bin/sh", "/files/run.sh")
        seen.append(sorted(os.listdir(folder)))
        assert (folder / "mcp.json").stat().st_mode & 0o777 == 0o600
        assert desk.tools.open_now == {call.invocation.invocation_id}
        return "ok"

    desk.restart(script)
    await desk.run(desk.message())
    assert seen == [["mcp.json", "run.sh"]]
    assert os.listdir(desk.folder / "files") == []
    assert desk.tools.open_now == set()
    assert [(scope.kind, scope.chat_id) for scope in desk.tools.opened] == [("foreground", 7)]


# sessions


async def test_a_conversation_keeps_its_session_and_another_chat_has_its_own(desk) -> None:
    first = await desk.run(desk.message("a"))
    second = await desk.run(desk.message("b"))
    other = await desk.run(desk.message("c", chat=8))
    assert first.session_id == second.session_id != other.session_id
    assert [call.invocation.resume for call in desk.transport.calls] == [False, True, False]
    assert desk.sessions.active(7, 0).session_id == first.session_id


async def test_a_first_call_that_fails_leaves_no_session_to_resume(desk) -> None:
    desk.restart([Answer(error=400), "ok"])
    await desk.run(desk.message("a"))
    assert desk.sessions.active(7, 0) is None
    again = await desk.run(desk.message("b"))
    assert again.status == "delivered"
    assert desk.transport.calls[1].invocation.resume is False
    ids = [call.invocation.session_id for call in desk.transport.calls]
    assert ids[0] != ids[1]


async def test_a_later_failure_keeps_the_session(desk) -> None:
    desk.restart(["ok", Answer(error=529), "ok"])
    turns = [await desk.run(desk.message(text)) for text in "abc"]
    assert [turn.status for turn in turns] == ["delivered", "failed", "delivered"]
    assert len({call.invocation.session_id for call in desk.transport.calls}) == 1


async def test_a_session_the_cli_does_not_know_is_replaced_in_the_same_turn(desk) -> None:
    """Spec agent-runtime 3.5, missing session on resume: the person need not send the message again."""
    desk.restart(["ok", TurnFailed("session", "No conversation found"), "fresh", "ok"])
    turns = [await desk.run(desk.message(text)) for text in "abc"]
    assert [turn.status for turn in turns] == ["delivered"] * 3
    calls = [(call.invocation.session_id, call.invocation.resume) for call in desk.transport.calls]
    assert [resume for _, resume in calls] == [False, True, False, True]
    assert calls[1][0] == calls[0][0] != calls[2][0] == calls[3][0]
    assert "b" in desk.transport.calls[2].stdin
    assert desk.sessions.active(7, 0).session_id == turns[1].session_id == turns[2].session_id
    row = desk.row(turns[1].turn_id)
    assert (row["session_id"], row["opened_session"]) == (turns[1].session_id, 1)


async def test_a_new_session_that_fails_too_is_no_endless_search(desk) -> None:
    desk.restart(["ok", TurnFailed("session", "gone"), TurnFailed("session_in_use", "taken")])
    await desk.run(desk.message("a"))
    turn = await desk.run(desk.message("b"))
    assert (turn.status, len(desk.transport.calls)) == ("failed", 3)
    assert desk.sessions.active(7, 0) is None


async def test_a_session_whose_first_call_was_cut_does_not_spoil_the_next_turn(desk) -> None:
    """An ask that was interrupted: the CLI may never have made the session."""
    desk.restart([Answer(reply="late", delay=30), TurnFailed("session", "No conversation found"), "ok"])
    await desk.cut(desk.message("a"), when=lambda: len(desk.transport.calls) == 1)
    turn = await desk.run(desk.message("b"))
    assert (turn.status, turn.text) == ("delivered", "ok")


# turns that fail


@pytest.mark.parametrize(
    ("status", "kind", "word"),
    [
        (400, "api", "refused the request"),
        (401, "auth", "credential"),
        (429, "rate_limited", "busy"),
        (529, "rate_limited", "busy"),
        (500, "api", "API"),
    ],
)
async def test_a_failure_says_so_in_one_line(desk, status: int, kind: str, word: str) -> None:
    desk.restart([Answer(error=status)])
    message = desk.message()
    turn = await desk.run(message)
    [line] = desk.channel.texts
    assert line.startswith("⚠️ That turn failed: ")
    assert word in line
    assert "\n" not in line
    assert desk.channel.sent[0][2] == message.message_id
    assert (turn.status, turn.error, turn.reply) == ("failed", line, None)
    row = desk.row()
    assert (row["status"], row["error_kind"], row["error"]) == ("failed", kind, line)
    assert desk.states() == ["done"]


async def test_a_failed_turn_is_in_the_ledger_too(desk) -> None:
    desk.restart([Answer(error=529)])
    turn = await desk.run(desk.message())
    [row] = desk.store.rows("SELECT * FROM usage_events")
    assert (row["turn_id"], row["is_error"]) == (turn.turn_id, 1)


async def test_a_long_reason_is_cut_and_several_lines_become_one(desk) -> None:
    desk.restart([TurnFailed("cli", "one\ntwo\r\n" + "x" * 900)])
    await desk.run(desk.message())
    [line] = desk.channel.texts
    assert "one two" in line
    assert len(line) <= 340
    assert "\n" not in line


async def test_a_fault_of_ours_is_said_too_and_the_next_turn_works(desk) -> None:
    desk.restart([ZeroDivisionError("division by zero"), "ok"])
    turn = await desk.run(desk.message())
    [line] = desk.channel.texts
    assert (turn.status, desk.row()["error_kind"]) == ("failed", "internal")
    assert line == "⚠️ That turn failed: ZeroDivisionError: division by zero"
    assert (await desk.run(desk.message())).status == "delivered"


async def test_a_run_without_a_result_is_a_failure(desk) -> None:
    desk.restart([[]])
    turn = await desk.run(desk.message())
    assert turn.status == "failed"
    assert "without a result" in desk.channel.texts[0]


async def test_a_broken_prompt_is_said_and_no_model_is_asked(desk) -> None:
    desk.registry.section("broken", 2, "{{no such name}}")
    turn = await desk.run(desk.message())
    assert turn.status == "failed"
    assert desk.transport.calls == []
    assert len(desk.channel.texts) == 1


async def test_who_is_fenced_out_says_nothing_and_settles_nothing(desk) -> None:
    desk.restart([FencedOut("another process took over")])
    with pytest.raises(FencedOut):
        await desk.run(desk.message())
    assert desk.channel.sent == []
    assert desk.row()["status"] == "running"
    assert desk.states() == ["turn"]


async def test_a_disk_that_fails_leaves_the_turn_for_the_next_start(desk, monkeypatch) -> None:
    async def full(*_: Any, **__: Any) -> None:
        raise StoreError("database or disk is full")

    message = desk.message()
    monkeypatch.setattr(desk.records, "replied", full)
    monkeypatch.setattr(desk.records, "failed", full)
    with pytest.raises(StoreError):
        await desk.run(message)
    assert desk.row()["status"] == "running"
    monkeypatch.undo()
    [turn] = await desk.recover()
    assert turn.status == "delivered"
    assert desk.channel.texts == ["ok"]


# sending


@pytest.mark.parametrize(
    ("trouble", "status"),
    [
        (SendLater("not reached"), "replied"),
        (SendUncertain("no answer"), "partial"),
        (SendRejected("chat not found", whole=True), "partial"),
    ],
)
async def test_what_the_chat_does_not_take_is_told_apart(desk, trouble: Exception, status: str) -> None:
    desk.channel.trouble = trouble
    turn = await desk.run(desk.message())
    assert (turn.status, desk.row()["status"], turn.text) == (status, status, "ok")
    desk.channel.trouble = None
    await desk.deliverer.deliver_waiting()
    waited = status == "replied"
    assert desk.channel.texts == (["ok"] if waited else [])
    assert desk.row()["status"] == ("delivered" if waited else status)


async def test_a_reply_whose_channel_closed_meanwhile_waits(desk) -> None:
    channel = desk.channel

    def script(call: Any) -> str:
        desk.channel = None
        return "ok"

    desk.restart(script)
    turn = await desk.run(desk.message())
    assert (turn.status, channel.sent) == ("replied", [])
    desk.channel = channel
    assert await desk.deliverer.deliver_waiting() == 1
    assert channel.texts == ["ok"]


async def test_a_newer_reply_does_not_overtake_one_that_waits(desk) -> None:
    desk.restart(["first", "second", "other chat"])
    desk.channel.trouble = SendLater("not reached")
    assert (await desk.run(desk.message("a"))).status == "replied"
    desk.channel.trouble = None
    assert (await desk.run(desk.message("b"))).status == "delivered"
    assert desk.channel.texts == ["first", "second"]
    statuses = [row["status"] for row in desk.store.rows("SELECT status FROM turns ORDER BY id")]
    assert statuses == ["delivered", "delivered"]


async def test_a_newer_reply_waits_behind_one_that_still_cannot_go(desk) -> None:
    desk.restart(["first", "second"])
    desk.channel.trouble = SendLater("not reached")
    await desk.run(desk.message("a"))
    turn = await desk.run(desk.message("b"))
    assert turn.status == "replied"
    desk.channel.trouble = None
    await desk.deliverer.deliver_waiting()
    assert desk.channel.texts == ["first", "second"]


async def test_a_chat_that_is_held_up_does_not_hold_up_the_others(desk) -> None:
    desk.channel.trouble = SendLater("not reached")
    desk.restart(["slow", "quick"])
    await desk.run(desk.message("a", chat=7))
    await desk.run(desk.message("b", chat=8))
    desk.channel.trouble = None
    held = asyncio.Event()
    take = desk.channel.send

    async def send(chat_id: int, *args: Any, **more: Any) -> int:
        if chat_id == 7:
            await held.wait()
        return await take(chat_id, *args, **more)

    desk.channel.send = send
    delivering = asyncio.create_task(desk.deliverer.deliver_waiting())
    await desk.until(lambda: desk.channel.texts == ["quick"])
    held.set()
    assert await delivering == 2
    assert desk.channel.texts == ["quick", "slow"]


# tools


async def test_a_tool_call_is_noted_before_its_result_is_read(desk) -> None:
    noted: list[tuple[str, bool]] = []
    original = ScriptedTransport.run

    async def watching(self: Any, *args: Any, **more: Any) -> Any:
        async for event in original(self, *args, **more):
            if isinstance(event, ToolResult):
                noted.append(
                    (event.text if hasattr(event, "text") else "", desk.row()["first_tool_at"] is not None)
                )
            yield event

    desk.restart([Answer(reply="done", tools=[("Bash", {"command": "date"}, "noon"), ("Read", {})])])
    desk.transport.run = watching.__get__(desk.transport)
    turn = await desk.run(desk.message())
    assert turn.tools == ("Bash", "Read")
    assert len(noted) >= 2
    assert all(known for _, known in noted)


async def test_the_reply_tool_is_no_act(desk) -> None:
    desk.restart(["ok"])
    turn = await desk.run(desk.message())
    assert turn.tools == ()
    assert desk.row()["first_tool_at"] is None
    assert any(isinstance(event, ToolUse) for event in await _events_of(desk))


async def _events_of(desk: Any) -> list[Any]:
    return [
        event async for event in ScriptedTransport("ok").run(desk.transport.calls[0].invocation, stdin="x")
    ]


# side by side


async def test_two_conversations_run_side_by_side_and_one_never_twice(desk) -> None:
    most: dict[int, int] = {}
    now: dict[int, int] = {}
    together = 0

    async def script(call: Any) -> str:
        nonlocal together
        chat = desk.tools.opened[-1].chat_id
        now[chat] = now.get(chat, 0) + 1
        most[chat] = max(most.get(chat, 0), now[chat])
        together = max(together, sum(now.values()))
        await asyncio.sleep(0.03)
        now[chat] -= 1
        return f"{chat}"

    desk.restart(script)
    await asyncio.gather(
        *(desk.run(desk.message(str(number), chat=chat)) for number in range(3) for chat in (7, 8))
    )
    assert most == {7: 1, 8: 1}
    assert together == 2
    assert sorted(desk.channel.texts) == ["7"] * 3 + ["8"] * 3


async def test_turns_of_one_conversation_are_answered_in_the_order_they_began(desk) -> None:
    desk.restart(lambda call: Answer(reply=str(call.number), delay=0.02 if call.number == 0 else 0))
    messages = [desk.message(str(number)) for number in range(5)]
    await asyncio.gather(*(desk.run(message) for message in messages))
    assert [to for _, _, to in desk.channel.sent] == [message.message_id for message in messages]


async def test_the_cap_on_live_processes_holds_over_conversations(desk) -> None:
    most = 0

    async def script(call: Any) -> str:
        nonlocal most
        most = max(most, desk.transport.running)
        await asyncio.sleep(0.02)
        return "ok"

    desk.restart(script, slots=2)
    await asyncio.gather(*(desk.run(desk.message("x", chat=chat)) for chat in range(1, 7)))
    assert most == 2
    assert len(desk.channel.sent) == 6


async def test_who_waits_for_its_conversation_takes_no_place_from_others(desk) -> None:
    goes_on = asyncio.Event()

    async def script(call: Any) -> str:
        if call.number == 0:
            await goes_on.wait()
        return "ok"

    desk.restart(script, slots=2)
    first = asyncio.create_task(desk.run(desk.message("slow", chat=1)))
    await desk.until(lambda: desk.transport.calls)
    queued = asyncio.create_task(desk.run(desk.message("behind it", chat=1)))
    await desk.until(lambda: desk.store.value("SELECT count(*) FROM turns") == 2)
    await asyncio.wait_for(desk.run(desk.message("other", chat=2)), 5)
    assert not first.done()
    goes_on.set()
    await asyncio.gather(first, queued)
