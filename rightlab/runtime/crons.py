"""The crons of one agent as people see them: jobs, their next fires, and what ran (spec views, 05)."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rightlab.clock import SystemClock, iso, parse_iso
from rightlab.cron import explain
from rightlab.cron.jobs import Job, JobStore
from rightlab.cron.runs import Run
from rightlab.errors import RightlabError, RunError, ScheduleError, UsageError
from rightlab.home import AgentHome
from rightlab.html import (
    Column,
    Empty,
    Footer,
    Page,
    Pairs,
    Table,
    ago,
    duration,
    mimebundle,
    money,
    plural,
    when,
)
from rightlab.runtime import host
from rightlab.runtime.notebook import NOTEBOOK_CHAT
from rightlab.runtime.state import read_state
from rightlab.store import Role, Store

if TYPE_CHECKING:
    import pandas

__all__ = ["Crons", "JobView", "RunHistory", "explain_schedule"]


def explain_schedule(expr: str, tz: str, *, start: str | None = None, count: int = 5) -> dict[str, Any]:
    """The document of ``cron explain --json``. Raises ScheduleError."""
    moment = SystemClock().now()
    if start is not None:
        try:
            moment = parse_iso(start)
        except ValueError:
            raise ScheduleError(
                f"{start!r} is no ISO 8601 time", fix="Write it like 2026-11-30T09:00:00Z."
            ) from None
    return explain(expr, tz, start=moment, n=count)


@dataclass(frozen=True, slots=True)
class JobView:
    """One job with its schedule in words, its next fires (local, with offset) and its last run."""

    job: Job
    sentence: str
    fires: tuple[Mapping[str, str], ...]
    last: Run | None

    @property
    def next_local(self) -> str:
        if not self.fires:
            return "never"
        return f"{self.fires[0]['local']} ({self.job.timezone})"

    def to_json(self) -> dict[str, Any]:
        job = self.job
        return {
            "job_name": job.name,
            "kind": job.kind,
            "schedule": job.schedule,
            "timezone": job.timezone,
            "sentence": self.sentence,
            "next": [dict(fire) for fire in self.fires],
            "enabled": job.enabled,
            "prompt": job.prompt or None,
            "notebook": job.notebook,
            "model": job.model,
            "max_budget_usd": job.max_budget_usd,
            "catchup": job.catchup,
            "overlap": job.overlap,
            "retries": job.retries,
            "target_chat_id": job.target_chat_id,
            "target_thread_id": job.target_thread_id,
            "last_run": _run_json(self.last) if self.last is not None else None,
        }

    def page(self) -> Page:
        job = self.job
        facts = {
            "when": self.sentence,
            "next": ", ".join(fire["local"] for fire in self.fires) or "never",
            "zone": job.timezone,
            "runs": job.notebook or job.prompt,
            "to chat": _chat(job.target_chat_id),
            "budget a run": money(job.max_budget_usd),
            "missed slots": f"catch-up {job.catchup}",
            "still running": f"overlap {job.overlap}",
        }
        blocks = [Pairs(facts)]
        last = f"Last run {_outcome(self.last)}." if self.last is not None else "It has not run yet."
        return Page(f"cron {job.name}", last, *blocks)

    def text(self) -> str:
        return self.page().text()

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return mimebundle(self, self.page(), include, exclude)


@dataclass(frozen=True, slots=True)
class RunHistory:
    """Runs, newest first."""

    agent: str
    job: str | None
    rows: tuple[Run, ...]

    def to_json(self) -> dict[str, Any]:
        return {"agent": self.agent, "job": self.job, "runs": [_run_json(run) for run in self.rows]}

    def to_frame(self) -> "pandas.DataFrame":
        """One row per run (columns as in ``cron runs --json``)."""
        import pandas as pd

        return pd.DataFrame([_run_json(run) for run in self.rows])

    def page(self) -> Page:
        title = f"{self.agent} · runs" + (f" of {self.job}" if self.job else "")
        if not self.rows:
            fill = f"They appear when a job is due, or after: rightlab cron trigger {self.agent} NAME"
            return Page(title, empty=Empty("No run yet.", fill))
        good = sum(run.status == "success" for run in self.rows)
        ended = sum(run.finished for run in self.rows)
        said = f"{good} of {plural(ended, 'run')} went well."
        if ended < len(self.rows):
            said += f" {len(self.rows) - ended} under way."
        rows = [
            {
                "job": run.job,
                "slot": when(run.slot) if run.slot is not None else "asked for",
                "status": run.status if run.attempt == 1 else f"{run.status} (attempt {run.attempt})",
                "why": run.reason or run.run_note,
                "took": _took(run),
                "cost": run.cost_usd,
                "delivery": run.delivery_status,
                # Below the agent's folder: runs/<job>/<run>/output.ipynb.
                "notebook": "/".join(run.notebook.parts[-4:]) if run.notebook is not None else None,
            }
            for run in self.rows
        ]
        table = Table(
            rows,
            ["job", "slot", "status", "why", Column("took", align="right"), _COST, "delivery", "notebook"],
            caption="Runs, newest first",
        )
        return Page(title, said, table)

    def text(self) -> str:
        return self.page().text()

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return mimebundle(self, self.page(), include, exclude)


_COST = Column("cost", align="right", format=lambda value: "" if value is None else money(value))


class Crons:
    """``lab.crons``: add, look at, trigger and remove the jobs of an agent. Works with and without an owner."""

    def __init__(self, agent: AgentHome) -> None:
        self._agent = agent

    @property
    def nobody_runs_them(self) -> bool:
        """True while no process owns the agent, so that nothing fires."""
        return host.local(self._agent) is None and read_state(self._agent) is None

    def add(
        self,
        name: str,
        *,
        schedule: str,
        prompt: str | None = None,
        notebook: str | Path | None = None,
        tz: str | None = None,
        chat: int | None = None,
        thread: int = 0,
        **policies: Any,
    ) -> JobView:
        """Schedule a prompt or a notebook (a path). ``tz`` defaults to the agent's zone, ``chat`` to the notebook
        chat; ``policies`` are the further keywords of :meth:`rightlab.cron.JobStore.add`.

        Raises ScheduleError, UsageError (a name that is taken, a chat that is not allowed, no such notebook).
        """
        target = NOTEBOOK_CHAT if chat is None else chat
        allowlist = self._agent.allowlist()
        if not allowlist.trusts(target) and allowlist.group(target) is None:
            raise UsageError(
                f"chat {target} is not in the allowlist",
                fix=f"Allow it first: rightlab agent allow {self._agent.name} {target}",
            )
        with self._jobs("writer") as jobs:
            job = jobs.add(
                name,
                schedule=schedule,
                prompt=prompt,
                notebook=notebook,
                timezone=tz or self._agent.config().timezone,
                target_chat_id=target,
                target_thread_id=thread,
                **policies,
            )
        self._wake()
        return _view(job, None)

    def remove(self, name: str) -> None:
        """Delete a job; its past runs stay. Raises UsageError."""
        with self._jobs("writer") as jobs:
            jobs.remove(name)
        self._wake()

    def trigger(self, name: str, *, notify: bool = False) -> int:
        """Ask for a run now; the slot's number. It is stored before this returns. Raises UsageError."""
        with self._jobs("writer") as jobs:
            slot = jobs.trigger(name, notify=notify)
        self._wake()
        return slot.id

    def wait(self, slot_id: int, timeout: float = 120.0) -> dict[str, Any]:
        """Wait until the run of a slot has ended and its result is delivered (or cannot be); that run.

        Raises RunError when it takes longer than ``timeout`` seconds or was skipped.
        """
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            with self._jobs("reader") as jobs:
                row = jobs.store.row("SELECT status, reason, run_id FROM cron_slots WHERE id = ?", slot_id)
                if row is None or row["status"] in {"skipped", "missed"}:
                    raise RunError(f"the run did not start: {row['reason'] if row else 'no such slot'}")
                run = jobs.run(row["run_id"]) if row["run_id"] else None
            if run is not None and run.finished and run.delivery_status not in {"pending", "retryable"}:
                return _run_json(run)
            time.sleep(0.05)
        raise RunError(f"no result within {timeout:g} s; the run goes on", fix="See: rightlab cron runs")

    def names(self) -> list[str]:
        with self._jobs("reader") as jobs:
            return [job.name for job in jobs.list()]

    def job(self, name: str) -> JobView:
        """One job. Raises UsageError that lists those there are."""
        with self._jobs("reader") as jobs:
            return _view(jobs.get(name), _last(jobs, name))

    def jobs(self) -> list[JobView]:
        with self._jobs("reader") as jobs:
            return [_view(job, _last(jobs, job.name)) for job in jobs.list()]

    def runs(self, name: str | None = None, limit: int = 20) -> RunHistory:
        """Past and current runs, newest first; of one job, also of one that was removed."""
        with self._jobs("reader") as jobs:
            return RunHistory(self._agent.name, name, tuple(jobs.runs(name, limit)))

    def to_json(self) -> dict[str, Any]:
        return {"agent": self._agent.name, "jobs": [view.to_json() for view in self.jobs()]}

    def to_frame(self) -> "pandas.DataFrame":
        """One row per job (columns as in ``cron list --json``)."""
        import pandas as pd

        return pd.DataFrame([view.to_json() for view in self.jobs()])

    def page(self) -> Page:
        title = f"{self._agent.name} · crons"
        views = self.jobs()
        if not views:
            fill = (
                f"rightlab cron add {self._agent.name} NAME --schedule '17 9 * * *' --prompt 'What is new?'"
            )
            return Page(title, empty=Empty("No job yet.", fill))
        rows = [
            {
                "job": view.job.name,
                "kind": view.job.kind,
                "when": view.sentence,
                "next": view.next_local,
                "last": _outcome(view.last),
                "delivery": view.last.delivery_status if view.last is not None else "",
            }
            for view in views
        ]
        firing = [view for view in views if view.fires]
        first = min(firing, key=lambda view: view.fires[0]["utc"], default=None)
        said = f"{plural(len(views), 'job')}"
        if first is not None:
            said += f" · next: {first.job.name} at {first.next_local}"
        if self.nobody_runs_them:
            said += " · nobody runs them now"
        footer = Footer(more=(f"agent {self._agent.name}",))
        return Page(title, said, Table(rows, caption="Jobs"), footer=footer)

    def text(self) -> str:
        return self.page().text()

    def __repr__(self) -> str:
        return f"<Crons of {self._agent.name!r}>"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return mimebundle(self, self.page(), include, exclude)

    @contextmanager
    def _jobs(self, role: Role) -> Iterator[JobStore]:
        with Store.open(self._agent.db_path, role=role) as store:
            yield JobStore(store, SystemClock(), guest_dir=self._agent.guest_dir)

    def _wake(self) -> None:
        """Tell the owner, if there is one, to look now; it would see it within seconds anyway."""
        if self.nobody_runs_them:
            return
        try:
            host.request(self._agent, "wake", timeout=5)
        except (RightlabError, TimeoutError):
            return


