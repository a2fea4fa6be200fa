"""The turn from a chat and back: the runtime in a process of its own, the real Claude Code in its sandbox, a strict
bot server and a scripted model (design 4; spec agent-runtime 2.2, 3.5, 4.1, 4.2).
"""

import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from agent_process import AgentProcess, wait_until

from rightlab.content import utf16_len
from rightlab.testing import BotApi
from rightlab.turn.runner import LOST

pytestmark = [pytest.mark.claude, pytest.mark.sandbox]

ANN, STRANGER = 42, 666
ECHO = {"match": {"regex": r"^say (\w+)"}, "reply": "{{1}}"}
ACT_AND_STALL = [
    {"tools": [{"name": "Bash", "input": {"command": "echo acted >> /sandbox/acts", "description": "act"}}]},
    {"reply": "never said", "delay": 60},
]


@pytest.fixture
def make(api: BotApi, tmp_path: Path) -> Iterator[Callable[..., AgentProcess]]:
    made: list[AgentProcess] = []

    def build(rules: Any = None, *, start: bool = True, **more: Any) -> AgentProcess:
        agent = AgentProcess(tmp_path, api, allow=(ANN, 43), rules=rules, **more)
        made.append(agent)
        if start:
            agent.start()
        return agent

    yield build
    for agent in made:
        agent.kill()


def texts(api: BotApi, count: int = 1, chat: int = ANN, timeout: float = 20) -> list[str]:
    """The bot's messages once there are ``count`` of them."""
    wait_until(lambda: len(api.texts(chat)) >= count, timeout, f"{count} messages in chat {chat}")
    return api.texts(chat)


# a message in, a reply out


def test_a_message_is_answered_as_a_reply_to_it(make, api: BotApi) -> None:
    agent = make([ECHO])
    api.send_text(ANN, "say hello")
    assert texts(api) == ["hello"]
    [sent] = api.messages(ANN)
    assert sent["reply_to_message"]["text"] == "say hello"
    assert (ANN, 0, "typing") in api.actions
    agent.settled()
    api.send_text(ANN, "say again")
    assert texts(api, 2) == ["hello", "again"]
    agent.settled()
    first, second = agent.turns()
    assert first["session_id"] == second["session_id"]
    assert (first["opened_session"], second["opened_session"]) == (1, 0)
    assert [row["source"] for row in agent.rows("SELECT source FROM usage_events")] == ["interactive"] * 2
    archived = agent.rows("SELECT role, content, message_id FROM conversation_messages ORDER BY id")
    assert [(row["role"], row["content"]) for row in archived] == [
        ("user", "say hello"),
        ("assistant", "hello"),
        ("user", "say again"),
        ("assistant", "again"),
    ]
    assert archived[1]["message_id"] == sent["message_id"]


def test_two_messages_within_half_a_second_are_one_turn(make, api: BotApi) -> None:
    agent = make([{"match": {"regex": r"(?s)apples.*pears"}, "reply": "both"}])
    api.send_text(ANN, "apples")
    time.sleep(0.2)
    api.send_text(ANN, "pears")
    assert texts(api) == ["both"]
    agent.settled()
    assert len(agent.turns()) == 1
    assert "reply_to_message" not in api.messages(ANN)[0]


def test_a_message_that_comes_during_a_turn_is_the_next_turn(make, api: BotApi) -> None:
    agent = make([{"match": "first", "reply": "one", "delay": 1.0}, {"match": "second", "reply": "two"}])
    api.send_text(ANN, "first")
    wait_until(lambda: agent.turns(), what="the turn began")
    api.send_text(ANN, "second")
    assert texts(api, 2) == ["one", "two"]


def test_two_chats_are_answered_side_by_side(make, api: BotApi) -> None:
    make([{"match": "slow", "reply": "at last", "delay": 3.0}, {"match": "quick", "reply": "here"}])
    api.send_text(ANN, "slow")
    api.wait_for(lambda: (ANN, 0, "typing") in api.actions, 10)
    api.send_text(43, "quick")
    assert texts(api, chat=43) == ["here"]
    assert api.texts(ANN) == []
    assert texts(api) == ["at last"]


