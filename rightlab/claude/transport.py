"""Running one invocation and reading what it says (spec agent-runtime 3.3)."""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from rightlab.claude.events import ApiRetry, Event, Init, Other, Result
from rightlab.claude.failures import process_failure
from rightlab.claude.family import Family
from rightlab.claude.invocation import Invocation
from rightlab.claude.redaction import redact_secrets
from rightlab.claude.stream import parse_line
from rightlab.errors import ClaudeError, TurnFailed
from rightlab.home.writers import append_line, atomic_write, remove

__all__ = ["ClaudeTransport", "CliTransport", "Launcher"]

CHILD_WAIT = 5.0
"""Seconds a killed child may take to be gone."""
STDERR_DRAIN = 2.0
"""Seconds for what is left on stderr."""
EXIT_GRACE = 1.0
"""Seconds a child has after its result to end by itself, so that its transcript is whole."""
STDERR_KEPT = 64 * 1024
LOG_BYTES = 8 * 1024 * 1024
_CHUNK = 256 * 1024


class Launcher(Protocol):
    """Starts a process where the agent may run; the child leads a process group of its own.

    ``files`` is a host folder that only this child is to see.
    """

    async def spawn(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: str | None = None,
        files: Path | None = None,
    ) -> asyncio.subprocess.Process: ...


class ClaudeTransport(Protocol):
    """One of the four ways out of the process: runs an invocation, yields what it says.

    The last event is a :class:`~rightlab.claude.Result`; a run without one raises TurnFailed. Leaving the
    iteration early, or cancelling it, ends the run. ``command`` is what is really started (the guest's
    script), by default the invocation's own argv. ``timeout`` bounds the whole run and ``first_progress``
    the wait for the first word from the model, both in seconds; by default the invocation's.
    """

    def run(
        self,
        invocation: Invocation,
        *,
        stdin: str,
        command: Sequence[str] | None = None,
        timeout: float | None = None,
        first_progress: float | None = None,
    ) -> AsyncGenerator[Event, None]: ...


@dataclass
class CliTransport:
    """Runs the real CLI through ``launcher``.

    ``env`` gives an invocation's whole environment. With ``log_dir`` the raw output is appended to
    ``<session>.ndjson`` there, after ``redact``, and rotated to ``<session>.ndjson.1`` at ``log_bytes``.
    """

    launcher: Launcher
    cli_path: str
    env: Callable[[Invocation], Mapping[str, str]]
    log_dir: Path | None = None
    cwd: str | None = None
    redact: Callable[[str], str] = redact_secrets
    log_bytes: int = LOG_BYTES

    async def run(
        self,
        invocation: Invocation,
        *,
        stdin: str,
        command: Sequence[str] | None = None,
        timeout: float | None = None,
        first_progress: float | None = None,
    ) -> AsyncGenerator[Event, None]:
        """The events of one run, the last of them a Result.

        Raises:
            TurnFailed: ``timeout``, ``no_progress``, or what the process said when it ended without a result
                (``session_in_use``, ``session``, ``auth``, ``cli``).
            ClaudeError: the process could not be started.
        """
        argv = list(command) if command is not None else invocation.argv(self.cli_path)
        try:
            process = await self.launcher.spawn(
                argv, env=self.env(invocation), cwd=self.cwd, files=invocation.files
            )
        except OSError as error:
            raise ClaudeError(
                f"Claude Code does not start: {error.strerror or error}",
                where=argv[0],
                fix="Check RIGHTLAB_CLAUDE or install rightlab[agent].",
            ) from error
        run = _Run(process, stdin, _Log(self, invocation))
        deadlines = _Deadlines(
            timeout if timeout is not None else invocation.timeout_s,
            first_progress if first_progress is not None else invocation.first_progress_s,
            run,
        )
        plain: list[str] = []
        try:
            async for line in run.lines(deadlines):
                if invocation.output_format == "text":
                    plain.append(line.decode("utf-8", "replace"))
                    continue
                for event in parse_line(line):
                    deadlines.see(event)
                    run.log.name_after(event)
                    if isinstance(event, Result):
                        run.family.look()
                    yield event
                    if isinstance(event, Result):
                        return
            await run.exited(EXIT_GRACE)
            if plain and process.returncode == 0:
                yield Result(subtype="success", text="\n".join(plain))
                return
            said = "\n".join([*plain, await run.stderr_text()]).strip()
            raise process_failure(process.returncode, said)
        finally:
            await run.close()


