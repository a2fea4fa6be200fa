"""A headless kernel that hosts an agent (design 7): the same extension as in a notebook, without one.

JupyterLab can attach to it (``allow_external_kernels``), and closing JupyterLab leaves it up.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from rightlab.errors import OwnedElsewhere, RightlabError
from rightlab.home import AgentHome, Home, file_lock, make_dir
from rightlab.home.processes import is_alive
from rightlab.runtime import host
from rightlab.runtime.environment import child_environment, named_variables
from rightlab.runtime.lease import lease_holder, lease_is_held
from rightlab.runtime.logs import log_time, tail
from rightlab.runtime.state import OwnerState, read_state

__all__ = ["connection_dir", "connection_file", "failure_file", "start_kernel", "stop_owner"]

START_TIMEOUT = 45.0


def connection_dir(home: Home) -> Path:
    """Where the connection files of headless kernels stand, for JupyterLab's ``external_connection_dir``."""
    return home.path / "run" / "kernels"


def connection_file(agent: AgentHome) -> Path:
    return connection_dir(agent.home) / f"kernel-{agent.name}.json"


def start_kernel(agent: AgentHome) -> tuple[int, bool]:
    """Start a headless kernel for ``agent`` and wait until it owns it: ``(pid, newly started)``.

    Raises RightlabError with the kernel's own reason when it does not come up.
    """
    agent.config()  # a broken agent.yaml is said here, in the terminal, not in a log
    make_dir(connection_dir(agent.home), 0o700)
    make_dir(agent.run_dir, 0o700)
    # Two who start the same agent at once: the second finds it up.
    with file_lock(agent.run_dir / "starting", timeout=START_TIMEOUT):
        state = read_state(agent)
        if state is not None:
            return state.pid, False
        if (holder := lease_holder(agent)) is not None:
            raise OwnedElsewhere(
                f"process {holder} runs {agent.name!r} and cannot be reached",
                fix=f"rightlab down {agent.name}",
            )
        return _start(agent).pid, True


def _start(agent: AgentHome) -> OwnerState:
    connection_file(agent).unlink(missing_ok=True)
    began = time.time()
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "ipykernel_launcher",
            "-f",
            str(connection_file(agent)),
            "--ext=rightlab",
            f"--RightlabMagics.up={agent.name}",
        ],
        env=child_environment({**named_variables([agent]), "RIGHTLAB_HOME": str(agent.home.path)}),
        cwd=agent.home.path,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    failure = failure_file(agent, process.pid)
    try:
        return _await_owner(agent, process, failure, began)
    except BaseException:
        _end_child(process)
        connection_file(agent).unlink(missing_ok=True)
        raise
    finally:
        failure.unlink(missing_ok=True)


def failure_file(agent: AgentHome, pid: int) -> Path:
    """Where the headless kernel ``pid`` says why its agent did not come up."""
    return agent.run_dir / f"failure-{pid}.txt"


def _await_owner(
    agent: AgentHome, process: "subprocess.Popen[bytes]", failure: Path, began: float
) -> OwnerState:
    deadline = time.monotonic() + START_TIMEOUT
    while time.monotonic() < deadline:
        state = read_state(agent)
        if state is not None and state.pid == process.pid:
            return state
        if failure.exists() or process.poll() is not None:
            break
        time.sleep(0.05)
    if failure.exists():
        raise RightlabError(failure.read_text().strip())
    if shutil.disk_usage(agent.run_dir).free < 1_000_000:
        raise RightlabError("the disk is full", where=agent.root, fix="Free some space and try again.")
    last = "; ".join(list(tail(agent, 3))) if (log_time(agent) or 0) >= began else ""
    raise RightlabError(
        f"agent {agent.name!r} did not come up" + (f" ({last})" if last else ""),
        fix=f"See `rightlab logs {agent.name}` and `rightlab doctor {agent.name}`.",
    )


def _end_child(process: "subprocess.Popen[bytes]") -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(3)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)


def stop_owner(agent: AgentHome, timeout: float = 20.0) -> bool:
    """Stop whoever owns ``agent`` and wait until the lease is free; False when nobody did.

    An owner that cannot be reached any more (its socket or state file is gone) is ended by its pid.
    """
    state = read_state(agent)
    try:
        stopped = host.down(agent)
    except TimeoutError as error:
        raise RightlabError(
            str(error), fix=f"End it by hand: kill {state.pid}" if state is not None else None
        ) from None
    except RightlabError:
        if lease_holder(agent) is None:
            raise
        stopped = False
    holder = None if stopped else lease_holder(agent)
    if holder is not None and holder != os.getpid():
        os.kill(holder, signal.SIGTERM)
        stopped = True
    _wait(lambda: not lease_is_held(agent), timeout, f"agent {agent.name!r} is still held")
    if state is not None and state.host == host.HEADLESS and state.pid != os.getpid():
        _end_kernel(state, timeout=5)
    if stopped:
        connection_file(agent).unlink(missing_ok=True)
    return stopped


def _end_kernel(state: OwnerState, timeout: float) -> None:
    """The kernel ends by itself once its last agent is down; one that does not is ours to end, by pid."""
    deadline = time.monotonic() + timeout
    while is_alive(state.pid, state.start) and time.monotonic() < deadline:
        time.sleep(0.05)
    if is_alive(state.pid, state.start):
        os.kill(state.pid, signal.SIGTERM)


def _wait(check: Callable[[], bool], timeout: float, message: str) -> None:
    deadline = time.monotonic() + timeout
    while not check():
        if time.monotonic() > deadline:
            raise RightlabError(message, fix="See its log, then end the process by hand.")
        time.sleep(0.02)