def test_a_stranger_gets_no_word_and_no_turn(make, api: BotApi) -> None:
    agent = make([{"reply": "ok"}])
    api.send_text(STRANGER, "let me in")
    api.send_text(ANN, "hello")
    assert texts(api) == ["ok"]
    agent.settled()
    assert api.messages(STRANGER) == []
    assert all(chat != STRANGER for chat, _, _ in api.actions)
    assert [turn["chat_id"] for turn in agent.turns()] == [ANN]
    [ignored] = agent.rows("SELECT * FROM inbox WHERE chat_id = ?", STRANGER)
    assert (ignored["state"], ignored["payload"]) == ("ignored", None)


def test_an_update_delivered_twice_is_answered_once(make, api: BotApi) -> None:
    agent = make([ECHO])
    update = api.send_text(ANN, "say once")
    texts(api)
    api.redeliver(update)
    agent.settled()
    agent.kill()
    agent.start()
    api.redeliver(update)
    api.send_text(ANN, "say last")
    assert texts(api, 2) == ["once", "last"]


def test_a_long_reply_is_cut_at_4096_utf16_units_and_nothing_is_lost(make, api: BotApi) -> None:
    text = "".join(f"{number:04d}🫖 " for number in range(715))[:5000]
    make([{"reply": text}])
    api.send_text(ANN, "a long one")
    parts = texts(api, 2)
    assert len(parts) == 2
    assert all(utf16_len(part) <= 4096 for part in parts)
    assert "".join("".join(parts).split()) == "".join(text.split())
    assert all(message["reply_to_message"]["text"] == "a long one" for message in api.messages(ANN))


def test_send_message_from_inside_the_turn(make, api: BotApi) -> None:
    """The CLI calls the aggregator's tool; the message stands in the chat before the reply does."""
    call = {"name": "mcp__right__send_message", "input": {"content": {"text": "Working on it."}}}
    agent = make([{"steps": [{"tools": [call]}, {"reply": "Done: {{tool_result}}"}]}])
    api.send_text(ANN, "do it")
    first, second = texts(api, 2)
    assert first == "Working on it."
    assert second.startswith("Done: ")
    assert str(api.messages(ANN)[0]["message_id"]) in second
    agent.settled()
    [turn] = agent.turns()
    assert (turn["status"], turn["first_tool_at"] is not None) == ("delivered", True)
    sources = [row["source"] for row in agent.rows("SELECT source FROM outbox ORDER BY id")]
    assert sources == ["send_message", "turn"]


def test_a_session_goes_on_after_a_restart_tools_and_all(make, api: BotApi) -> None:
    """Claude Code drops a tool call whose id is in its session already: the model's ids must not start anew."""
    note = {"name": "Bash", "input": {"command": "echo {{1}} >> /sandbox/acts", "description": "note it"}}
    agent = make([{"match": {"regex": r"act (\w+)"}, "steps": [{"tools": [note]}, {"reply": "did {{1}}"}]}])
    for number, word in enumerate(("one", "two", "three"), 1):
        api.send_text(ANN, f"act {word}")
        assert texts(api, number)[-1] == f"did {word}"
        agent.settled()
        agent.stop()
        agent.start()
    assert agent.guest_file("acts").read_text().split() == ["one", "two", "three"]
    assert len({turn["session_id"] for turn in agent.turns()}) == 1


# kill -9, and the next start


def test_killed_while_the_model_thinks_it_answers_once_after_the_restart(make, api: BotApi) -> None:
    agent = make([{"reply": "never said", "delay": 60}])
    api.send_text(ANN, "say hello")
    wait_until(lambda: any(turn["invocation_id"] for turn in agent.turns()), what="the model is asked")
    time.sleep(0.5)
    agent.kill()
    assert leftovers(agent) == []
    agent.script([ECHO])
    agent.start()
    assert texts(api) == ["hello"]
    agent.settled()
    [turn] = agent.turns()
    assert (turn["attempt"], turn["status"]) == (2, "delivered")
    agent.kill()
    agent.start()
    api.send_text(ANN, "say more")
    assert texts(api, 2) == ["hello", "more"]


