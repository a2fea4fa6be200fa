"""kill -9 while several chats talk: no update lost, none answered twice, order kept per chat."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from rightlab.clock import SystemClock
from rightlab.conversation import Inbox, Outbox
from rightlab.store import Store
from rightlab.testing.botapi import BotApi

CHATS, MESSAGES, KILLS = (41, 42, 43, 44), 12, 6

# A whole bot in small: what it was told is answered by the same words, through inbox and outbox.
ECHO = """
import asyncio, sys
from types import SimpleNamespace
from rightlab.clock import SystemClock
from rightlab.content import Part
from rightlab.conversation import Archive, Inbox, Outbox
from rightlab.store import Store
from rightlab.telegram import TelegramChannel

async def main(path, base, token):
    store, clock = Store.open(path, role="owner"), SystemClock()
    inbox, outbox = Inbox(store, clock), Outbox(store, clock)
    outbox.recover()
    chats = {}

    def deliver(outbox_id):
        row = outbox.get(outbox_id)
        before = chats.get(row.chat_id)

        async def work():
            if before is not None:
                await before
            await outbox.deliver(outbox_id, lambda part: channel.send(row.chat_id, row.thread_id, part))

        chats[row.chat_id] = asyncio.create_task(work())

    async def on_message(message):
        def work(tx):
            if not inbox.claim([message.inbox_id], f"turn-{message.inbox_id}", tx=tx):
                return None
            inbox.settle([message.inbox_id], "done", tx=tx)
            return outbox.enqueue(source="reply", chat_id=message.chat_id, thread_id=0,
                                  parts=[Part(0, "text", message.text)], tx=tx)
        outbox_id = await store.atransact(work)
        if outbox_id is not None:
            deliver(outbox_id)

    everybody = SimpleNamespace(trusts=lambda _: True, group=lambda _: None)
    channel = TelegramChannel(token=token, api_base=base, store=store, inbox=inbox,
                              archive=Archive(store, clock), allowlist=lambda: everybody,
                              on_message=on_message, poll_seconds=2)
    for outbox_id in outbox.waiting():
        deliver(outbox_id)
    await channel.start()
    await asyncio.Event().wait()

asyncio.run(main(*sys.argv[1:]))
"""


def bot(path: Path, api: BotApi) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", ECHO, str(path), api.base_url, api.token],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path)},
        start_new_session=True,
    )


def kill(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait(10)


def open_rows(path: Path) -> bool:
    with Store.open(path, role="owner") as store:
        return bool(Inbox(store, SystemClock()).pending() or Outbox(store, SystemClock()).waiting())


def wait(predicate: Callable[[], bool], timeout: float) -> None:
    deadline = time.monotonic() + timeout
    while not predicate():
        assert time.monotonic() < deadline, "the bot did not get through"
        time.sleep(0.02)


def test_kill_9_at_random_moments_while_chats_talk(api: BotApi, tmp_path: Path) -> None:
    chance = random.Random(20261130)
    path = tmp_path / "data.db"
    with Store.open(path, role="owner"):
        pass
    todo = [(chat, f"{number:03d}") for number in range(MESSAGES) for chat in CHATS]
    each = len(todo) // KILLS
    for _ in range(KILLS):
        process = bot(path, api)
        try:
            polls = len(api.calls_of("getUpdates"))
            api.wait_for(lambda polls=polls: len(api.calls_of("getUpdates")) > polls, 30)
            for chat, text in todo[:each]:
                api.send_text(chat, text)
                time.sleep(chance.uniform(0, 0.004))
            del todo[:each]
            time.sleep(chance.uniform(0, 0.03))
        finally:
            kill(process)
    process = bot(path, api)
    try:
        wait(lambda: not api.pending_updates and not open_rows(path), 30)
    finally:
        kill(process)
    with Store.open(path, role="owner") as store:
        outbox = Outbox(store, SystemClock())
        outbox.recover()
        doubts = {(row.chat_id, row.parts[0].text) for row in outbox.undelivered()}
        assert all(row.error for row in outbox.undelivered())
    for chat in CHATS:
        answers = api.texts(chat)
        wanted = [f"{number:03d}" for number in range(MESSAGES)]
        assert len(answers) == len(set(answers)), "answered twice"
        assert answers == sorted(answers), "out of order"
        assert all((chat, text) in doubts for text in set(wanted) - set(answers)), "lost in silence"


def test_redelivered_after_a_kill_before_the_commit(api: BotApi, tmp_path: Path) -> None:
    """The poll had brought the update, the process died before its row was committed: it comes again."""
    path = tmp_path / "data.db"
    with Store.open(path, role="owner") as store:
        # Holding the write lock keeps the child between receiving and committing.
        def hold(tx) -> None:
            update_id = api.send_text(42, "hello")
            api.wait_for(
                lambda: any(call.status == 200 for call in api.calls_of("getUpdates") if call.at > started),
                30,
            )
            time.sleep(0.1)
            kill(process)
            assert api.pending_updates == [update_id]

        process = bot(path, api)
        api.wait_for(lambda: api.calls_of("getUpdates"), 30)
        started = api.calls_of("getUpdates")[0].at - 1
        try:
            store.transact(hold)
        finally:
            kill(process)
        assert store.value("SELECT count(*) FROM inbox") == 0
    process = bot(path, api)
    try:
        api.wait_for(lambda: api.texts(42) == ["hello"], 30)
    finally:
        kill(process)
