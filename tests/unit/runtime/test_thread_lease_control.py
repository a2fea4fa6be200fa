"""The host thread, the lease and the control socket (spec jupyter 3.2, 3.3)."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from rightlab.errors import ConfigError, OwnedElsewhere, RightlabError
from rightlab.home import AgentHome, Home
from rightlab.home.processes import is_alive, process_started
from rightlab.runtime.control import ControlClient, ControlServer
from rightlab.runtime.lease import Lease, lease_is_held
from rightlab.runtime.state import OwnerState, read_state, write_state
from rightlab.runtime.thread import HostThread, host_thread


@pytest.fixture
def agent(tmp_path: Path) -> AgentHome:
    home = Home.resolve(tmp_path / "home")
    return home.create_agent("alice", bootstrap=False)


def test_the_thread_is_a_daemon_and_keeps_ticking_while_the_caller_sleeps() -> None:
    thread = HostThread()
    ticks: list[float] = []

    async def tick() -> None:
        while True:
            ticks.append(time.monotonic())
            await asyncio.sleep(0.02)

    thread.submit(tick())
    time.sleep(0.5)
    assert len(ticks) >= 15
    assert any(t.name == "rightlab" and t.daemon for t in threading.enumerate())
    thread.stop()
    assert not thread.alive


def test_a_timeout_ends_the_wait_and_not_the_work() -> None:
    done = threading.Event()

    async def work() -> None:
        await asyncio.sleep(0.3)
        done.set()

    with pytest.raises(TimeoutError):
        host_thread().call(work(), timeout=0.05)
    assert done.wait(2)


def test_an_error_of_the_work_arrives() -> None:
    async def work() -> None:
        raise ConfigError("wrong", where="here")

    with pytest.raises(ConfigError, match="here: wrong"):
        host_thread().call(work())


def test_waiting_on_the_own_thread_is_refused() -> None:
    async def inner() -> None: ...

    async def outer() -> None:
        host_thread().call(inner())

    with pytest.raises(RightlabError, match="own thread"):
        host_thread().call(outer())


def test_one_owner(agent: AgentHome) -> None:
    lease = Lease.acquire(agent)
    assert lease_is_held(agent)
    with pytest.raises(OwnedElsewhere, match="alice"):
        Lease.acquire(agent)
    lease.release()
    assert not lease_is_held(agent)
    Lease.acquire(agent).release()


HOLD = """
import subprocess, sys, time
from rightlab.home import Home
from rightlab.runtime.lease import Lease
lease = Lease.acquire(Home.resolve({home!r}).agent("alice"))
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(30)"], start_new_session=True)
print(child.pid, flush=True)
time.sleep(30)
"""


def test_a_killed_owner_frees_the_lease_at_once_though_its_child_lives(agent: AgentHome) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", HOLD.format(home=str(agent.home.path))], stdout=subprocess.PIPE, text=True
    )
    child = int(owner.stdout.readline())
    try:
        with pytest.raises(OwnedElsewhere):
            Lease.acquire(agent)
        owner.kill()
        owner.wait()
        Lease.acquire(agent).release()
        os.kill(child, 0)
    finally:
        os.kill(child, signal.SIGKILL)


def test_state_of_a_dead_or_other_process_counts_as_none(agent: AgentHome) -> None:
    me = os.getpid()
    assert is_alive(me, process_started(me))
    assert not is_alive(me, "1")
    alive = OwnerState(pid=me, start=process_started(me), fence=1, token="t", host="x", since="y")
    write_state(agent, alive)
    assert read_state(agent) == alive
    assert agent.state_path.stat().st_mode & 0o777 == 0o600
    write_state(agent, OwnerState(pid=me, start="1", fence=1, token="t", host="x", since="y"))
    assert read_state(agent) is None
    agent.state_path.write_text("{")
    assert read_state(agent) is None


class Served:
    """A control server on the host thread, and a client of it."""

    def __init__(self, agent: AgentHome, handlers: dict, token: str = "right") -> None:
        self.server = ControlServer(agent, token, handlers)
        host_thread().call(self.server.start())

    def client(self, agent: AgentHome, token: str = "right") -> ControlClient:
        me = os.getpid()
        return ControlClient(agent, OwnerState(me, process_started(me), 1, token, "x", "y"))

    def stop(self) -> None:
        host_thread().call(self.server.stop())


def test_control_answers_refuses_and_carries_errors(agent: AgentHome) -> None:
    async def double(args):
        return args["n"] * 2

    async def refuse(args):
        raise ConfigError("bad key", where="agent.yaml", fix="Mend it.")

    async def break_(args):
        raise ZeroDivisionError("oops")

    served = Served(agent, {"double": double, "refuse": refuse, "break": break_})
    try:
        client = served.client(agent)
        assert client.request("double", n=21) == 42
        assert client.request("double", n="x" * 3_000_000) == "x" * 6_000_000
        with pytest.raises(ConfigError) as caught:
            client.request("refuse")
        assert str(caught.value) == "agent.yaml: bad key. Mend it."
        with pytest.raises(RightlabError, match="ZeroDivisionError"):
            client.request("break")
        with pytest.raises(RightlabError, match="does not know"):
            client.request("fly")
        with pytest.raises(RightlabError, match="token"):
            served.client(agent, "wrong").request("double", n=1)
        assert agent.control_socket.stat().st_mode & 0o777 == 0o600
    finally:
        served.stop()
    assert not agent.control_socket.exists()


def test_control_survives_garbage_and_a_client_that_leaves(agent: AgentHome) -> None:
    from rightlab.home.sockets import connect_unix

    entered, left = threading.Event(), threading.Event()

    async def slow(args):
        entered.set()
        await asyncio.sleep(0.2)
        left.set()
        return 1

    async def one(args):
        return 1

    served = Served(agent, {"slow": slow, "one": one})
    try:
        for garbage in (b"\n", b"{}\n", b"\xff\xfe\n", b'{"token": 1}\n'):
            with connect_unix(agent.control_socket) as sock:
                sock.sendall(garbage)
                assert b"not understood" in sock.recv(4096)
        with pytest.raises(TimeoutError):
            served.client(agent).request("slow", timeout=0.05)
        assert entered.wait(2)
        assert left.wait(2)
        assert served.client(agent).request("one") == 1
    finally:
        served.stop()


def test_a_dead_owner_is_one_clear_line(agent: AgentHome) -> None:
    me = os.getpid()
    client = ControlClient(agent, OwnerState(me, process_started(me), 1, "t", "x", "y"))
    with pytest.raises(RightlabError, match="does not answer"):
        client.request("status")