def test_killed_after_a_tool_ran_it_says_so_in_one_line(make, api: BotApi) -> None:
    agent = make([{"steps": ACT_AND_STALL}])
    api.send_text(ANN, "act")
    acts = agent.guest_file("acts")
    wait_until(lambda: acts.exists() and acts.read_text(), what="the tool ran")
    agent.kill()
    agent.script([ECHO])
    agent.start()
    assert texts(api) == [LOST]
    agent.settled()
    assert acts.read_text() == "acted\n"
    assert agent.turns()[0]["status"] == "lost"
    api.send_text(ANN, "say onward")
    assert texts(api, 2) == [LOST, "onward"]


def test_a_tool_is_noted_before_it_runs(make, api: BotApi) -> None:
    """However soon after the tool's first trace the process dies, the next start knows that it had begun to act."""
    agent = make([{"steps": ACT_AND_STALL}])
    api.send_text(ANN, "act")
    acts = agent.guest_file("acts")
    deadline = time.monotonic() + 30
    while not acts.exists():
        assert time.monotonic() < deadline
    agent.kill()
    assert agent.turns()[0]["first_tool_at"] is not None


def test_killed_with_a_stored_reply_it_delivers_it_once(make, api: BotApi) -> None:
    agent = make([ECHO | {"delay": 0.5}])
    api.send_text(ANN, "say stored")
    wait_until(lambda: agent.turns(), what="the turn began")
    api.wait_for(lambda: not api.pending_updates, 10)
    api.offline()
    # Not while it tries: a part that is cut in the middle of its send is never sent again.
    tried = "SELECT * FROM outbox_parts WHERE state = 'pending' AND attempts > 0"
    wait_until(lambda: agent.rows(tried), what="the reply is stored and could not be sent")
    agent.kill()
    assert agent.turns()[0]["status"] == "replied"
    agent.script([{"reply": "asked twice"}])
    api.online()
    agent.start()
    assert texts(api) == ["stored"]
    agent.settled()
    assert agent.turns()[0]["status"] == "delivered"
    assert api.texts(ANN) == ["stored"]


def test_killed_between_storing_and_the_servers_answer_it_never_sends_twice(make, api: BotApi) -> None:
    """The server has the message, the answer never came: uncertain, and not sent again."""
    agent = make([ECHO])
    api.delay_next("sendMessage", 30)
    api.send_text(ANN, "say maybe")
    assert texts(api) == ["maybe"]
    agent.kill()
    agent.start()
    agent.settled()
    api.send_text(ANN, "say next")
    assert texts(api, 2) == ["maybe", "next"]
    [part] = agent.rows("SELECT * FROM outbox_parts WHERE text = 'maybe'")
    assert part["state"] == "uncertain"
    assert agent.turns()[0]["status"] == "partial"


def test_a_connection_that_breaks_after_storing_is_no_second_message(make, api: BotApi) -> None:
    agent = make([ECHO])
    api.drop_after_storing()
    api.send_text(ANN, "say maybe")
    assert texts(api) == ["maybe"]
    agent.settled()
    agent.kill()
    agent.start()
    api.send_text(ANN, "say next")
    assert texts(api, 2) == ["maybe", "next"]


def test_killed_before_the_update_was_stored_nothing_is_lost(make, api: BotApi) -> None:
    agent = make([ECHO], start=False)
    api.send_text(ANN, "say early")
    # The answer of the poll is on its way for a second: the process dies having fetched and stored nothing.
    agent.start()
    agent.kill()
    agent.start()
    assert texts(api) == ["early"]
    agent.settled()
    assert api.texts(ANN) == ["early"]


