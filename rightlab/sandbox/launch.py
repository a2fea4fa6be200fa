"""Starting a process whose first program tells when it is ready, and ending what we started."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping, Sequence

from rightlab.sandbox.base import STREAM_LIMIT

__all__ = ["LaunchFailed", "Launched", "kill_group", "launch"]


class LaunchFailed(Exception):
    """It ended, or said nothing in time, before it was ready. ``code`` is None when it had to be killed."""

    def __init__(self, code: int | None, output: str) -> None:
        super().__init__(output)
        self.code, self.output = code, output


async def launch(
    argv: Sequence[str],
    *,
    ready: tuple[int, int],
    env: Mapping[str, str],
    cwd: str,
    fds: Sequence[int],
    timeout: float,
) -> asyncio.subprocess.Process:
    """Start ``argv`` in its own session and wait until ``ready`` (a pipe's two ends, closed here) is written.

    Raises:
        LaunchFailed: not ready within ``timeout`` seconds, or ended before; nothing is left of it.
        OSError: it could not be started at all.
    """
    reading, writing = ready
    try:
        starting = asyncio.ensure_future(_start(argv, writing, env, cwd, fds))
        try:
            process = await asyncio.shield(starting)
        except asyncio.CancelledError:
            # asyncio itself would kill the first process alone and then wait for the pipes of the others.
            await asyncio.wait([starting])
            if not starting.cancelled() and starting.exception() is None:
                await _end(starting.result())
            raise
        try:
            async with asyncio.timeout(timeout):
                told = await _first_bytes(reading)
        except TimeoutError:
            raise LaunchFailed(None, await _end(process)) from None
        except BaseException:
            await _end(process)
            raise
        if not told:
            output = await _end(process, grace=2.0)
            raise LaunchFailed(process.returncode, output)
        return process
    finally:
        os.close(reading)


async def _start(
    argv: Sequence[str], writing: int, env: Mapping[str, str], cwd: str, fds: Sequence[int]
) -> asyncio.subprocess.Process:
    try:
        return await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=dict(env),
            cwd=cwd,
            pass_fds=(writing, *fds),
            start_new_session=True,
            limit=STREAM_LIMIT,
        )
    finally:
        os.close(writing)


async def _first_bytes(fd: int) -> bytes:
    loop = asyncio.get_running_loop()
    os.set_blocking(fd, False)
    found: asyncio.Future[None] = loop.create_future()
    loop.add_reader(fd, _settle, found)
    try:
        await found
    finally:
        loop.remove_reader(fd)
    return os.read(fd, 64)


def _settle(found: "asyncio.Future[None]") -> None:
    if not found.done():
        found.set_result(None)


async def _end(process: asyncio.subprocess.Process, grace: float = 0.0) -> str:
    """Kill the group and return what it had said on stderr."""
    if grace:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), grace)
    kill_group(process)
    said = b""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(5.0):
            if process.stderr is not None:
                said = await process.stderr.read(64 * 1024)
            await process.wait()
    return said.decode("utf-8", "replace").strip()


def kill_group(process: asyncio.subprocess.Process) -> None:
    """SIGKILL to the process group of a child of ours that has not been reaped yet."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)


class Launched:
    """The children that still run, so that closing leaves none behind."""

    def __init__(self) -> None:
        self._all: set[asyncio.subprocess.Process] = set()

    def add(self, process: asyncio.subprocess.Process) -> None:
        self._all = {each for each in self._all if each.returncode is None} | {process}

    def end(self, process: asyncio.subprocess.Process) -> None:
        kill_group(process)
        self._all.discard(process)

    async def close(self) -> None:
        left = [process for process in self._all if process.returncode is None]
        for process in left:
            kill_group(process)
        for process in left:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), 2.0)
