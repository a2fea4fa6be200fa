"""Scheduler, run processes and kernels together, in a real home, on the real clock."""

import asyncio
import json
import os
import signal
import textwrap
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from notebook_kit import ENV, gone, read, statuses, write_notebook

from rightlab.clock import SystemClock
from rightlab.cron import (
    DeliveryResult,
    JobStore,
    Run,
    Scheduler,
    SubprocessLauncher,
    Target,
    run_environment,
)
from rightlab.store import Store

pytestmark = pytest.mark.kernel


@dataclass
class Chat:
    sent: list[tuple[str, str]] = field(default_factory=list)

    async def __call__(self, run: Run, content: Any, target: Target) -> DeliveryResult:
        self.sent.append((run.job, content.plain_text()))
        return DeliveryResult("delivered", (len(self.sent),))


@dataclass
class Lab:
    root: Path
    jobs: JobStore
    chat: Chat
    env: dict[str, str]

    def scheduler(self) -> Scheduler:
        return Scheduler(
            self.jobs,
            clock=SystemClock(),
            launch=SubprocessLauncher(self.env),
            deliver=self.chat,
            runs_dir=self.root / "agents" / "alice" / "runs",
            agent="alice",
            home=self.root,
        )


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    root = tmp_path / "home"
    (root / "agents" / "alice").mkdir(parents=True)
    (root / "rightlab.json").write_text("{}")
    store = Store.open(root / "agents" / "alice" / "data.db", role="owner")
    yield Lab(root, JobStore(store, SystemClock()), Chat(), run_environment({**os.environ, **ENV}))
    store.close()


async def until(check: Callable[[], Any], seconds: float = 40.0) -> Any:
    async with asyncio.timeout(seconds):
        while True:
            found = check()
            if found:
                return found
            await asyncio.sleep(0.05)


def saved(partial: Path) -> list[str]:
    """What a notebook that is being written says of its cells; it parses at any moment."""
    return statuses(json.loads(partial.read_text()))


async def test_a_notebook_of_the_person_runs_in_its_own_folder_and_is_delivered(
    lab: Lab, tmp_path: Path
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "data.txt").write_text("42")
    notebook = write_notebook(
        tmp_path / "mine" / "n.ipynb",
        "from rightlab.cron import deliver, result\nanswer = int(open('data.txt').read())\nresult('answer', answer)",
        "deliver(f'{who}: {answer}')",
        parameters="who = 'nobody'",
    )
    before = notebook.read_bytes()
    lab.jobs.add("n", schedule="17 3 * * *", notebook=notebook, parameters={"who": "me"}, target_chat_id=5)
    lab.jobs.trigger("n")
    scheduler = lab.scheduler()
    task = asyncio.create_task(scheduler.run())
    run = await until(lambda: next((r for r in lab.jobs.runs("n") if r.delivery_status == "delivered"), None))
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert (run.status, dict(run.results)) == ("success", {"answer": 42})
    assert lab.chat.sent == [("n", "me: 42")]
    assert run.notebook is not None
    nb = read(run.notebook)
    assert set(statuses(nb)) == {"completed"}
    assert (nb.metadata.rightlab.run_id, nb.metadata.rightlab.origin) == (run.id, "manual")
    assert notebook.read_bytes() == before


async def test_a_run_that_outlives_its_owner_is_adopted_not_repeated(lab: Lab, tmp_path: Path) -> None:
    """Spec agent-runtime D11; pain OC#42640."""
    notebook = write_notebook(
        tmp_path / "n.ipynb",
        f"open({str(tmp_path / 'effects')!r}, 'a').write('once ')",
        f"import os, time\nwhile not os.path.exists({str(tmp_path / 'go')!r}):\n    time.sleep(0.05)",
        "from rightlab.cron import deliver\ndeliver('done')",
    )
    lab.jobs.add("n", schedule="17 3 * * *", notebook=notebook, target_chat_id=5)
    lab.jobs.trigger("n")
    first = lab.scheduler()
    await first.tick()
    await until(lambda: (tmp_path / "effects").exists())
    await first.close()
    second = lab.scheduler()
    await second.recover()
    assert len(second.active) == 1
    (tmp_path / "go").touch()
    async with asyncio.timeout(30):
        await second.idle()
    run = lab.jobs.runs("n")[0]
    assert (run.status, run.delivery_status, run.attempt) == ("success", "delivered", 1)
    assert (tmp_path / "effects").read_text() == "once "
    await second.tick()
    assert len(lab.jobs.runs("n")) == 1


