"""What would only grow is cleared up at the owner's start and once an hour."""

import asyncio
import os
from datetime import timedelta
from pathlib import Path

import pytest

from rightlab.conversation import Inbox
from rightlab.home import Home
from rightlab.runtime.agent import AgentRuntime
from rightlab.runtime.housekeeping import EVERY_SECONDS, INBOX_AGE, keep_house, sweep_files, trim_streams
from rightlab.runtime.setup import make_agent
from rightlab.store import Store
from rightlab.testing import FrozenClock


def make_streams(folder: Path, sizes: dict[str, int]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for number, (name, size) in enumerate(sizes.items()):
        (folder / name).write_bytes(b"x" * size)
        os.utime(folder / name, (1000 + number, 1000 + number))
    return folder


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_newest_streams_stay(tmp_path: Path) -> None:
    folder = make_streams(tmp_path, {f"{n}.ndjson": 1 for n in range(6)} | {"notes.txt": 1})
    assert trim_streams(folder, files=2) == 4
    assert names(folder) == ["4.ndjson", "5.ndjson", "notes.txt"]
    assert trim_streams(folder, files=2) == 0


def test_the_size_of_all_is_bounded_and_rotated_files_count(tmp_path: Path) -> None:
    folder = make_streams(tmp_path, {"a.ndjson.1": 60, "b.ndjson": 30, "c.ndjson": 50})
    assert trim_streams(folder, size=100) == 1
    assert names(folder) == ["b.ndjson", "c.ndjson"]
    assert trim_streams(folder, size=10) == 1
    assert names(folder) == ["c.ndjson"], "the one being written stays"


def test_no_folder_yet_is_fine(tmp_path: Path) -> None:
    assert trim_streams(tmp_path / "none") == 0


def test_leftovers_of_invocations_go_and_links_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "files" / "one").mkdir(parents=True)
    (tmp_path / "files" / "one" / "mcp.json").write_text("bearer")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "files" / "link").symlink_to(tmp_path / "elsewhere")
    assert sweep_files(tmp_path / "files") == 1
    assert names(tmp_path / "files") == ["link"]
    assert (tmp_path / "elsewhere").is_dir()


async def test_closed_updates_are_forgotten_after_a_month_and_open_ones_never(tmp_path: Path) -> None:
    clock = FrozenClock()
    with Store.open(tmp_path / "data.db", role="owner", clock=clock) as store:
        inbox = Inbox(store, clock)
        inbox.put("telegram", 1, {}, chat_id=1, state="ignored")
        waiting = inbox.put("telegram", 2, {}, chat_id=1, state="queued")
        streams = make_streams(tmp_path / "streams", {f"{n:03}.ndjson": 1 for n in range(201)})
        task = asyncio.create_task(keep_house(inbox, streams, clock))
        async with asyncio.timeout(5):
            while len(names(streams)) > 200:
                await asyncio.sleep(0.01)
        assert [row["id"] for row in store.rows("SELECT id FROM inbox")] == [1, 2]
        async with asyncio.timeout(5):
            clock.advance((INBOX_AGE + timedelta(hours=1)).total_seconds())
            while len(store.rows("SELECT id FROM inbox")) > 1:
                clock.advance(EVERY_SECONDS)
                await asyncio.sleep(0.01)
        assert [row["id"] for row in store.rows("SELECT id FROM inbox")] == [waiting]
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.sandbox
async def test_a_start_clears_up(tmp_path: Path) -> None:
    agent = make_agent(
        Home.resolve(tmp_path / "home"),
        "alice",
        bootstrap=False,
        overrides={"gateway.upstream": "scripted:builtin"},
    )
    left = agent.run_dir / "files" / "dead"
    left.mkdir(parents=True)
    (left / "mcp.json").write_text("bearer")
    streams = make_streams(agent.logs_dir / "streams", {f"{n:03}.ndjson": 1 for n in range(205)})
    runtime = AgentRuntime(agent)
    await runtime.start()
    try:
        assert not left.exists()
        async with asyncio.timeout(5):
            while len(names(streams)) > 200:
                await asyncio.sleep(0.01)
    finally:
        await runtime.stop()