def test_killed_in_the_debounce_window_nothing_is_lost(make, api: BotApi) -> None:
    agent = make([ECHO])
    api.send_text(ANN, "say stored")
    wait_until(lambda: agent.rows("SELECT * FROM inbox WHERE state = 'queued'"), what="it is in the inbox")
    agent.kill()
    assert agent.turns() == []
    agent.start()
    assert texts(api) == ["stored"]


def test_what_was_cut_is_answered_before_what_came_meanwhile(make, api: BotApi) -> None:
    agent = make([{"reply": "never said", "delay": 60}])
    api.send_text(ANN, "say one")
    wait_until(lambda: any(turn["invocation_id"] for turn in agent.turns()), what="the model is asked")
    agent.kill()
    api.send_text(ANN, "say two")
    agent.script([ECHO])
    agent.start()
    assert texts(api, 2) == ["one", "two"]


# turns that fail


@pytest.mark.parametrize(
    ("error", "word"),
    [
        ({"status": 400, "message": "prompt is too strange"}, "prompt is too strange"),
        ({"status": 401}, "credential"),
        ({"status": 529}, "busy"),
    ],
    ids=["400", "401", "529"],
)
def test_what_the_model_api_refuses_is_said_in_one_line(make, api: BotApi, error: Any, word: str) -> None:
    make([{"match": "hello", "error": error}, ECHO])
    api.send_text(ANN, "hello")
    asked = time.monotonic()
    [line] = texts(api)
    assert time.monotonic() - asked < 10
    assert line.startswith("⚠️ That turn failed: ")
    assert word in line
    assert "\n" not in line
    assert api.messages(ANN)[0]["reply_to_message"]["text"] == "hello"
    api.send_text(ANN, "say fine")
    assert texts(api, 2)[1] == "fine"


def test_an_upstream_that_is_not_there_is_said_in_one_line(make, api: BotApi) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    make(**{"gateway.upstream": f"http://127.0.0.1:{port}"})
    api.send_text(ANN, "hello")
    asked = time.monotonic()
    [line] = texts(api)
    assert time.monotonic() - asked < 10
    assert line.startswith("⚠️ That turn failed: ")
    assert f"127.0.0.1:{port}" in line
    assert "\n" not in line


def test_a_cli_that_dies_is_said_in_one_line(make, api: BotApi) -> None:
    agent = make([{"match": "hello", "reply": "never said", "delay": 60}, ECHO])
    api.send_text(ANN, "hello")
    [pid] = wait_until(lambda: cli_processes(agent), what="Claude Code runs")
    wait_until(lambda: list(agent.agent.recordings_dir.rglob("*")) or True)
    time.sleep(1)
    os.kill(pid, signal.SIGKILL)
    asked = time.monotonic()
    [line] = texts(api)
    assert time.monotonic() - asked < 10
    assert line.startswith("⚠️ That turn failed: Claude Code ")
    api.send_text(ANN, "say fine")
    assert texts(api, 2)[1] == "fine"


def cli_processes(agent: AgentProcess) -> list[int]:
    """Claude Code of this agent: the processes that were given its prompt file."""
    assert agent.process is not None
    return [pid for pid in descendants(agent.process.pid) if b"--system-prompt-file" in command(pid)]


def leftovers(agent: AgentProcess) -> list[str]:
    """Processes that still name this agent's folder a moment after its runtime was killed."""
    wanted = str(agent.folder).encode()
    found: list[str] = []
    deadline = time.monotonic() + 3
    while time.monotonic() < deadline:
        mine = [pid for pid in pids() if pid != os.getpid() and wanted in command(pid)]
        found = [command(pid).decode(errors="replace") for pid in mine if b"bwrap" in command(pid)]
        if not found:
            return []
        time.sleep(0.02)
    return found


def pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def descendants(root: int) -> list[int]:
    parents: dict[int, int] = {}
    for pid in pids():
        try:
            parents[pid] = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    found, todo = [], [root]
    while todo:
        children = [pid for pid, parent in parents.items() if parent == todo[-1]]
        todo.pop()
        found += children
        todo += children
    return found
