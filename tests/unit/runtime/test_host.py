"""Starting, finding and stopping owners in one process (design 7), on the real services."""

import concurrent.futures
import json
import logging
import threading
import time
from pathlib import Path

import pytest

from rightlab.errors import ChannelError, NotAvailable, OwnedElsewhere, RightlabError
from rightlab.home import AgentHome, Home, update_config
from rightlab.runtime import host
from rightlab.runtime.config_watch import CredentialWatch
from rightlab.runtime.headless import connection_file, start_kernel, stop_owner
from rightlab.runtime.lease import Lease, lease_holder, lease_is_held
from rightlab.runtime.setup import make_agent
from rightlab.runtime.status import read_status
from rightlab.runtime.thread import host_thread
from rightlab.testing import BotApi

pytestmark = [pytest.mark.claude, pytest.mark.sandbox]

TOKEN = "123456:the-right-one-the-right-one-the-right"


@pytest.fixture
def agent(tmp_path: Path) -> AgentHome:
    home = Home.resolve(tmp_path / "home")
    return make_agent(home, "alice", bootstrap=False, overrides={"gateway.upstream": "scripted:builtin"})


@pytest.fixture(autouse=True)
def _nothing_left_up():
    yield
    host.down_all(5)


def test_up_is_idempotent_and_down_is_too(agent: AgentHome) -> None:
    first = host.up(agent, host="test")
    assert host.up(agent, host="test") is first
    assert host.owner_status(agent)["up"] is True
    assert host.down(agent) is True
    assert host.down(agent) is False
    assert not lease_is_held(agent)


def test_up_says_no_only_once_telegram_has_answered(agent: AgentHome) -> None:
    with BotApi(token=TOKEN) as api:
        update_config(agent.config_path, {"telegram.api_base": api.base_url})
        agent.secrets().set("telegram_token", "999999:wrong-wrong-wrong-wrong-wrong-wrong-wr")
        api.delay_next("getMe", 1.5)
        seen: list[bool] = []
        watching = threading.Event()

        def watch() -> None:
            while not watching.wait(0.01):
                seen.append(agent.state_path.exists())

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            with pytest.raises(ChannelError, match="token"):
                host.up(agent, host="test")
        finally:
            watching.set()
            watcher.join()
        assert not any(seen)
        assert not lease_is_held(agent)


def test_an_interrupted_start_leaves_nothing(agent: AgentHome, monkeypatch: pytest.MonkeyPatch) -> None:
    thread = host_thread()
    whole = type(thread).wait

    def interrupted(self, future, timeout=None):
        monkeypatch.setattr(type(thread), "wait", whole)
        time.sleep(0.2)
        raise KeyboardInterrupt

    monkeypatch.setattr(type(thread), "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        host.up(agent, host="test")
    assert host.local(agent) is None
    assert not lease_is_held(agent)
    host.up(agent, host="test")


def test_two_asks_without_an_owner_wait_for_each_other(agent: AgentHome) -> None:
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        asked = [pool.submit(host.ask, agent, f"hello {n}", 60) for n in range(2)]
        assert [future.result(90)["status"] for future in asked] == ["delivered", "delivered"]


def test_ask_gives_up_on_a_lease_that_is_never_free(agent: AgentHome) -> None:
    lease = Lease.acquire(agent)
    try:
        with pytest.raises(OwnedElsewhere):
            host.ask(agent, "hello", timeout=0.3)
    finally:
        lease.release()


def test_status_says_up_whatever_a_file_says(agent: AgentHome) -> None:
    host.up(agent, host="test")
    good = agent.config_path.read_text()
    agent.config_path.write_text(good + "\nmodle: x\n")
    status = read_status(agent)
    assert status.up
    assert "modle" in status.problem
    agent.config_path.write_text(good)
    update_config(agent.config_path, {"telegram.token_env": "NOT_SET_HERE"})
    assert read_status(agent).up


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("gateway.upstream", "direct"),
        ("gateway.upstream", "replay:somewhere"),
        ("memory.provider", "hindsight"),
        ("cron.executor", "dask"),
        ("stt.enabled", True),
        ("claude.warm", True),
        ("sandbox.mode", "landlock"),
    ],
)
def test_what_a_later_version_brings_is_said_and_not_ignored(
    agent: AgentHome, key: str, value: object
) -> None:
    update_config(agent.config_path, {key: value})
    with pytest.raises(NotAvailable, match="not available yet"):
        host.up(agent, host="test")
    assert any("not available yet" in warning for warning in read_status(agent).warnings)
    assert not lease_is_held(agent)