class _Run:
    """One child: its input, its lines, its stderr, its end."""

    def __init__(self, process: asyncio.subprocess.Process, stdin: str, log: "_Log") -> None:
        if process.stdin is None or process.stdout is None:
            raise ClaudeError("the launcher gave a process without pipes")
        self.process = process
        self.stdout = process.stdout
        self.log = log
        self.delivered: float | None = None
        self.family = Family(process.pid)
        self._tail = bytearray()
        self._feeding = asyncio.create_task(self._feed(process.stdin, stdin.encode()))
        self._draining = asyncio.create_task(self._drain(process.stderr))

    async def lines(self, deadlines: "_Deadlines") -> AsyncIterator[bytes]:
        """Whole lines of any length, the last one even without its newline."""
        pieces: list[bytes] = []
        while True:
            chunk = await deadlines.wait(self.stdout.read(_CHUNK))
            head, *rest = chunk.split(b"\n")
            pieces.append(head)
            if rest or not chunk:
                whole = [b"".join(pieces), *rest[:-1]]
                pieces = rest[-1:]
                for line in whole:
                    if line.strip():
                        self.log.append(line)
                        yield line
            if not chunk:
                return

    async def stderr_text(self) -> str:
        await asyncio.wait([self._draining], timeout=STDERR_DRAIN)
        return self.log.redact(self._tail.decode("utf-8", "replace")).strip()

    async def exited(self, seconds: float) -> bool:
        """Wait for the child's end; does not wait for pipes that somebody else still holds open."""
        end = time.monotonic() + seconds
        waiting = asyncio.ensure_future(self.process.wait())
        try:
            while self.process.returncode is None and (left := end - time.monotonic()) > 0:
                await asyncio.wait([waiting], timeout=min(left, 0.02))
        finally:
            waiting.cancel()
        return self.process.returncode is not None

    async def close(self) -> None:
        """End the child and everything in its group; also when this task is being cancelled."""
        closing = asyncio.ensure_future(self._close())
        try:
            await asyncio.shield(closing)
        except asyncio.CancelledError:
            await closing
            raise

    async def _close(self) -> None:
        swallowing = asyncio.create_task(self._swallow())
        self.family.look()
        try:
            if self.log.saw_result:
                await self.exited(EXIT_GRACE)
            # Group and family may outlive their head, and may hold the pipes.
            self.family.kill()
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
            await self.exited(CHILD_WAIT)
            await asyncio.wait([self._draining], timeout=0.2)
        finally:
            for task in (swallowing, self._feeding, self._draining):
                task.cancel()
            await asyncio.gather(swallowing, self._feeding, self._draining, return_exceptions=True)
            # Without this an inherited pipe would keep its descriptors here until the garbage collector.
            transport = getattr(self.process, "_transport", None)
            if transport is not None:
                transport.close()

    async def _swallow(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            while await self.stdout.read(_CHUNK):
                pass

    async def _feed(self, stdin: asyncio.StreamWriter, data: bytes) -> None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            stdin.write(data)
            await stdin.drain()
            stdin.close()
            await stdin.wait_closed()
        self.delivered = time.monotonic()

    async def _drain(self, stderr: asyncio.StreamReader | None) -> None:
        while stderr is not None and (chunk := await stderr.read(_CHUNK)):
            self._tail += chunk
            del self._tail[:-STDERR_KEPT]


class _Deadlines:
    """The two watchdogs: the whole run, and the model's first word after stdin was delivered."""

    def __init__(self, total: float | None, first: float | None, run: _Run) -> None:
        self._total = total
        self._first = first
        self._run = run
        self._started = time.monotonic()
        self._progress = False

    def see(self, event: Event) -> None:
        refused = isinstance(event, ApiRetry) and event.status in (401, 403)
        silent = isinstance(event, Other) and (event.kind == "unparsed" or event.kind.startswith("system/"))
        if not (isinstance(event, Init) or refused or silent):
            self._progress = True

    async def wait(self, reading: Coroutine[Any, Any, bytes]) -> bytes:
        task = asyncio.create_task(reading)
        try:
            while True:
                left = self._left()
                await asyncio.wait([task], timeout=left)
                if task.done():
                    return task.result()
                self._check()
        finally:
            task.cancel()

    def _ends(self) -> Iterator[tuple[float, str, float]]:
        if self._total is not None:
            yield self._started + self._total, "timeout", self._total
        delivered = self._run.delivered
        if self._first is not None and not self._progress:
            # Until stdin is delivered the watchdog only looks again later.
            start = delivered if delivered is not None else time.monotonic()
            yield start + self._first, "no_progress", self._first

    def _left(self) -> float | None:
        ends = [end for end, _, _ in self._ends()]
        return max(0.0, min(ends) - time.monotonic()) if ends else None

    def _check(self) -> None:
        now = time.monotonic()
        for end, kind, seconds in self._ends():
            if now >= end:
                what = "took longer than" if kind == "timeout" else "got no word from the model within"
                raise TurnFailed(kind, f"the turn {what} {seconds:g} s")


class _Log:
    """The raw output of one run, appended to its session's file."""

    def __init__(self, transport: CliTransport, invocation: Invocation) -> None:
        self.redact = transport.redact
        self.saw_result = False
        self._folder = transport.log_dir
        self._limit = transport.log_bytes
        self._name = invocation.session_id
        self._fallback = invocation.invocation_id
        self._held: list[bytes] = []

    def append(self, line: bytes) -> None:
        if self._folder is None:
            return
        self._held.append(line)
        if self._name is not None:
            self._flush(self._folder, self._name)

    def name_after(self, event: Event) -> None:
        """A session the CLI named itself names the file; until then the lines wait."""
        ended = isinstance(event, Result)
        self.saw_result = self.saw_result or ended
        if self._name is None and (event.session_id or ended):
            self._name = event.session_id or self._fallback
        if self._folder is not None and self._name is not None and self._held:
            self._flush(self._folder, self._name)

    def _flush(self, folder: Path, name: str) -> None:
        safe = "".join(char if char.isalnum() or char in "-_" else "_" for char in name)
        path = folder / f"{safe}.ndjson"
        held, self._held = self._held, []
        text = self.redact("\n".join(line.decode("utf-8", "replace") for line in held))
        self._rotate(path, len(text))
        append_line(path, text)

    def _rotate(self, path: Path, coming: int) -> None:
        try:
            size = path.stat().st_size
        except OSError:
            return
        if size + coming > self._limit:
            atomic_write(path.with_name(f"{path.name}.1"), path.read_bytes(), mode=0o600)
            remove(path)
