"""``Scheduler``: decides on slots, starts runs, watches them, hands their results over (design 9).

It runs on the runtime's own loop and only in the agent's owner. Everything it knows is in rows, so it can die at
any point: a start first looks after the runs that a former owner left (spec agent-runtime D11).
"""

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Awaitable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, Protocol

from rightlab.clock import Clock
from rightlab.content import RichContent
from rightlab.cron.claim import claim_run, read_claim
from rightlab.cron.jobs import Job, JobStore
from rightlab.cron.launcher import Launcher, RunHandle, RunSpec, adopt, kill_kernel
from rightlab.cron.run_rows import RunRows
from rightlab.cron.rundir import RunEnd, prepare_run, read_end
from rightlab.cron.runjob import settle
from rightlab.cron.runs import Run, Slot
from rightlab.errors import FencedOut, RightlabError, StoreError

__all__ = ["DeliverPort", "DeliveryResult", "Scheduler", "Target"]

_log = logging.getLogger(__name__)
TICK_SECONDS = 5.0
INTERRUPT_SECONDS = 15.0  # the run interrupts, waits 10 s, kills its kernel and saves
TERMINATE_SECONDS = 5.0
HEARTBEAT_SECONDS = 15.0
REDELIVER_SECONDS = 30.0


@dataclass(frozen=True)
class Target:
    """The chat a result goes to; fixed when the job was made (pain NB#265)."""

    chat_id: int
    thread_id: int = 0


@dataclass(frozen=True)
class DeliveryResult:
    """How a delivery went. ``delivered`` counts only with message ids; ``retryable`` is tried again (three
    attempts), anything else never: what may have arrived is not sent twice."""

    status: Literal["delivered", "retryable", "denied", "no_target", "failed"]
    message_ids: tuple[int, ...] = ()
    error: str | None = None


class DeliverPort(Protocol):
    """Sends the result of a run. Called again after a crash for the same run (``run.id``), so it must look
    first whether it has sent, or begun to send, that run's result."""

    def __call__(self, run: Run, content: RichContent, target: Target) -> Awaitable[DeliveryResult]: ...


@dataclass
class _Active:
    task: "asyncio.Task[None]"
    stop: asyncio.Event
    why: tuple[str, str] | None = None  # (cancelled, reason) once somebody asked