def test_an_owner_that_hangs_is_named_with_its_pid(agent: AgentHome, monkeypatch: pytest.MonkeyPatch) -> None:
    import os
    import signal

    pid, started = start_kernel(agent)
    assert started
    try:
        os.kill(pid, signal.SIGSTOP)
        monkeypatch.setattr(host, "PING_SECONDS", 0.5)
        with pytest.raises(RightlabError, match=f"kill {pid}"):
            host.ask(agent, "hello")
    finally:
        os.kill(pid, signal.SIGCONT)
        assert stop_owner(agent)


def test_the_credential_is_read_again_only_when_a_file_changed(agent: AgentHome, monkeypatch) -> None:
    update_config(agent.config_path, {"gateway.upstream": "http://127.0.0.1:9"})
    watch = CredentialWatch(agent)
    assert watch() is None
    agent.secrets().set("claude_credential", "sk-ant-api03-one")
    assert watch() == "sk-ant-api03-one"
    monkeypatch.setattr(AgentHome, "model_credential", lambda self: pytest.fail("read again"))
    assert watch() == "sk-ant-api03-one"


def test_each_agent_has_its_own_log_and_nothing_is_printed(agent: AgentHome, capfd) -> None:
    other = make_agent(agent.home, "bob", bootstrap=False, overrides={"gateway.upstream": "scripted:builtin"})
    host.up(agent, host="test")
    host.up(other, host="test")

    async def fail() -> None:
        raise ZeroDivisionError("nobody awaits this")

    async def leave() -> None:
        import asyncio
        import gc

        task = asyncio.ensure_future(fail())
        await asyncio.sleep(0.01)
        del task
        gc.collect()

    host_thread().call(leave())
    logging.getLogger("asyncio").warning("a warning of asyncio")
    host.ask(other, "hello")
    host.down_all(5)
    mine = (agent.logs_dir / "rightlab.log").read_text()
    theirs = (other.logs_dir / "rightlab.log").read_text()
    assert "agent alice" in mine
    assert "bob" not in mine
    assert "agent bob" in theirs
    assert (agent.logs_dir / "rightlab.log").stat().st_mode & 0o777 == 0o600
    out, err = capfd.readouterr()
    assert out == ""
    assert "Traceback" not in err
    assert "a warning of asyncio" not in err


def test_a_stop_on_purpose_is_remembered(agent: AgentHome) -> None:
    note = agent.run_dir / "wanted.json"
    host.up(agent, host="kernel")
    note.write_text(json.dumps({"kernel": "kernel-1.json"}))
    host.down_all(5)
    assert note.exists()
    host.up(agent, host="kernel")
    host.request(agent, "down")
    deadline = time.monotonic() + 5
    while lease_is_held(agent) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not note.exists()


def _wait(check, seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_an_owner_whose_files_were_removed_is_found_again(agent: AgentHome, monkeypatch) -> None:
    monkeypatch.setattr("rightlab.runtime.agent.WATCH_SECONDS", 0.1)
    host.up(agent, host="test")
    agent.control_socket.unlink()
    _wait(agent.control_socket.exists)
    agent.state_path.unlink()
    _wait(agent.state_path.exists)
    assert host.owner_status(agent)["up"]


def test_an_owner_whose_lease_was_taken_away_stops_and_leaves_the_new_ones_files(
    agent: AgentHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rightlab.runtime.agent.WATCH_SECONDS", 0.1)
    first = host.up(agent, host="test")
    agent.lease_path.unlink()
    lease = Lease.acquire(agent)
    try:
        _wait(lambda: not first.running)
        assert lease_is_held(agent)
    finally:
        lease.release()


def test_an_unreachable_owner_is_named_and_ended_by_its_pid(agent: AgentHome, monkeypatch) -> None:
    pid, _ = start_kernel(agent)
    agent.state_path.unlink()
    assert lease_holder(agent) == pid
    assert stop_owner(agent)
    assert not lease_is_held(agent)


def test_two_starts_at_once_are_one(agent: AgentHome) -> None:
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        found = [future.result(60) for future in [pool.submit(start_kernel, agent) for _ in range(2)]]
    try:
        assert found[0][0] == found[1][0]
        assert sorted(started for _, started in found) == [False, True]
    finally:
        assert stop_owner(agent)


def test_a_refused_start_leaves_no_connection_file(agent: AgentHome) -> None:
    with BotApi(token=TOKEN) as api:
        update_config(agent.config_path, {"telegram.api_base": api.base_url})
        agent.secrets().set("telegram_token", "999999:wrong-wrong-wrong-wrong-wrong-wrong-wr")
        with pytest.raises(RightlabError, match="token"):
            start_kernel(agent)
    assert not connection_file(agent).exists()