async def test_a_killed_run_is_lost_tidied_up_and_tried_once_more(lab: Lab, tmp_path: Path) -> None:
    notebook = write_notebook(tmp_path / "n.ipynb", "print('a')", "import time; time.sleep(60)", "print('c')")
    lab.jobs.add("n", schedule="17 3 * * *", notebook=notebook, target_chat_id=5)
    lab.jobs.trigger("n")
    scheduler = lab.scheduler()
    await scheduler.tick()
    run = lab.jobs.runs("n")[0]
    assert run.run_dir is not None
    partial = run.run_dir / "out.partial.ipynb"
    await until(lambda: partial.exists() and saved(partial) == ["completed", "running", "pending"])
    assert run.pid is not None
    os.kill(run.pid, signal.SIGKILL)
    async with asyncio.timeout(20):
        await scheduler.idle()
    run = lab.jobs.run(run.id)
    assert (run.status, run.failure, run.exit_code) == ("lost", "lost", -9)
    assert run.notebook is not None
    nb = read(run.notebook)
    assert run.notebook.name == "output.ipynb"
    assert nb.metadata.rightlab.status == "lost"
    assert statuses(nb) == ["completed", "failed", "not_run"]
    waiting = lab.jobs.slots("n")[0]
    assert (waiting.attempt, waiting.origin, waiting.status) == (2, "retry", "due")
    assert lab.chat.sent == []


async def test_cancel_and_deadline_reach_the_cell(lab: Lab, tmp_path: Path) -> None:
    notebook = write_notebook(tmp_path / "n.ipynb", "import time; time.sleep(60)")
    lab.jobs.add("a", schedule="17 3 * * *", notebook=notebook)
    lab.jobs.add("b", schedule="17 3 * * *", notebook=notebook, deadline_seconds=4, retries=0)
    for name in ("a", "b"):
        lab.jobs.trigger(name)
    scheduler = lab.scheduler()
    await scheduler.tick()
    first = lab.jobs.runs("a")[0]
    assert first.run_dir is not None
    partial = first.run_dir / "out.partial.ipynb"
    await until(lambda: partial.exists() and saved(partial) == ["running"])
    scheduler.cancel(first.id, "not needed any more")
    async with asyncio.timeout(40):
        await scheduler.idle()
    first, second = lab.jobs.runs("a")[0], lab.jobs.runs("b")[0]
    assert (first.status, first.reason) == ("cancelled", "not needed any more")
    assert (second.status, second.failure) == ("failed", "timeout")
    assert first.notebook is not None
    assert statuses(read(first.notebook)) == ["cancelled"]
    assert first.pid is not None
    assert gone(first.pid)


FAKE_LAB = '''
"""Stands where the lab's facade does, for a prompt cron without a model."""
import sys, types
from types import SimpleNamespace as S

def run_prompt(prompt, **facts):
    assert facts["agent"] == "alice" and facts["scheduled_at"], facts
    kind = "silent" if "quiet" in prompt else "notify"
    said = {"text": f"You said: {prompt}"}
    facts = {"run_note": "answered", "cost_usd": 0.125, "num_turns": 2, "assembly": "the assembly"}
    return S(kind=kind, content=said, reason="nothing new", **facts)

lab = types.ModuleType("rightlab.lab")
lab.run_prompt = run_prompt
sys.modules["rightlab.lab"] = lab
'''


async def test_the_built_in_prompt_notebook(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(textwrap.dedent(FAKE_LAB))
    lab.env["PYTHONPATH"] = str(tmp_path / "site")
    tricky = "Say 'hi' \"there\" {x} \\n $HOME\n```\n🐦"
    lab.jobs.add("p", schedule="17 3 * * *", prompt=tricky, target_chat_id=5)
    lab.jobs.add("q", schedule="17 3 * * *", prompt="Be quiet.", target_chat_id=5)
    for name in ("p", "q"):
        lab.jobs.trigger(name)
    scheduler = lab.scheduler()
    began = time.monotonic()
    await scheduler.tick()
    async with asyncio.timeout(60):
        await scheduler.idle()
    assert time.monotonic() - began < 60
    spoke, quiet = lab.jobs.runs("p")[0], lab.jobs.runs("q")[0]
    assert (spoke.status, spoke.reason) == ("success", None)
    assert (spoke.cost_usd, spoke.num_turns, spoke.run_note) == (0.125, 2, "answered")
    assert len(lab.chat.sent) == 1
    assert lab.chat.sent[0][1].startswith("You said: Say 'hi'")
    assert (quiet.delivery_status, quiet.delivery) == ("none", {"kind": "silent", "reason": "nothing new"})
    assert spoke.notebook is not None
    nb = read(spoke.notebook)
    assert "the assembly" in str(nb.cells)
    assert nb.metadata.papermill.parameters["prompt"] == tricky
