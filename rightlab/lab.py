"""The facade: what notebooks, magics and the command line use (design 3). It returns plain objects.

Reading needs no running bot: prompts come from the files, figures from ``data.db``. Whatever acts for the agent goes
through its owner, in this process or another.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rightlab.errors import NotAvailable, RunError, UsageError
from rightlab.home import AgentHome, Home

if TYPE_CHECKING:
    import pandas

    from rightlab.content import RichContent
    from rightlab.prompt import Assembly
    from rightlab.prompt.inspect import Divergence, Lint
    from rightlab.runtime.costs import Costs
    from rightlab.runtime.crons import Crons
    from rightlab.runtime.dear_turns import DearTurns
    from rightlab.runtime.overview import Overview
    from rightlab.runtime.requests import Requests
    from rightlab.runtime.skills import Skills
    from rightlab.runtime.status import Status
    from rightlab.runtime.trend import Trend
    from rightlab.runtime.variants import Variant
    from rightlab.turn import CronTurn, Turn
    from rightlab.usage import Baseline, Engine, Verdict

__all__ = ["Lab", "deliver", "demo", "open", "result", "run_prompt", "silent"]


class Lab:
    """One agent. Cheap to make; nothing is started and no file is written until you ask for it."""

    def __init__(self, agent: AgentHome) -> None:
        self._agent = agent

    @property
    def name(self) -> str:
        return self._agent.name

    @property
    def home(self) -> Path:
        return self._agent.home.path

    @property
    def agent(self) -> AgentHome:
        """The agent's folder: paths, configuration, allowlist."""
        return self._agent

    def up(self, *, host: str = "this kernel") -> "Status":
        """Start the agent in this process; nothing happens when it is up here. Raises OwnedElsewhere and others."""
        from rightlab.runtime import host as hosting

        hosting.up(self._agent, host=host)
        return self.status()

    def down(self) -> "Status":
        """Stop the agent wherever it runs; nothing happens when it is down."""
        from rightlab.runtime import host as hosting

        hosting.down(self._agent)
        return self.status()

    def status(self) -> "Status":
        """Up or down, where, channels, sandbox, model, last turn, next cron."""
        from rightlab.runtime.status import read_status

        return read_status(self._agent)

    def ask(self, text: str, timeout: float | None = None) -> "Turn":
        """One turn in the notebook chat. ``timeout`` (seconds) bounds the wait, never the turn.

        Goes to the owner if there is one, else takes the lease for this one turn. A turn that failed comes back with
        ``status`` "failed" and the reason in ``error``.
        """
        from rightlab.runtime import host as hosting
        from rightlab.turn import Turn

        if not text.strip():
            raise UsageError("an empty message cannot be answered", fix="Write something to say.")
        return Turn.from_json(hosting.ask(self._agent, text, timeout=timeout))

    def prompt(self, mode: str = "normal", variant: "str | Variant | None" = None) -> "Assembly":
        """What the model is told in ``mode`` (normal, cron, bootstrap_question, bootstrap_final), from the files as
        they are now, with the edits of an open variant. Raises UsageError, PromptError."""
        from rightlab.runtime.prompts import assemble_now
        from rightlab.runtime.variants import find_variant

        chosen = None if variant is None else find_variant(self._agent, variant)
        return assemble_now(self._agent, mode, variant=chosen)

    def variant(self, name: str) -> "Variant":
        """Trial edits of the prompt under ``name``; the agent never sees them. Closes at the end of ``with``.

        The open variant of that name, else a new one.
        """
        from rightlab.runtime.variants import open_variant

        return open_variant(self._agent, name)

    def lint(self, mode: str = "normal", variant: "str | Variant | None" = None, **options: Any) -> "Lint":
        """What is worth changing in the prompt: volatile text ahead of stable, duplicates, bulk, secrets.

        Options (``budget`` and others): see :func:`rightlab.prompt.inspect.lint`.
        """
        from rightlab.runtime.prompts import lint_now
        from rightlab.runtime.variants import find_variant

        chosen = None if variant is None else find_variant(self._agent, variant)
        return lint_now(self._agent, mode, variant=chosen, **options)

    def requests(self, n: int = 200) -> "Requests":
        """The last ``n`` recorded model requests, oldest first: calibration, stability, what-if, divergence."""
        from rightlab.runtime.requests import read_requests

        return read_requests(self._agent, limit=n)

    def divergence(self, turn_a: Any = None, turn_b: Any = None) -> "Divergence":
        """Where the request of turn ``turn_b`` first differs from that of ``turn_a``, why, and what it cost.

        A turn by its number, its id or as ``ask`` returned it; the last two of a conversation without both.
        """
        from rightlab.runtime.requests import read_divergence

        return read_divergence(self._agent, turn_a, turn_b)

    def turns(self, days: int = 14) -> "pandas.DataFrame":
        """The ledger of the last ``days`` days, one row per invocation, newest first."""
        from rightlab.runtime.figures import ledger_frame

        return ledger_frame(self._agent, days=days)

    def costs(
        self,
        days: int = 14,
        by: str | Sequence[str] = "source",
        *,
        sources: str | Sequence[str] | None = None,
        tz: str | None = None,
    ) -> "Costs":
        """What the last ``days`` whole days and today cost, with percentiles.

        Grouped ``by`` one or several of source, model, day, chat and cron; ``sources`` keeps these sources only; days
        are days in ``tz`` (default: the agent's zone). Raises UsageError, StoreError.
        """
        from rightlab.runtime.costs import read_costs

        return read_costs(self._agent, days=days, by=by, sources=sources, tz=tz)

    def trend(
        self, days: int = 14, source: str | Sequence[str] | None = "interactive", *, tz: str | None = None
    ) -> "Trend":
        """Day by day: percentiles of one invocation, sums, days that stand out, cache shares; ``.ribbon()`` and
        ``.river()`` draw them. ``source`` None is all of them. Raises UsageError, StoreError."""
        from rightlab.runtime.trend import read_trend

        return read_trend(self._agent, days=days, source=source, tz=tz)

    def dearest(self, n: int = 5, days: int = 14) -> "DearTurns":
        """The ``n`` dearest invocations of the last ``days`` days, why each was dear, and the dearest sessions."""
        from rightlab.runtime.dear_turns import read_dear_turns

        return read_dear_turns(self._agent, n=n, days=days)

    def engine(self) -> "Engine":
        """For questions over the whole ledger, also a very long one: exact percentiles by any key, and your own SQL.

        Close it, or use it in a ``with``. Raises StoreError.
        """
        from rightlab.usage.engine import Engine

        return Engine(self._agent.db_path, self.home / "cache" / "usage" / self.name)

    def overview(self) -> "Overview":
        """What is under way, what failed, today's cost, what is undelivered, signals. Runs nothing."""
        from rightlab.runtime.overview import read_overview

        return read_overview(self._agent)

    @property
    def crons(self) -> "Crons":
        """The agent's scheduled notebooks and prompts."""
        from rightlab.runtime.crons import Crons

        return Crons(self._agent)

    def baseline(
        self,
        days: int = 14,
        source: str | Sequence[str] | None = "interactive",
        *,
        by: str | Sequence[str] | None = None,
        tz: str | None = None,
        **only: Any,
    ) -> "Baseline":
        """What one invocation usually costs: percentiles over the last ``days`` complete days, never today.

        ``source`` None is all of them; ``only`` further keeps a ``model``, ``chat``, ``job``, ``skill`` or ``prompt``
        (sha256 or its beginning); ``by`` splits it by one or several of source, model, chat, job, skill, prompt and
        day; days are days in ``tz`` (default: the agent's zone). Raises UsageError, StoreError.
        """
        from rightlab.runtime.baselines import read_baseline

        return read_baseline(self._agent, days=days, source=source, by=by, tz=tz, **only)

    def check_baseline(
        self, baseline: "str | os.PathLike[str] | Baseline" = "main", **options: Any
    ) -> "Verdict":
        """What ran since the saved ``baseline`` against it: cheaper, dearer or cannot tell.

        Options (``days``, ``store``): see :func:`rightlab.runtime.baselines.check_baseline`. Raises UsageError.
        """
        from rightlab.runtime.baselines import check_baseline

        return check_baseline(self._agent, baseline, **options)

    def experiment(self, variants: Any, cases: Any, repeats: int = 1) -> Any:
        raise NotAvailable("experiments")

    @property
    def skills(self) -> "Skills":
        """The skills in the agent's folder as they are now."""
        from rightlab.runtime.skills import read_skills

        return read_skills(self._agent)

    @property
    def curator(self) -> Any:
        raise NotAvailable("the curator")

    @property
    def memory(self) -> Any:
        raise NotAvailable("memory")

    @property
    def mcp(self) -> Any:
        raise NotAvailable("the MCP view")

    def logs(self, lines: int = 200) -> list[str]:
        """The last ``lines`` lines of the agent's log."""
        from rightlab.runtime.logs import tail

        return list(tail(self._agent, lines))

    def doctor(self) -> Any:
        """Check everything the agent needs; each finding says how to fix it."""
        from rightlab.runtime.doctor import examine

        return examine(self._agent)

    def __repr__(self) -> str:
        return f"<Lab {self.name!r} in {self.home}>"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return self.status()._repr_mimebundle_(include, exclude)


