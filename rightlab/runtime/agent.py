"""One agent's services under one roof (design 3, 7): what ``up`` starts and ``down`` stops.

Order of start: lease, store and fence, gateway and aggregator, sandbox, turns, settlement of what a crash left, the
control socket, then the channels and the scheduler. Everything runs on the host thread's loop.
"""

import asyncio
import contextlib
import logging
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rightlab.clock import Clock, SystemClock, iso
from rightlab.cron import JobStore
from rightlab.errors import ChannelError, RightlabError, RunError
from rightlab.home import AgentHome
from rightlab.home.processes import process_started
from rightlab.runtime.control import ControlServer, Handler
from rightlab.runtime.lease import Lease
from rightlab.runtime.notebook import NOTEBOOK_CHAT
from rightlab.runtime.services import Services, open_services
from rightlab.runtime.state import OwnerState, clear_state, write_state
from rightlab.runtime.wanted import unwant

__all__ = ["AgentRuntime"]

log = logging.getLogger(__name__)

STOP_SECONDS = 1.8
WATCH_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class _Live:
    """What exists only between start and stop."""

    lease: Lease
    services: Services
    control: ControlServer | None
    since: str


class AgentRuntime:
    """Starts, answers for and stops the services of one agent.

    ``host`` says in words what process this is (kernel, headless kernel, foreground). With ``brief=True`` only what
    one turn needs is started: no channel that listens, no scheduler, no control socket (contract: ``ask`` without an
    owner).
    """

    def __init__(
        self, agent: AgentHome, *, host: str = "this process", brief: bool = False, clock: Clock | None = None
    ) -> None:
        self.agent = agent
        self._host = host
        self._brief = brief
        self._clock = clock or SystemClock()
        self._live: _Live | None = None
        self._done: asyncio.Event | None = None
        self._changing = asyncio.Lock()
        self._stopping: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None

    @property
    def running(self) -> bool:
        return self._live is not None

    @property
    def services(self) -> Services:
        if self._live is None:
            raise RightlabError(f"agent {self.agent.name!r} is not up", fix="Start it: %rightlab up")
        return self._live.services

    async def start(self) -> None:
        """Take the lease and bring everything up, or leave nothing behind, also when cancelled.

        What others take for "up" (state.json) is written once the channels have accepted us. Raises OwnedElsewhere,
        ConfigError, StoreError, SandboxError, ClaudeError, ChannelError (a token the server refuses), NotAvailable.
        """
        async with self._changing:
            if self._live is None:
                await self._start()

    async def _start(self) -> None:
        config = self.agent.config()
        lease = Lease.acquire(self.agent)
        services: Services | None = None
        try:
            services = await open_services(self.agent, config, self._clock, brief=self._brief)
            since = iso(self._clock.now())
            control = None
            if not self._brief:
                await services.connect()
                control = await self._open_control(services, since)
            self._done = asyncio.Event()
            self._live = _Live(lease, services, control, since)
            if not self._brief:
                await services.begin()
                self._watching = asyncio.create_task(self._watch(), name=f"watch {self.agent.name}")
        except BaseException:
            self._live = None
            if not self._brief:
                clear_state(self.agent)
            if services is not None:
                with contextlib.suppress(Exception):
                    await services.close(STOP_SECONDS)
            lease.release()
            raise
        log.info("agent %s is up in %s", self.agent.name, self._host)

    async def _watch(self) -> None:
        """Stay findable, and stop when somebody else has become the owner.

        A lost socket or state file is made again; a lease that was removed or replaced is no lease any more.
        """
        while (live := self._live) is not None:
            await self._clock.sleep(WATCH_SECONDS)
            if self._live is not live:
                return
            if not live.lease.intact:
                log.error("the lease of %s was taken away; this process stops acting for it", self.agent.name)
                self._stopping = asyncio.create_task(self.stop(), name=f"stop {self.agent.name}")
                return
            if not (self.agent.state_path.exists() and self.agent.control_socket.exists()):
                log.warning(
                    "files of %s in its run folder were removed; they are made again", self.agent.name
                )
                if live.control is not None:
                    await live.control.stop(0.1)
                control = await self._open_control(live.services, live.since)
                self._live = _Live(live.lease, live.services, control, live.since)

    async def _open_control(self, services: Services, since: str) -> ControlServer:
        token = secrets.token_urlsafe(24)
        control = ControlServer(
            self.agent,
            token,
            self._operations(),
        )
        await control.start()
        write_state(
            self.agent,
            OwnerState(
                pid=os.getpid(),
                start=process_started(os.getpid()) or "",
                fence=services.fence,
                token=token,
                host=self._host,
                since=since,
                ports=services.addresses(),
            ),
        )
        return control

    async def stop(self, seconds: float = STOP_SECONDS) -> None:
        """Stop everything within ``seconds`` (spec jupyter 0.4). What is unfinished is settled at the next start."""
        live, self._live = self._live, None
        if live is None:
            return
        deadline = self._clock.monotonic() + seconds
        if self._watching is not None and self._watching is not asyncio.current_task():
            self._watching.cancel()
        try:
            if live.control is not None:
                # After a take-over the files in the run folder are the new owner's.
                mine = live.lease.intact
                if mine:
                    clear_state(self.agent)
                await live.control.stop(seconds / 4, unlink=mine)
            with contextlib.suppress(TimeoutError):
                left = max(0.1, deadline - self._clock.monotonic())
                await asyncio.wait_for(live.services.close(left), left)
        finally:
            live.lease.release()
            if self._done is not None:
                self._done.set()
        log.info("agent %s is down", self.agent.name)

    async def settled(self) -> None:
        """Return once no start is under way."""
        async with self._changing:
            return

    async def wait_closed(self) -> None:
        """Return once the runtime has stopped, whoever asked for it."""
        if self._done is not None:
            await self._done.wait()

    def status(self) -> dict[str, Any]:
        """Plain facts: up, since, pid, host, gateway, sandbox, channels, crons."""
        assert self._live is not None
        return {
            "agent": self.agent.name,
            "up": True,
            "since": self._live.since,
            "pid": os.getpid(),
            "host": self._host,
            **self._live.services.status(),
        }

    # -- control operations: the same for callers in this process and over the socket ---------------------------

    def _operations(self) -> dict[str, Handler]:
        return {
            "status": self._status,
            "ask": self._ask,
            "run_prompt": self._run_prompt,
            "ping": self._ping,
            "wake": self._wake,
            "down": self._down,
        }

    async def handle(self, op: str, args: Mapping[str, Any]) -> Any:
        """Carry out one control operation for a caller in this process."""
        return await self._operations()[op](args)

    async def _ping(self, args: Mapping[str, Any]) -> dict[str, Any]:
        return {}

    async def _status(self, args: Mapping[str, Any]) -> dict[str, Any]:
        return self.status()

    async def _ask(self, args: Mapping[str, Any]) -> dict[str, Any]:
        text = str(args["text"])
        services = self.services
        message = services.notebook.message(text)
        # Shielded: the asker may go away, the turn stays (spec jupyter 0.3).
        turn = await asyncio.shield(
            services.spawn(services.turns.run([message], services.notebook), name="ask")
        )
        if turn is None:
            raise RightlabError("the message was taken by another turn")
        return turn.to_json()

    async def _run_prompt(self, args: Mapping[str, Any]) -> dict[str, Any]:
        services = self.services
        run = JobStore(services.store, self._clock).run(str(args["run_id"]))
        if run.finished:
            raise RunError(f"the run {run.id} has ended already ({run.status})")
        turn = await services.cron_turns.run(
            run_id=run.id,
            job=run.job,
            prompt=str(args["prompt"]),
            chat_id=run.target_chat_id or NOTEBOOK_CHAT,
            thread_id=run.target_thread_id,
            model=args.get("model"),
            max_budget_usd=args.get("max_budget_usd"),
            extra_instruction=args.get("extra_instruction"),
            force_notify=bool(args.get("force_notify")),
        )
        return turn.to_json()

    async def _wake(self, args: Mapping[str, Any]) -> dict[str, Any]:
        scheduler = self.services.scheduler
        if scheduler is None:
            raise ChannelError("the scheduler of this owner is not running")
        scheduler.wake()
        return {}

    async def _down(self, args: Mapping[str, Any]) -> dict[str, Any]:
        unwant(self.agent)

        async def stop_soon() -> None:
            # Answer first, then stop: the answer travels over the socket that stop() closes.
            await asyncio.sleep(0.05)
            await self.stop()

        self._stopping = asyncio.create_task(stop_soon(), name=f"stop {self.agent.name}")
        return {}