def _view(job: Job, last: Run | None) -> JobView:
    now = SystemClock().now()
    sentence = explain(job.schedule, job.timezone, start=now, n=1)["sentence"] if job.schedule else "once"
    fires = tuple(
        {
            "utc": iso(fire),
            "local": f"{fire:%a %Y-%m-%d %H:%M} {fire.isoformat()[-6:]}",
            "offset": fire.isoformat()[-6:],
        }
        for fire in (job.fires(now, 3) if job.enabled else [])
    )
    return JobView(job, sentence, fires, last)


def _last(jobs: JobStore, name: str) -> Run | None:
    found = jobs.runs(name, 1)
    return found[0] if found else None


def _took(run: Run) -> str:
    seconds = run.duration_seconds
    return "" if seconds is None else duration(seconds * 1000)


def _outcome(run: Run | None) -> str:
    if run is None:
        return "never ran"
    moment: datetime = run.finished_at or run.started_at or run.created_at
    return f"{run.status} {ago(moment, SystemClock().now())}"


def _chat(chat_id: int | None) -> str:
    return "the notebook chat" if chat_id == NOTEBOOK_CHAT else str(chat_id)


def _run_json(run: Run) -> dict[str, Any]:
    def moment(value: datetime | None) -> str | None:
        return None if value is None else iso(value)

    return {
        "run_id": run.id,
        "job": run.job,
        "slot": moment(run.slot),
        "attempt": run.attempt,
        "origin": run.origin,
        "status": run.status,
        "failure": run.failure,
        "reason": run.reason,
        "started_at": moment(run.started_at),
        "finished_at": moment(run.finished_at),
        "run_note": run.run_note,
        "results": dict(run.results),
        "num_turns": run.num_turns,
        "cost_usd": run.cost_usd,
        "delivery": run.delivery,
        "delivery_status": run.delivery_status,
        "message_ids": list(run.message_ids),
        "notebook": str(run.notebook) if run.notebook is not None else None,
    }
