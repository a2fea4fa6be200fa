"""The demo: an agent whose model is scripted, in a home of its own, with its notebooks (contract, "Files")."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rightlab.errors import SandboxError
from rightlab.home import AgentHome, Home
from rightlab.home.writers import file_lock, write_agent_owned
from rightlab.runtime import host
from rightlab.runtime.crons import Crons
from rightlab.runtime.jupyter import copy_notebooks
from rightlab.runtime.setup import make_agent
from rightlab.runtime.state import read_state

__all__ = ["DEMO_AGENT", "DEMO_JOB", "Demo", "prepare_demo", "run_once"]

DEMO_AGENT = "demo"
DEMO_JOB = "good-morning"

_FILES = {
    "IDENTITY.md": (
        "Demo, an agent that shows what rightlab does.\n\n"
        "- You live in a notebook and answer in its cells.\n"
        "- Your model is scripted: what you say was written beforehand, and you say so when asked.\n"
    ),
    "SOUL.md": "Friendly, short and exact. Says what it did, not what it might do.\n",
    "USER.md": "Somebody who tries rightlab for the first time. Timezone unknown.\n",
    ".claude/skills/show-around/SKILL.md": (
        "---\n"
        "name: show-around\n"
        "description: Show somebody new what this lab has. Use it when they ask what to try next.\n"
        "---\n\n"
        "1. Ask which of the three they came for: prompts, costs or crons.\n"
        "2. Name the notebook for it: 01_prompts, 03_costs or 05_crons.\n"
        "3. Offer one thing to change in it, small enough to undo.\n"
    ),
}


@dataclass(frozen=True, slots=True)
class Demo:
    """The prepared demo: its own home, its agent, its writable notebooks."""

    home: Home
    agent: AgentHome
    notebooks: Path

    @property
    def has_history(self) -> bool:
        """True when a cron has run here before."""
        return bool(Crons(self.agent).runs(DEMO_JOB, limit=1).rows)


def prepare_demo(home: Home, *, say: Callable[[str], None] = lambda line: None) -> Demo:
    """Make what is missing of the demo under ``home`` and return it; a second call changes nothing."""
    demo_home = home.demo_home
    home.check()
    demo_home.mark()
    with file_lock(demo_home.path / "demo"):
        if DEMO_AGENT not in demo_home.agents():
            _make(demo_home, say)
        agent = demo_home.agent(DEMO_AGENT)
        crons = Crons(agent)
        if DEMO_JOB not in crons.names():
            crons.add(
                DEMO_JOB,
                schedule="17 9 * * *",
                prompt="Wish the reader a good morning and say in one sentence what this run shows.",
            )
    return Demo(demo_home, agent, copy_notebooks(demo_home))


def _make(demo_home: Home, say: Callable[[str], None]) -> None:
    mode = "auto"
    try:
        with tempfile.TemporaryDirectory(prefix="rightlab-probe-") as scratch:
            host.probe_sandbox(Path(scratch))
    except SandboxError as error:
        mode = "none"
        say(f"No sandbox on this machine, so the demo agent runs without one. {error}")
    agent = make_agent(
        demo_home,
        DEMO_AGENT,
        sandbox=mode,
        bootstrap=False,
        overrides={"gateway.upstream": "scripted:builtin"},
    )
    for name, text in _FILES.items():
        write_agent_owned(agent.guest_dir / name, text)


def run_once(demo: Demo, *, timeout: float = 120.0) -> dict[str, Any]:
    """One turn and one cron run, through the owner if the demo is up, else with one of our own for as long."""
    mine = host.local(demo.agent) is None and read_state(demo.agent) is None
    if mine:
        host.up(demo.agent, host="demo")
    try:
        turn = host.ask(demo.agent, "Hello! What are you, and what can you do?", timeout=timeout)
        crons = Crons(demo.agent)
        run = crons.wait(crons.trigger(DEMO_JOB), timeout=timeout)
    finally:
        if mine:
            host.down(demo.agent)
    return {
        "agent": demo.agent.name,
        "model": "scripted",
        "turn": turn,
        "cron": run,
        "home": str(demo.home.path),
        "notebooks": str(demo.notebooks),
    }
