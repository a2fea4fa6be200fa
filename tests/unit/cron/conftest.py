"""A store in a home of its own, jobs, a frozen clock, and stand-ins for the launcher and the chat."""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from rightlab.cron import DeliveryResult, JobStore, Run, RunSpec, Scheduler, Target
from rightlab.store import Store
from rightlab.testing import FrozenClock


class FakeProcess:
    """A run process under the test's hand: ``end()`` makes it finish, with or without a status.json."""

    def __init__(self, spec: RunSpec, number: int, *, stubborn: int = 0) -> None:
        self.spec = spec
        self.pid = 4_000_000 + number  # above the highest pid Linux gives
        self.started: str | None = f"fake:{number}"
        self.signals: list[str] = []
        self._stubborn = stubborn
        self._code: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def wait(self) -> int | None:
        return await asyncio.shield(self._code)

    def signal(self, number: int) -> None:
        self.signals.append(str(int(number)))
        if len(self.signals) > self._stubborn:
            status, failure = ("failed", "timeout") if self.signals[0] == "2" else ("cancelled", "cancelled")
            self.end(status=status, failure=failure, reason="stopped")

    def kill(self) -> None:
        self.signals.append("kill")
        self.die(-9)

    def die(self, code: int = -9) -> None:
        if not self._code.done():
            self._code.set_result(code)

    def end(self, **status: Any) -> None:
        said = {"run_id": self.spec.run_id, "status": "success", "results": {}, **status}
        self.spec.run_dir.joinpath("status.json").write_text(json.dumps(said))
        self.die(0 if said["status"] == "success" else 1)


@dataclass
class FakeLauncher:
    started: list[FakeProcess] = field(default_factory=list)
    stubborn: int = 0
    error: Exception | None = None

    async def __call__(self, spec: RunSpec) -> FakeProcess:
        if self.error is not None:
            raise self.error
        process = FakeProcess(spec, len(self.started) + 1, stubborn=self.stubborn)
        claim = {"by": "runjob", "pid": process.pid, "started": process.started}
        spec.run_dir.joinpath("claim.json").write_text(json.dumps(claim))
        self.started.append(process)
        return process


@dataclass
class FakeChat:
    sent: list[tuple[str, str, Target]] = field(default_factory=list)
    answers: list[DeliveryResult | Exception] = field(default_factory=list)

    async def __call__(self, run: Run, content: Any, target: Target) -> DeliveryResult:
        self.sent.append((run.job, content.plain_text(), target))
        answer = self.answers.pop(0) if self.answers else DeliveryResult("delivered", (len(self.sent),))
        if isinstance(answer, Exception):
            raise answer
        return answer


@dataclass
class Bench:
    """One agent's crons with everything around them under control."""

    root: Path
    store: Store
    clock: FrozenClock
    jobs: JobStore
    launcher: FakeLauncher
    chat: FakeChat
    scheduler: Scheduler

    def restart(self) -> Scheduler:
        """A new owner on the same database."""
        self.scheduler = make_scheduler(self.root, self.clock, self.jobs, self.launcher, self.chat)
        return self.scheduler

    async def tick(self) -> None:
        await self.scheduler.tick()

    async def settle(self) -> None:
        """Let watchers and deliveries finish what they can."""
        for _ in range(400):
            await asyncio.sleep(0.005)
            if not self.scheduler._delivering and all(p._code.done() for p in self.launcher.started):
                await self.scheduler.idle()
                return

    def story(self, name: str | None = None) -> list[tuple[str, str, str | None]]:
        """The slots, oldest first: (time or origin, status, reason)."""
        rows = list(reversed(self.jobs.slots(name, 10_000)))
        return [
            (
                slot.origin if slot.origin == "manual" else slot.slot.strftime("%H:%M"),
                slot.status,
                slot.reason,
            )
            for slot in rows
        ]


def make_scheduler(
    root: Path, clock: FrozenClock, jobs: JobStore, launcher: Any, chat: FakeChat, **options: Any
) -> Scheduler:
    return Scheduler(
        jobs,
        clock=clock,
        launch=launcher,
        deliver=chat,
        runs_dir=root / "runs",
        agent="alice",
        home=root,
        **options,
    )


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    clock = FrozenClock("2026-06-01T08:00:00Z")
    store = Store.open(tmp_path / "data.db", role="owner", clock=clock)
    jobs = JobStore(store, clock, guest_dir=tmp_path / "sandbox")
    launcher, chat = FakeLauncher(), FakeChat()
    scheduler = make_scheduler(tmp_path, clock, jobs, launcher, chat)
    yield Bench(tmp_path, store, clock, jobs, launcher, chat, scheduler)
    store.close()