def open(agent: str | None = None, home: str | os.PathLike[str] | None = None) -> Lab:
    """The agent ``agent``; without a name the one ``rightlab lab NAME`` was started for, else the only one of the home.

    Raises UsageError naming what there is.
    """
    where = Home.resolve(home)
    where.check()
    if agent is None:
        names = where.agents()
        if (named := os.environ.get("RIGHTLAB_AGENT")) in names:
            names = [named]
        if len(names) != 1:
            known = ", ".join(names) if names else "none yet"
            raise UsageError(
                f"which agent? This home has: {known}",
                where=where.path,
                fix="Name one." if names else "Make one: rightlab init NAME, or try `rightlab demo`.",
            )
        agent = names[0]
    return Lab(where.agent(agent))


def demo(home: str | os.PathLike[str] | None = None) -> Lab:
    """The demo agent, made on first use: a scripted model, no account, no token."""
    from rightlab.runtime.demo import prepare_demo

    return Lab(prepare_demo(Home.resolve(home)).agent)


def result(name: str, value: Any) -> None:
    """Inside a cron notebook: give the run a named result (JSON-like, kept in the executed notebook)."""
    from rightlab.cron.outputs import result as emit

    emit(name, value)


def deliver(content: "RichContent | str | dict[str, Any]") -> None:
    """Inside a cron notebook: what is sent to the job's chat when the run has ended."""
    from rightlab.cron.outputs import deliver as emit

    emit(content)


