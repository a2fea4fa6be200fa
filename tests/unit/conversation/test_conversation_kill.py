"""kill -9 between any two steps of a delivery: no part is ever sent twice, none is silently lost."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rightlab.clock import SystemClock
from rightlab.content import Part
from rightlab.conversation import Outbox
from rightlab.store import Store

PARTS = 4

# Dies by SIGKILL before its n-th step, where a step is a transaction, a commit just made, a call just
# begun or a message just stored. The "server" is a file: what is in it was published.
CHILD = """
import asyncio, os, signal, sys
from rightlab.clock import SystemClock
from rightlab.conversation import Outbox
from rightlab.store import Store

path, server, die_at = sys.argv[1], sys.argv[2], int(sys.argv[3])
steps = 0

def step():
    global steps
    steps += 1
    if steps == die_at:
        os.kill(os.getpid(), signal.SIGKILL)

submit = Store._submit

def counted(self, fn, **more):
    step()
    future = submit(self, fn, **more)
    future.exception()
    step()
    return future

Store._submit = counted

async def main():
    with Store.open(path, role="owner") as store:
        outbox = Outbox(store, SystemClock())
        outbox.recover()
        log = open(server, "ab", buffering=0)

        async def send(part):
            step()
            log.write(part.text.encode() + b"\\n")
            step()
            return 1000 + part.index

        for outbox_id in outbox.waiting():
            await outbox.deliver(outbox_id, send)

asyncio.run(main())
print(steps)
"""


def child(path: Path, server: Path, die_at: int) -> subprocess.Popen[str]:
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, str(path), str(server), str(die_at)],
        stdout=subprocess.PIPE,
        text=True,
        env=env,
        start_new_session=True,
    )


def fresh(path: Path) -> int:
    with Store.open(path, role="owner") as store:
        return Outbox(store, SystemClock()).enqueue(
            source="reply",
            chat_id=5,
            thread_id=0,
            parts=[Part(number, "text", f"part {number}") for number in range(PARTS)],
        )


def judge(path: Path, server: Path, outbox_id: int) -> list[str]:
    published = server.read_text().splitlines() if server.exists() else []
    assert len(published) == len(set(published)), "a part was sent twice"
    assert published == sorted(published), "out of order"
    with Store.open(path, role="owner") as store:
        row = Outbox(store, SystemClock()).get(outbox_id)
    for part in row.parts:
        assert part.state in ("sent", "uncertain")
        if part.state == "sent":
            assert part.text in published, "confirmed, yet never sent"
        else:
            assert part.error, "lost in silence"
        if part.text not in published:
            assert part.state == "uncertain"
    assert row.state == ("delivered" if all(part.state == "sent" for part in row.parts) else "uncertain")
    return [part.state for part in row.parts]


def total_steps(tmp_path: Path) -> int:
    path, server = tmp_path / "all.db", tmp_path / "all.log"
    outbox_id = fresh(path)
    process = child(path, server, 0)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert judge(path, server, outbox_id) == ["sent"] * PARTS
    return int(out)


def test_pain_partial_publication_kill_between_any_two_steps(tmp_path: Path) -> None:
    steps = total_steps(tmp_path)
    assert steps > 4 * PARTS
    doubted = 0
    # The steps of one part repeat: the ends and a fixed sample of the middle say it all in little time.
    points = sorted({1, 2, 3, steps, steps - 1, *range(5, 17)})
    for die_at in points:
        path, server = tmp_path / f"{die_at}.db", tmp_path / f"{die_at}.log"
        outbox_id = fresh(path)
        first = child(path, server, die_at)
        first.communicate(timeout=60)
        assert first.returncode == -signal.SIGKILL
        second = child(path, server, 0)
        second.communicate(timeout=60)
        assert second.returncode == 0
        doubted += judge(path, server, outbox_id).count("uncertain")
    assert doubted, "no kill point was between the claim and the confirmation"


@pytest.mark.parametrize("seed", range(3))
def test_killed_again_and_again_at_random_moments(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    path, server = tmp_path / "data.db", tmp_path / "server.log"
    outbox_id = fresh(path)
    for _ in range(4):
        process = child(path, server, chance.randrange(4, 14))
        try:
            process.communicate(timeout=60)
        finally:
            if process.poll() is None:
                process.kill()
        time.sleep(0)
    final = child(path, server, 0)
    final.communicate(timeout=60)
    assert final.returncode == 0
    judge(path, server, outbox_id)
