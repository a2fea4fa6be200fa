"""One kernel for one run: own session, own sockets, no TCP (jupyter 1.2; papermill#511, ipython#12372).

Loaded only where a notebook runs.
"""

import asyncio
import contextlib
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from queue import Empty
from typing import Any

from jupyter_client.kernelspec import KernelSpec, KernelSpecManager, NoSuchKernel
from jupyter_client.manager import AsyncKernelManager

from rightlab.cron.claim import SOCKET_PREFIX
from rightlab.errors import RunError, UsageError

__all__ = ["Kernel", "KernelDied"]


class KernelDied(RunError):
    """The kernel process ended although nobody asked it to."""


class _Specs(KernelSpecManager):
    """Kernel specs where ``python3`` is this interpreter, so that the notebook sees the same packages."""

    def get_kernel_spec(self, kernel_name: str) -> Any:
        if kernel_name != "python3":
            try:
                return super().get_kernel_spec(kernel_name)
            except NoSuchKernel:
                if kernel_name != "rightlab":
                    raise
        argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        return KernelSpec(argv=argv, display_name="Python 3", language="python", metadata={"debugger": True})


class Kernel:
    """A kernel process and the client that talks to it.

    ``own_python``: the kernel named python3 is the interpreter we run in, whatever specs are installed.
    """

    def __init__(self, name: str, *, own_python: bool = False) -> None:
        self.name = name or "python3"
        self.own_python = own_python
        self.manager: Any = None
        self.client: Any = None
        self.info: dict[str, Any] = {}
        self.socket_dir: Path | None = None

    async def launch(self, *, cwd: str | None = None, env: Mapping[str, str] | None = None) -> None:
        """Start the process (not waiting until it is ready).

        Raises:
            UsageError: no such kernel. RunError: it cannot be started.
        """
        self.socket_dir = _socket_dir()
        manager = AsyncKernelManager(kernel_name=self.name, shutdown_wait_time=4.0)
        if self.own_python:
            manager.kernel_spec_manager = _Specs(parent=manager)
        manager.connection_file = str(self.socket_dir / "kernel.json")
        if os.name == "posix":
            manager.transport = "ipc"
            manager.ip = str(self.socket_dir / "s")
        self.manager = manager
        options: dict[str, Any] = {} if cwd is None else {"cwd": cwd}
        if env is not None:
            options["env"] = dict(env)
        try:
            await manager.start_kernel(extra_arguments=["--HistoryManager.hist_file=:memory:"], **options)
        except NoSuchKernel:
            self._forget_sockets()
            raise UsageError(
                f"the notebook asks for kernel {self.name!r}, which is not installed",
                fix="`jupyter kernelspec list` shows those there are; choose one in the notebook.",
            ) from None
        except OSError as error:
            self._forget_sockets()
            raise RunError(f"kernel {self.name!r} does not start: {error}") from error

    @property
    def pid(self) -> int | None:
        process = getattr(getattr(self.manager, "provisioner", None), "process", None)
        return None if process is None else int(process.pid)

    async def connect(self, timeout: float) -> Any:
        """Wait until the kernel answers and its output reaches us; the client.

        Raises:
            KernelDied, or RunError when it does not answer for ``timeout`` seconds.
        """
        self.client = client = self.manager.client()
        client.start_channels(stdin=False, hb=False)
        client.allow_stdin = False
        deadline = time.monotonic() + timeout
        reply: dict[str, Any] | None = None
        heard = False
        # An answer on the shell channel and a word on the output channel: only then is the subscription live,
        # and no first output can be lost. (The client's own wait sleeps for 0.3 s more than that.)
        while True:
            client.kernel_info()
            pause = time.monotonic() + 1.0
            while time.monotonic() < pause and not (heard and reply):
                if reply is None:
                    with contextlib.suppress(Empty):
                        reply = await client.shell_channel.get_msg(timeout=0.25)
                        pause = min(pause, time.monotonic() + 0.25)
                else:
                    with contextlib.suppress(Empty):
                        await client.iopub_channel.get_msg(timeout=0.25)
                        heard = True
                if reply is None and not await self.alive():
                    raise KernelDied(f"kernel {self.name!r} ended before it was ready ({self.exit_words()})")
            if heard and reply is not None:
                client._handle_kernel_info_reply(reply)
                self.info = dict(reply["content"])
                return client
            if time.monotonic() > deadline:
                raise RunError(f"kernel {self.name!r} does not answer for {timeout:g} s")

    async def alive(self) -> bool:
        return bool(await self.manager.is_alive())

    def exit_words(self) -> str:
        """How the process ended, for people."""
        process = getattr(getattr(self.manager, "provisioner", None), "process", None)
        code = None if process is None else process.poll()
        if code is None:
            return "no exit status"
        if code < 0:
            name = signal.Signals(-code).name if -code in set(signal.Signals) else str(-code)
            return f"killed by {name}" + (", perhaps out of memory" if -code == signal.SIGKILL else "")
        return f"exit status {code}"

    async def interrupt(self) -> None:
        """Interrupt the running cell (KeyboardInterrupt in Python)."""
        with contextlib.suppress(Exception):
            await self.manager.interrupt_kernel()

    def kill(self) -> None:
        """Kill the process and all it started in its own group, at once."""
        pid = self.pid
        if pid is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)

    async def close(self, *, now: bool = False) -> None:
        """Shut the kernel down (asking first unless ``now``) and remove its sockets. Never raises."""
        manager = self.manager
        if manager is None:
            return
        pid = self.pid
        try:
            if await self.alive():
                with contextlib.suppress(Exception):
                    await asyncio.wait_for(manager.shutdown_kernel(now=now), 8)
            if pid is not None:  # what the notebook started and left behind in the kernel's group
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(pid, signal.SIGKILL)
            if self.client is not None:
                self.client.stop_channels()
            with contextlib.suppress(Exception):
                await manager.cleanup_resources()
        finally:
            self._forget_sockets()
            self.manager = None

    def _forget_sockets(self) -> None:
        if self.socket_dir is not None:
            shutil.rmtree(self.socket_dir, ignore_errors=True)


def _socket_dir() -> Path:
    """A private folder whose path leaves room in a socket address (108 bytes)."""
    base = tempfile.gettempdir()
    return Path(tempfile.mkdtemp(prefix=SOCKET_PREFIX, dir=base if len(base) < 60 else "/tmp"))
