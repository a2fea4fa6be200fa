"""One invocation from assembly to result: the shared middle of every kind of turn.

The host writes two files into a folder that only this invocation's process sees, read-only: the guest script (prompt
assembly, then the CLI) and the MCP configuration with the bearer that lets it act for its chat. The script writes the
prompt file where it ends with the process and starts the CLI; the message goes on stdin. Nothing of it is left when the
invocation ends.
"""

import asyncio
import json
import shutil
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from rightlab.claude import ClaudeTransport, Event, Init, Invocation, Result, ToolUse
from rightlab.errors import TurnFailed
from rightlab.home import atomic_write, make_dir
from rightlab.prompt import Assembly, build_assembly_script
from rightlab.turn.ports import CallScope, Channel, ToolAccess

__all__ = ["GuestFolder", "InvocationPlan", "Invoker", "Outcome"]

OUTPUT_TOOL = "StructuredOutput"


class GuestFolder(Protocol):
    """What an invocation needs to know of its sandbox."""

    @property
    def guest_root(self) -> str: ...

    @property
    def files_dir(self) -> Path: ...

    def files_at(self, files: Path) -> str: ...

    def scratch_at(self, files: Path) -> str: ...

    def tool(self, name: str) -> str: ...


@dataclass(frozen=True, slots=True)
class InvocationPlan:
    """Everything that decides one invocation; the rest is its caller's row of the table of spec 3.2.

    ``stdin`` is the whole message.
    """

    scope: CallScope
    caller: str
    assembly: Assembly
    stdin: str
    model: str | None
    session_id: str
    resume: bool = False
    max_budget_usd: float | None = None
    debug: bool = False


@dataclass(slots=True)
class Outcome:
    """What came back: the CLI's result event and what was seen on the way. ``elapsed_ms`` is wall time.

    ``cost_usd`` is what the ledger wrote for it (None: unknown, or not written yet).
    """

    result: Result
    elapsed_ms: int
    tools: list[str] = field(default_factory=list)
    model: str | None = None
    api_key_source: str | None = None
    mcp_status: str | None = None
    cost_usd: float | None = None


class Invoker:
    """Runs plans on one agent's transport and sandbox, at most ``slots`` processes at once, in order of asking."""

    def __init__(
        self, transport: ClaudeTransport, folder: GuestFolder, tools: ToolAccess, *, slots: int
    ) -> None:
        self._transport = transport
        self._folder = folder
        self._tools = tools
        self._slots = asyncio.Semaphore(slots)
        self._of_session: dict[str, asyncio.Task[None]] = {}

    async def run(
        self,
        plan: InvocationPlan,
        *,
        channel: Channel | None = None,
        on_event: Callable[[Event], Awaitable[None]] | None = None,
    ) -> Outcome:
        """Run ``plan`` to its one result, which may be a failure (see :func:`rightlab.claude.failure_of`).

        Returns with the result, while the process still ends: a reply need not wait for that. A later call for the
        same session does, since its transcript is whole only then.

        Raises :class:`TurnFailed` when the CLI gives none, SandboxError or ClaudeError when it does not start.
        """
        files = self._folder.files_dir / plan.scope.invocation_id
        stream: AsyncGenerator[Event, None] | None = None
        if (before := self._of_session.get(plan.session_id)) is not None:
            await asyncio.shield(before)
        await self._slots.acquire()
        try:
            command, invocation = self._prepare(plan, files, channel)
            stream = self._transport.run(invocation, stdin=plan.stdin, command=command)
            outcome = await self._follow(stream, on_event)
        except BaseException:
            await self._end(stream, plan, files)
            raise
        self._keep(plan.session_id, asyncio.create_task(self._end(stream, plan, files), name="ending"))
        return outcome

    def _keep(self, session_id: str, ending: "asyncio.Task[None]") -> None:
        self._of_session[session_id] = ending

        def forget(task: "asyncio.Task[None]") -> None:
            if self._of_session.get(session_id) is task:
                del self._of_session[session_id]

        ending.add_done_callback(forget)

    async def drain(self, seconds: float = 1.0) -> None:
        """Let the processes that have given their result end by themselves, so that their transcripts are whole."""
        if self._of_session:
            await asyncio.wait(list(self._of_session.values()), timeout=seconds)

    async def _end(
        self, stream: AsyncGenerator[Event, None] | None, plan: InvocationPlan, files: Path
    ) -> None:
        """No more tool calls; then the process, its files, and its slot for the next one."""
        self._tools.close(plan.scope.invocation_id)
        try:
            if stream is not None:
                await stream.aclose()
        finally:
            shutil.rmtree(files, ignore_errors=True)
            self._slots.release()

    def _prepare(
        self, plan: InvocationPlan, files: Path, channel: Channel | None
    ) -> tuple[list[str], Invocation]:
        guest_files = self._folder.files_at(files)
        prompt_file = f"{self._folder.scratch_at(files)}/prompt.md"
        config = self._tools.open(plan.scope, channel=channel)
        fields: dict[str, Any] = {
            "session_id": plan.session_id,
            "resume": plan.resume,
            "prompt_file": prompt_file,
            "mcp_config": f"{guest_files}/mcp.json",
            "files": files,
            "debug": plan.debug,
            "debug_dir": f"{self._folder.guest_root}/.claude/logs",
        }
        if plan.model is not None:
            fields["model"] = plan.model
        if plan.max_budget_usd is not None:
            fields["max_budget_usd"] = plan.max_budget_usd
        invocation = Invocation.of(plan.caller, invocation_id=plan.scope.invocation_id, **fields)
        script = build_assembly_script(
            plan.assembly,
            root=self._folder.guest_root,
            prompt_file=prompt_file,
            argv=invocation.argv(self._folder.tool("claude")),
            cwd=self._folder.guest_root,
        )
        make_dir(files, 0o700)
        atomic_write(files / "mcp.json", json.dumps(config), mode=0o600)
        atomic_write(files / "run.sh", script.encode("utf-8", "surrogateescape"), mode=0o600)
        return ["/bin/sh", f"{guest_files}/run.sh"], invocation

    async def _follow(
        self, stream: AsyncGenerator[Event, None], on_event: Callable[[Event], Awaitable[None]] | None
    ) -> Outcome:
        started = time.monotonic()
        tools: list[str] = []
        init: Init | None = None
        async for event in stream:
            if isinstance(event, Init):
                init = event
            elif isinstance(event, ToolUse) and event.name != OUTPUT_TOOL:
                tools.append(event.name)
            if on_event is not None:
                await on_event(event)
            if isinstance(event, Result):
                elapsed = int((time.monotonic() - started) * 1000)
                return Outcome(
                    event,
                    elapsed,
                    tools,
                    model=init.model if init is not None else None,
                    api_key_source=init.api_key_source if init is not None else None,
                    mcp_status=init.mcp_status() if init is not None else None,
                )
        raise TurnFailed("cli", "Claude Code ended without a result")