class Scheduler:
    """The crons of one agent, alive.

    ``runs_dir`` holds the folders of runs; ``agent`` and ``home`` are told to the notebooks; ``max_running`` caps
    the runs at one time (default: twice the cores, at least 4); what is over it waits.
    """

    def __init__(
        self,
        jobs: JobStore,
        *,
        clock: Clock,
        launch: Launcher,
        deliver: DeliverPort,
        runs_dir: Path,
        agent: str,
        home: Path,
        max_running: int | None = None,
        interrupt_seconds: float = INTERRUPT_SECONDS,
        terminate_seconds: float = TERMINATE_SECONDS,
    ) -> None:
        self.jobs = jobs
        self._clock = clock
        self._launch = launch
        self._deliver_port = deliver
        self._runs_dir = runs_dir
        self._agent = agent
        self._home = home
        self._rows = RunRows(jobs.store, clock)
        self._max = max_running or max(4, 2 * (os.cpu_count() or 1))
        self._interrupt, self._terminate = interrupt_seconds, terminate_seconds
        self._active: dict[str, _Active] = {}
        self._delivering: dict[str, asyncio.Task[None]] = {}
        self._wake = asyncio.Event()
        self._beat = self._redeliver = clock.monotonic()

    @property
    def active(self) -> list[str]:
        """Ids of the runs being watched."""
        return list(self._active)

    async def run(self) -> None:
        """Recover, then tick until cancelled. Run processes are left alone at the end: the next owner adopts them.

        Raises :class:`FencedOut` when somebody took the agent over.
        """
        try:
            await self.recover()
            while True:
                self._wake.clear()
                try:
                    await self.tick()
                except FencedOut:
                    raise
                except StoreError as error:
                    _log.error("crons: %s", error)
                await self._pause()
        finally:
            await self.close()

    async def close(self) -> None:
        """Stop watching and delivering; run processes go on."""
        tasks = [active.task for active in self._active.values()] + list(self._delivering.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._active.clear()
        self._delivering.clear()

    def wake(self) -> None:
        """Look at once instead of at the next tick (after a trigger). To be called on the loop."""
        self._wake.set()

    async def tick(self) -> None:
        """Decide on what became due, start what may start, send what waits."""
        await self._rows.plan_due()
        for slot in self._rows.due():
            await self._consider(slot)
        now = self._clock.monotonic()
        if self._active and now - self._beat >= HEARTBEAT_SECONDS:
            self._beat = now
            await self._rows.heartbeat(self.active)
        if now - self._redeliver >= REDELIVER_SECONDS:
            self._redeliver = now
            self._send_waiting()

    async def idle(self) -> None:
        """Wait until no run is being watched and no delivery is under way."""
        while self._active or self._delivering:
            tasks = [active.task for active in self._active.values()] + list(self._delivering.values())
            await asyncio.wait(tasks)
            await asyncio.sleep(0)

    async def wait(self, run_id: str) -> Run:
        """Wait until a run has ended and its delivery was tried; the run."""
        if run_id in self._active:
            await asyncio.wait([self._active[run_id].task])
        if run_id in self._delivering:
            await asyncio.wait([self._delivering[run_id]])
        return self._rows.run(run_id)

    def cancel(self, run_id: str, reason: str = "cancelled") -> bool:
        """Ask a run to end: its cell is interrupted, the notebook saved. False when it is not running here."""
        active = self._active.get(run_id)
        if active is None:
            return False
        if active.why is None:
            active.why = ("cancelled", reason)
            active.stop.set()
        return True

    async def recover(self) -> None:
        """Look after what a former owner left: adopt, finish or declare lost each unfinished run; then send
        results that were never sent."""
        for run in self._rows.unfinished():
            if run.id in self._active:
                continue
            handle = await asyncio.to_thread(_find_process, run)
            if handle is not None:
                _log.info("crons: adopted run %s of %s (pid %s)", run.id, run.job, handle.pid)
                await self._rows.started(run.id, handle.pid, handle.started)
                self._watch(run, handle)
            else:
                await self._finish(run, None, None)
        self._send_waiting()

    async def _pause(self) -> None:
        upcoming = self._rows.next_wake()
        seconds = TICK_SECONDS
        if upcoming is not None:
            seconds = min(seconds, max(0.05, (upcoming - self._clock.now()).total_seconds()))
        waits = {asyncio.ensure_future(self._clock.sleep(seconds)), asyncio.ensure_future(self._wake.wait())}
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def _consider(self, slot: Slot) -> None:
        job = self._rows.job(slot.job)
        if job is None:
            await self._rows.skip(slot, "the cron was removed")
            return
        running = self._rows.unfinished(job.name)
        if running and job.overlap != "allow":
            await self._overlapping(slot, job, running[0])
        elif len(self._active) < self._max:
            await self._start(slot, job)

    async def _overlapping(self, slot: Slot, job: Job, running: Run) -> None:
        """What is asked for by hand, a retry, and the slots of a full catch-up wait; the policy decides on the
        rest."""
        if slot.origin in ("manual", "retry") or (slot.origin == "catchup" and job.catchup == "all"):
            return
        if job.overlap == "skip":
            await self._rows.skip(slot, f"overlap: run {running.id} is still going on")
        elif job.overlap == "queue":
            newer = [s for s in self._rows.due() if s.job == job.name and s.slot > slot.slot]
            if any(s.origin == "schedule" for s in newer):
                await self._rows.skip(
                    slot, f"overlap: run {running.id} is still going on, a newer slot waits"
                )
        elif job.overlap == "replace":
            self.cancel(running.id, f"replaced by the slot of {slot.slot.isoformat()}")

    async def _start(self, slot: Slot, job: Job) -> None:
        run = await self._rows.claim(slot, job, self._runs_dir)
        if run is None or run.run_dir is None:
            return
        spec = RunSpec(
            run.id,
            job.name,
            run.run_dir,
            {"RIGHTLAB_HOME": str(self._home), "RIGHTLAB_AGENT": self._agent, "RIGHTLAB_RUN": run.id},
        )
        try:
            await asyncio.to_thread(
                prepare_run,
                *(run.run_dir, run, job, slot),
                agent=self._agent,
                home=self._home,
                guest_dir=self.jobs.guest_dir,
            )
        except RightlabError as error:
            await self._settle(run, RunEnd("failed", "blocked", str(error)))
            return
        try:
            handle = await self._launch(spec)
        except RightlabError as error:
            await self._settle(run, RunEnd("failed", "infrastructure", str(error)))
            return
        await self._rows.started(run.id, handle.pid, handle.started)
        self._watch(run, handle)

    def _watch(self, run: Run, handle: RunHandle) -> None:
        stop = asyncio.Event()
        left = _seconds_until(run.deadline_at, self._clock.now())
        task = asyncio.create_task(self._see_to(run, handle, stop, left), name=f"cron-run-{run.id}")
        self._active[run.id] = _Active(task, stop)

        def gone(task: "asyncio.Task[None]") -> None:
            self._active.pop(run.id, None)
            self._wake.set()
            if not task.cancelled() and task.exception() is not None:
                _log.error("crons: run %s is no longer watched: %s", run.id, task.exception())

        task.add_done_callback(gone)

    async def _see_to(self, run: Run, handle: RunHandle, stop: asyncio.Event, left: float) -> None:
        """Watch one run to its end: deadline, cancellation, escalation (interrupt, terminate, kill the group)."""
        ended = asyncio.ensure_future(handle.wait())
        asked = asyncio.ensure_future(stop.wait())
        try:
            await self._first(left, ended, asked)
            why: tuple[str, str] | None = None
            if not ended.done():
                why = self._active[run.id].why
                if why is None:
                    why = ("timeout", f"it took longer than its deadline of {_length(run)}")
                    handle.signal(signal.SIGINT)
                    await self._first(self._interrupt, ended)
                if not ended.done():
                    handle.signal(signal.SIGTERM)
                    await self._first(self._interrupt if why[0] == "cancelled" else self._terminate, ended)
                if not ended.done():
                    handle.kill()
            code = await ended
        finally:
            for wait in (ended, asked):
                wait.cancel()
        await self._finish(run, code, why)

    async def _first(self, seconds: float, *waits: "asyncio.Future[Any]") -> None:
        timer = asyncio.ensure_future(self._clock.sleep(seconds))
        try:
            await asyncio.wait({timer, *waits}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            timer.cancel()

    async def _finish(self, run: Run, code: int | None, why: tuple[str, str] | None) -> None:
        end = await asyncio.to_thread(_end_of, run, code, why)
        await self._settle(run, end)

    async def _settle(self, run: Run, end: RunEnd) -> None:
        run, retry = await self._rows.finish(run, end, self._rows.job(run.job))
        if run.status != "success":
            again = ", it will be tried again" if retry else ""
            _log.warning("crons: run %s of %s %s: %s%s", run.id, run.job, run.status, run.reason, again)
        if run.delivery_status == "pending":
            self._send(run)

    def _send_waiting(self) -> None:
        for run in self._rows.undelivered():
            self._send(run)

    def _send(self, run: Run) -> None:
        if run.id not in self._delivering:
            task = asyncio.create_task(self._deliver(run), name=f"cron-delivery-{run.id}")
            self._delivering[run.id] = task
            task.add_done_callback(lambda _: self._delivering.pop(run.id, None))

    async def _deliver(self, run: Run) -> None:
        try:
            content = RichContent.model_validate((run.delivery or {}).get("content"))
            result = await self._deliver_port(run, content, Target(run.target_chat_id, run.target_thread_id))
        except RightlabError as error:
            result = DeliveryResult("failed", error=str(error))
        except Exception as error:
            _log.exception("crons: the delivery of run %s broke", run.id)
            result = DeliveryResult("failed", error=f"{type(error).__name__}: {error}")
        await self._rows.delivered(run, result.status, result.message_ids, result.error)


def _find_process(run: Run) -> RunHandle | None:
    """The process that executes ``run``, if there is one. Otherwise the run is claimed, so that none can begin."""
    handle = adopt(run.pid, run.pid_started)
    if handle is not None or run.run_dir is None or not run.run_dir.is_dir():
        return handle
    if read_claim(run.run_dir) is None:
        with contextlib.suppress(RightlabError):
            claim_run(run.run_dir, "scheduler")
    claim = read_claim(run.run_dir) or {}
    return adopt(claim.get("pid"), claim.get("started")) if claim.get("by") == "runjob" else None


def _end_of(run: Run, code: int | None, why: tuple[str, str] | None) -> RunEnd:
    """How a run ended whose process is gone; its notebook is made true and its kernel ended."""
    run_dir = run.run_dir
    found = None if run_dir is None else read_end(run_dir, run.id, code)
    if found is not None:
        if found.status == "cancelled" and why is not None and why[0] == "cancelled":
            return RunEnd("cancelled", "cancelled", why[1], code, found.results)
        return found
    if why is not None and why[0] == "timeout":
        end = RunEnd("failed", "timeout", f"{why[1]} and had to be killed", code)
    elif why is not None:
        end = RunEnd("cancelled", "cancelled", why[1], code)
    else:
        end = RunEnd("lost", "lost", f"the run process ended without a result{_exit_words(code)}", code)
    if run_dir is not None and run_dir.is_dir():
        kill_kernel(run_dir)
        with contextlib.suppress(RightlabError, OSError):
            settle(run_dir, end.status, end.reason or "", end.failure)
    return end


def _exit_words(code: int | None) -> str:
    if code is None:
        return ""
    if code < 0 and -code in set(signal.Signals):
        return f" (killed by {signal.Signals(-code).name})"
    return f" (exit status {code}, see run.log)"


def _seconds_until(moment: datetime | None, now: datetime) -> float:
    return 366 * 86_400.0 if moment is None else max(0.0, (moment - now).total_seconds())


def _length(run: Run) -> str:
    if run.deadline_at is None or run.started_at is None:
        return "?"
    return f"{(run.deadline_at - run.started_at).total_seconds():g} s"
