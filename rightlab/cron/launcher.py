"""Starting run processes, and watching those that a former owner started (spec agent-runtime D11)."""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from rightlab.cron.claim import SOCKET_PREFIX
from rightlab.errors import RunError
from rightlab.home.processes import is_alive, process_started
from rightlab.home.writers import open_append

__all__ = [
    "Launcher",
    "RunHandle",
    "RunSpec",
    "SubprocessLauncher",
    "adopt",
    "kill_kernel",
    "run_environment",
]

_ALLOWED = (
    "PATH", "HOME", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "LC_TIME", "TZ", "TMPDIR", "USER", "LOGNAME",
    "SHELL", "TERM", "VIRTUAL_ENV", "CONDA_PREFIX", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME",
    "XDG_CACHE_HOME", "JUPYTER_PATH", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR",
    "IPYTHONDIR", "SSL_CERT_FILE", "SSL_CERT_DIR", "RIGHTLAB_CLAUDE",
)  # fmt: skip


@dataclass(frozen=True)
class RunSpec:
    """What a launcher needs to start one run: its folder and the facts in its run.json."""

    run_id: str
    job: str
    run_dir: Path
    env: Mapping[str, str] = field(default_factory=dict)


class RunHandle(Protocol):
    """A run process. ``pid`` and ``started`` name it (see :func:`rightlab.home.processes.process_started`)."""

    @property
    def pid(self) -> int: ...

    @property
    def started(self) -> str | None: ...

    async def wait(self) -> int | None:
        """Wait for its end; the exit status (negative: the signal), None when it is not known."""

    def signal(self, number: int) -> None:
        """Signal the process itself; nothing when it is gone."""

    def kill(self) -> None:
        """Kill its whole process group."""


class Launcher(Protocol):
    """Where runs go: a process of this machine, or (later) a cluster."""

    async def __call__(self, spec: RunSpec) -> RunHandle: ...


def run_environment(environ: Mapping[str, str], extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a run: an allow-list of ``environ``, then ``extra``. No credential gets in unasked."""
    env = {name: environ[name] for name in _ALLOWED if name in environ}
    return {**env, **(extra or {})}


class SubprocessLauncher:
    """Runs ``python -m rightlab.cron.runjob`` in its own session, its output in ``run.log`` of the run folder.

    ``env`` is the whole environment of the process (see :func:`run_environment`).
    """

    def __init__(self, env: Mapping[str, str], *, python: str | None = None) -> None:
        self.env = dict(env)
        self.python = python or sys.executable

    async def __call__(self, spec: RunSpec) -> RunHandle:
        """Raises :class:`RunError` when the process cannot be started."""
        argv = [self.python, "-m", "rightlab.cron.runjob", "--run-dir", str(spec.run_dir)]
        try:
            process = await asyncio.to_thread(self._spawn, argv, spec)
        except OSError as error:
            raise RunError(f"the run process does not start: {error}", where=spec.job) from error
        _children[process.pid] = process
        return _Process(process.pid, process_started(process.pid))

    def _spawn(self, argv: list[str], spec: RunSpec) -> "subprocess.Popen[bytes]":
        # Not asyncio's own subprocess: closing its loop kills the child, and a run outlives its owner.
        with open_append(spec.run_dir / "run.log") as log:
            return subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**self.env, **spec.env},
                cwd=spec.run_dir,
                start_new_session=True,
            )


_children: dict[int, "subprocess.Popen[bytes]"] = {}  # those this process has still to reap


class _Process:
    """A run process by pid and start time: a child of ours, or one that outlived its owner."""

    def __init__(self, pid: int, started: str | None) -> None:
        self.pid = pid
        self.started = started

    async def wait(self) -> int | None:
        try:
            fd = os.pidfd_open(self.pid)
        except (AttributeError, OSError):
            fd = None
        try:
            if fd is None or not is_alive(self.pid, self.started):
                await self._poll()
            else:
                loop = asyncio.get_running_loop()
                ended = asyncio.Event()
                loop.add_reader(fd, ended.set)
                try:
                    await ended.wait()
                finally:
                    loop.remove_reader(fd)
        finally:
            if fd is not None:
                os.close(fd)
        child = _children.pop(self.pid, None)
        return None if child is None else child.wait()

    async def _poll(self) -> None:
        while True:
            if not is_alive(self.pid, self.started):
                return
            await asyncio.sleep(0.25)

    def signal(self, number: int) -> None:
        if is_alive(self.pid, self.started):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        if is_alive(self.pid, self.started):
            _kill_group(self.pid)


def adopt(pid: int | None, started: str | None) -> RunHandle | None:
    """A handle for a run process that is still alive; None when it is gone (or its pid is another's now)."""
    if pid is None or started is None or not is_alive(pid, started):
        return None
    return _Process(pid, started)


def kill_kernel(run_dir: Path) -> None:
    """End the kernel of a run whose process is gone, and remove its sockets."""
    try:
        facts: dict[str, Any] = json.loads((run_dir / "kernel.json").read_bytes())
        pid, started, sockets = facts["pid"], facts["started"], Path(facts["sockets"])
    except (OSError, ValueError, KeyError, TypeError):
        return
    if is_alive(pid, started):
        _kill_group(pid)
    if sockets.name.startswith(SOCKET_PREFIX) and not sockets.is_symlink():
        shutil.rmtree(sockets, ignore_errors=True)


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
