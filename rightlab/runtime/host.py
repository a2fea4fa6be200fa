"""The agents this process owns, and the one way to reach any agent's owner (design 7).

The registry lives in this module for the life of the process, so that a re-run cell, ``%reload_ext`` or a second
``rightlab.open`` finds the running instance instead of starting another.
"""

import concurrent.futures
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rightlab.errors import OwnedElsewhere, RightlabError
from rightlab.home import AgentHome
from rightlab.lazy import needs_extra
from rightlab.runtime.control import ControlClient
from rightlab.runtime.state import read_state
from rightlab.runtime.thread import host_thread
from rightlab.runtime.wanted import unwant, want

if TYPE_CHECKING:
    from rightlab.runtime.agent import AgentRuntime

__all__ = ["HEADLESS", "ask", "down", "down_all", "local", "owner_status", "probe_sandbox", "request", "up"]

HEADLESS = "headless kernel"
"""What a process that ``rightlab up`` started calls itself."""
PING_SECONDS = 10.0
LEASE_SECONDS = 60.0

# A reload of this module (autoreload does that when its file changes) keeps what is running.
_owned: "dict[str, AgentRuntime]" = globals().get("_owned", {})
_brief: "set[AgentRuntime]" = globals().get("_brief", set())
_lock: threading.Lock = globals().get("_lock") or threading.Lock()


def _key(agent: AgentHome) -> str:
    return str(agent.root.resolve())


def local(agent: AgentHome) -> "AgentRuntime | None":
    """The runtime of ``agent`` in this process, if it is up here."""
    runtime = _owned.get(_key(agent))
    return runtime if runtime is not None and runtime.running else None


def up(agent: AgentHome, *, host: str) -> "AgentRuntime":
    """Start ``agent`` in this process; the running instance when it is up here already. Raises OwnedElsewhere.

    An interrupt takes the start back: either the agent is up and registered here, or nothing of it is.
    """
    with _lock:
        running = local(agent)
        if running is not None:
            return running
        runtime = _runtime(agent, host=host)
        thread = host_thread()
        starting = thread.submit(runtime.start())
        try:
            thread.wait(starting)
        except BaseException:
            starting.cancel()
            thread.call(runtime.settled(), timeout=5)
            if runtime.running:
                thread.call(runtime.stop(), timeout=5)
            raise
        _owned[_key(agent)] = runtime
        if host != HEADLESS:
            want(agent)
        return runtime


def down(agent: AgentHome, timeout: float = 15.0) -> bool:
    """Stop ``agent`` wherever it runs; False when it was not up."""
    unwant(agent)
    runtime = local(agent)
    if runtime is not None:
        with _lock:
            _owned.pop(_key(agent), None)
        host_thread().call(runtime.stop(), timeout=timeout)
        return True
    state = read_state(agent)
    if state is None:
        return False
    ControlClient(agent, state).request("down", timeout=timeout)
    return True


def down_all(timeout: float = 1.9) -> None:
    """Stop every agent of this process within ``timeout`` seconds in all (spec jupyter 0.4)."""
    with _lock:
        runtimes = [runtime for runtime in (*_owned.values(), *_brief) if runtime.running]
        _owned.clear()
    if not runtimes:
        return
    thread = host_thread()
    stopping = [thread.submit(runtime.stop(timeout - 0.1)) for runtime in runtimes]
    concurrent.futures.wait(stopping, timeout=timeout)


def request(agent: AgentHome, op: str, timeout: float | None = None, **args: Any) -> Any:
    """Ask the owner of ``agent``, in this process or another, for ``op``. None of both: RightlabError."""
    runtime = local(agent)
    if runtime is not None:
        return host_thread().call(runtime.handle(op, args), timeout=timeout)
    state = read_state(agent)
    if state is None:
        raise RightlabError(f"agent {agent.name!r} is not up", fix=f"Start it: rightlab up {agent.name}")
    client = ControlClient(agent, state)
    if timeout is None:
        # A turn may take its time, but an owner that hangs must not hold up the asker for ever.
        try:
            client.request("ping", timeout=PING_SECONDS)
        except TimeoutError:
            raise RightlabError(
                f"process {state.pid}, which runs {agent.name!r}, does not answer",
                fix=f"End it: kill {state.pid}",
            ) from None
    return client.request(op, timeout=timeout, **args)


def owner_status(agent: AgentHome) -> dict[str, Any] | None:
    """The owner's own status, or None when nobody owns the agent."""
    if local(agent) is None and read_state(agent) is None:
        return None
    return dict(request(agent, "status", timeout=10))


def ask(agent: AgentHome, text: str, timeout: float | None = None) -> dict[str, Any]:
    """One turn in the notebook chat: through the owner if there is one, else under a lease for this turn.

    While somebody else holds the lease for a turn of theirs, or is just starting, this waits its turn.
    """
    deadline = time.monotonic() + (LEASE_SECONDS if timeout is None else timeout)
    while True:
        if local(agent) is not None or read_state(agent) is not None:
            return dict(request(agent, "ask", timeout=timeout, text=text))
        try:
            return host_thread().call(_ask_alone(agent, text), timeout=timeout)
        except OwnedElsewhere:
            if time.monotonic() >= deadline:
                raise
            time.sleep(0.1)


async def _ask_alone(agent: AgentHome, text: str) -> dict[str, Any]:
    runtime = _runtime(agent, host="one turn", brief=True)
    _brief.add(runtime)
    try:
        await runtime.start()
        return dict(await runtime.handle("ask", {"text": text}))
    finally:
        await runtime.stop()
        _brief.discard(runtime)


def _runtime(agent: AgentHome, *, host: str, brief: bool = False) -> "AgentRuntime":
    """A runtime, or one line that says what to install: the base install reads and shows, the extra runs agents."""
    try:
        from rightlab.runtime.agent import AgentRuntime
    except ModuleNotFoundError as error:
        raise (needs_extra(error, "running an agent") or error) from None
    return AgentRuntime(agent, host=host, brief=brief)


def probe_sandbox(scratch: Path) -> None:
    """Open and close a sandbox in ``scratch``. Raises SandboxError, with what to install, when none works here."""
    from rightlab.sandbox import open_sandbox

    async def look() -> None:
        sandbox = await open_sandbox(mode="auto", root=scratch / "root", run_dir=scratch / "run")
        await sandbox.close()

    host_thread().call(look(), timeout=60)
