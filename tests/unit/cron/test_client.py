"""The notebook client's waits, and what it keeps of a failure."""

import asyncio
import json
from pathlib import Path
from queue import Empty
from types import SimpleNamespace
from typing import Any

import pytest
from nbformat.v4 import new_code_cell, new_notebook

from rightlab.cron.client import Client, make_client, sliced
from rightlab.cron.execution import _line
from rightlab.cron.runjob import _finish

KEY = "sk-ant-api03-" + "k" * 40
TOKEN = "123456789:" + "T" * 35


class Channel:
    """A shell channel that misses the first wake-ups: the reply lies there, and only a new look finds it."""

    def __init__(self, missed: int, reply: Any) -> None:
        self.missed, self.reply = missed, reply
        self.asked: list[float | None] = []

    async def get_msg(self, timeout: float | None = None) -> Any:
        self.asked.append(timeout)
        if len(self.asked) > self.missed:
            return self.reply
        if timeout is None:
            await asyncio.Event().wait()
        await asyncio.sleep(timeout or 0)
        raise Empty


def client_on(channel: Any, timeout: float | None = None) -> Client:
    nb = new_notebook(cells=[new_code_cell("1")])
    client = make_client(nb, SimpleNamespace(manager=None), lambda *_: None, timeout)
    client.attach(SimpleNamespace(shell_channel=channel))
    return client


@pytest.mark.parametrize("timeout", [None, 3600])
async def test_a_reply_whose_wake_up_was_lost_is_found_at_the_next_look(timeout: int | None) -> None:
    channel = Channel(1, {"parent_header": {"msg_id": "m"}, "content": {}})
    client = client_on(channel, timeout)
    client.record_timing = False
    told, alive = asyncio.ensure_future(asyncio.sleep(0)), asyncio.ensure_future(asyncio.sleep(60))
    async with asyncio.timeout(20):
        reply = await client._async_poll_for_reply("m", client.nb.cells[0], timeout, told, alive)
    assert reply is channel.reply
    assert len(channel.asked) == 2
    assert all(asked is not None and asked <= 1 for asked in channel.asked)


async def test_a_deadline_still_ends_the_wait() -> None:
    channel = Channel(10**9, None)
    with pytest.raises(Empty):
        await sliced(channel.get_msg, 0.01)(timeout=0.05)
    assert len(channel.asked) > 2
    assert sum(asked or 0 for asked in channel.asked) <= 0.06


async def test_a_wait_can_be_cancelled() -> None:
    """A dead kernel is told by cancelling the wait."""
    wait = asyncio.ensure_future(sliced(Channel(10**9, None).get_msg, 0.01)())
    await asyncio.sleep(0.03)
    wait.cancel()
    with pytest.raises(asyncio.CancelledError):
        await wait


def test_an_error_is_kept_without_credentials() -> None:
    client = client_on(Channel(0, None))
    client.clear_before_next_output = False
    cell = client.nb.cells[0]
    content = {"ename": "ValueError", "evalue": f"bad {KEY}", "traceback": ["line", f"ValueError: bad {KEY}"]}
    message = {
        "msg_type": "error",
        "header": {"msg_type": "error"},
        "content": content,
        "parent_header": {"msg_id": "m"},
    }
    client.process_message(message, cell, 0)
    assert cell.outputs[0].evalue == "bad [redacted]"
    assert cell.outputs[0].traceback == ["line", "ValueError: bad [redacted]"]


def test_the_reason_and_the_status_hold_no_credentials(tmp_path: Path) -> None:
    assert _line(f"cell 1: ValueError: {KEY} and {TOKEN}") == "cell 1: ValueError: [redacted] and [redacted]"
    _finish(
        tmp_path, {"run_id": "r"}, {"status": "failed", "failure": "infrastructure", "reason": f"no\n{TOKEN}"}
    )
    status = json.loads((tmp_path / "status.json").read_text())
    assert status["reason"] == "no\n[redacted]"
    assert status["run_id"] == "r"