def silent(reason: str) -> None:
    """Inside a cron notebook: nothing to report this time, and why."""
    from rightlab.cron.outputs import silent as emit

    emit(reason)


def run_prompt(
    prompt: str,
    *,
    agent: str,
    job: str,
    run_id: str,
    home: str | os.PathLike[str] | None = None,
    scheduled_at: str = "",
    model: str | None = None,
    budget_usd: float | None = None,
    extra_instruction: str | None = None,
    force_notify: bool = False,
) -> "CronTurn":
    """What the built-in prompt notebook calls: one model turn of a run, through the agent's owner.

    The chat the turn is for is the job's, as the owner has it. Raises RunError, TurnFailed, RightlabError (no owner).
    """
    from rightlab.runtime import host as hosting
    from rightlab.turn import CronTurn

    if not prompt.strip():
        raise RunError(f"the prompt of cron {job!r} is empty")
    answer = hosting.request(
        Home.resolve(home).agent(agent),
        "run_prompt",
        run_id=run_id,
        job=job,
        prompt=prompt,
        scheduled_at=scheduled_at,
        model=model,
        max_budget_usd=budget_usd,
        extra_instruction=extra_instruction,
        force_notify=force_notify,
    )
    return CronTurn.from_json(answer)


def agents(home: str | os.PathLike[str] | None = None) -> Iterator[Lab]:
    """Every agent of the home."""
    where = Home.resolve(home)
    where.check()
    for name in where.agents():
        yield Lab(where.agent(name))
