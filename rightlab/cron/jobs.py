"""``JobStore``: what is scheduled, what is due and what ran, as rows (spec agent-runtime 5.1, 5.4)."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

from rightlab.clock import Clock, iso, parse_iso
from rightlab.cron.runs import Run, Slot
from rightlab.cron.schedule import next_fires, parse_schedule, zone
from rightlab.errors import ScheduleError, UsageError
from rightlab.store import Row, Store, Tx

__all__ = ["DEFAULT_BUDGET_USD", "Job", "JobStore", "peak_minute_warning"]

DEFAULT_BUDGET_USD = 5.0
"""The budget of one run unless the job names another (spec agent-runtime D7)."""

Catchup = Literal["none", "latest", "all"]
Overlap = Literal["skip", "queue", "replace", "allow"]

_NAME = re.compile(r"[a-z0-9][a-z0-9-]*")
_TTL = re.compile(r"[1-9]\d*[mh]")
_PEAK_FROM = datetime(2030, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Job:
    """One cron spec. Times are aware and UTC; ``next_slot`` is the first instant not decided on yet."""

    name: str
    kind: Literal["prompt", "notebook"]
    schedule: str
    timezone: str
    recurring: bool
    run_at: datetime | None
    prompt: str
    notebook: str | None
    parameters: Mapping[str, Any]
    model: str | None
    max_budget_usd: float
    lock_ttl: str
    deadline_seconds: float
    catchup: Catchup
    catchup_max: int
    catchup_lateness_seconds: float | None
    overlap: Overlap
    retries: int
    enabled: bool
    target_chat_id: int | None
    target_thread_id: int
    created_by: str
    next_slot: datetime | None
    last_slot: datetime | None
    triggered_at: datetime | None
    created_at: datetime
    updated_at: datetime

    @classmethod
    def from_row(cls, row: Row) -> "Job":
        columns = dict(row)
        values = {name: columns[name] for name in columns if name in cls.__dataclass_fields__}
        values["name"] = row["job_name"]
        values["parameters"] = json.loads(row["parameters_json"])
        for name in ("recurring", "enabled"):
            values[name] = bool(row[name])
        for name in ("run_at", "next_slot", "last_slot", "triggered_at", "created_at", "updated_at"):
            values[name] = parse_iso(row[name]) if row[name] else None
        return cls(**values)

    def fires(self, start: datetime, n: int = 5) -> list[datetime]:
        """The next ``n`` scheduled instants after ``start``, in the job's zone (with offsets)."""
        if not self.schedule:
            return (
                [self.run_at.astimezone(zone(self.timezone))] if self.run_at and self.run_at > start else []
            )
        return next_fires(self.schedule, self.timezone, start, n if self.recurring else min(n, 1))

    def first_slot(self, after: datetime) -> datetime | None:
        """The first slot after ``after`` (aware), as UTC; a run-at job has only the one."""
        if not self.schedule:
            return self.run_at
        return next_fires(self.schedule, self.timezone, after, 1)[0].astimezone(UTC)


class JobStore:
    """The crons of one agent. Any process may add, trigger and read; only the owner's scheduler decides.

    ``guest_dir`` is the agent's own folder: a notebook in it is refused, since a notebook runs on the host as
    the person who owns the lab (design 9).
    """

    def __init__(self, store: Store, clock: Clock, *, guest_dir: Path | None = None) -> None:
        self.store = store
        self.clock = clock
        self.guest_dir = guest_dir

    def add(
        self,
        name: str,
        *,
        schedule: str | None = None,
        run_at: datetime | None = None,
        prompt: str | None = None,
        notebook: str | Path | None = None,
        timezone: str = "UTC",
        recurring: bool | None = None,
        parameters: Mapping[str, Any] | None = None,
        model: str | None = None,
        max_budget_usd: float = DEFAULT_BUDGET_USD,
        target_chat_id: int | None = None,
        target_thread_id: int = 0,
        lock_ttl: str = "30m",
        deadline_seconds: float = 1800.0,
        catchup: Catchup = "latest",
        catchup_max: int = 10,
        catchup_lateness_seconds: float | None = None,
        overlap: Overlap = "skip",
        retries: int = 1,
        enabled: bool = True,
        created_by: Literal["person", "agent"] = "person",
    ) -> Job:
        """Store a new job and return it.

        Exactly one of ``schedule`` and ``run_at``, exactly one of ``prompt`` and ``notebook`` (a path). Raises
        :class:`ScheduleError` for a bad expression or zone and :class:`UsageError` for anything else.
        """
        now = self.clock.now()
        values = {
            "schedule": schedule or "",
            "run_at": run_at,
            "prompt": prompt or "",
            "notebook": None if notebook is None else str(Path(notebook).expanduser().resolve()),
            "timezone": timezone,
            "recurring": (schedule is not None) if recurring is None else recurring,
            "parameters": dict(parameters or {}),
            "model": model,
            "max_budget_usd": float(max_budget_usd),
            "target_chat_id": target_chat_id,
            "target_thread_id": target_thread_id,
            "lock_ttl": lock_ttl,
            "deadline_seconds": float(deadline_seconds),
            "catchup": catchup,
            "catchup_max": catchup_max,
            "catchup_lateness_seconds": catchup_lateness_seconds,
            "overlap": overlap,
            "retries": retries,
            "enabled": enabled,
            "created_by": created_by,
        }
        job = Job(
            name=name,
            kind="notebook" if notebook is not None else "prompt",
            next_slot=None,
            last_slot=None,
            triggered_at=None,
            created_at=now,
            updated_at=now,
            **values,  # type: ignore[arg-type]  # the table above is the one list of fields
        )
        self._check(job)
        columns = _columns(job, job.first_slot(now))

        def work(tx: Tx) -> None:
            if tx.row("SELECT 1 FROM cron_specs WHERE job_name = ?", name):
                raise UsageError(
                    f"there is a cron named {name!r} already", fix="Choose another name, or remove it first."
                )
            marks = ", ".join("?" for _ in columns)
            tx.run(f"INSERT INTO cron_specs ({', '.join(columns)}) VALUES ({marks})", *columns.values())

        self.store.transact(work)
        return self.get(name)

    def update(self, name: str, **changes: Any) -> Job:
        """Change fields of a job. Setting ``schedule`` clears ``run_at`` and the other way round.

        What was due and not decided on stays due: the next slot is recomputed from the last decided one, never
        from now (pain OC#10021). No change at all is a :class:`UsageError`.
        """
        known = set(Job.__dataclass_fields__) - {
            "name", "kind", "next_slot", "last_slot", "triggered_at", "created_at", "updated_at", "created_by",
        }  # fmt: skip
        unknown = set(changes) - known
        if unknown or not changes:
            what = f"unknown field {sorted(unknown)[0]!r}" if unknown else "nothing to change"
            raise UsageError(f"cron {name!r}: {what}", fix=f"Fields: {', '.join(sorted(known))}.")
        if changes.get("schedule") and changes.get("run_at"):
            raise ScheduleError("a cron has a schedule or a run-at time, not both")
        if changes.get("schedule"):
            changes = {"recurring": True, **changes, "run_at": None}
        elif changes.get("run_at"):
            changes = {**changes, "schedule": "", "recurring": False}
        if changes.get("notebook"):
            changes["notebook"] = str(Path(changes["notebook"]).expanduser().resolve())
        now = self.clock.now()

        def work(tx: Tx) -> None:
            row = tx.row("SELECT * FROM cron_specs WHERE job_name = ?", name)
            if row is None:
                raise self._missing(name)
            before = Job.from_row(row)
            job = Job(**{**_fields(before), **changes, "updated_at": now})
            self._check(job)
            next_slot = before.next_slot
            if {"schedule", "run_at", "timezone"} & set(changes):
                next_slot = job.first_slot(before.last_slot or before.created_at)
            columns = _columns(job, next_slot)
            names = ", ".join(f"{column} = ?" for column in columns)
            tx.run(f"UPDATE cron_specs SET {names} WHERE job_name = ?", *columns.values(), name)

        self.store.transact(work)
        return self.get(name)

    def get(self, name: str) -> Job:
        """The job, or a :class:`UsageError` that lists those there are."""
        row = self.store.row("SELECT * FROM cron_specs WHERE job_name = ?", name)
        if row is None:
            raise self._missing(name)
        return Job.from_row(row)

    def list(self) -> list[Job]:
        """All jobs, by name."""
        return [Job.from_row(row) for row in self.store.rows("SELECT * FROM cron_specs ORDER BY job_name")]

    def remove(self, name: str) -> None:
        """Delete a job. What waited is marked skipped; a run that is going on ends by itself; history stays."""
        now = iso(self.clock.now())

        def work(tx: Tx) -> None:
            if not tx.run("DELETE FROM cron_specs WHERE job_name = ?", name).rowcount:
                raise self._missing(name)
            tx.run(
                "UPDATE cron_slots SET status = 'skipped', reason = 'the cron was removed', updated_at = ?"
                " WHERE job_name = ? AND status = 'due'",
                now,
                name,
            )

        self.store.transact(work)

    def trigger(
        self,
        name: str,
        *,
        notify: bool = False,
        extra_instruction: str | None = None,
        then: Mapping[str, Any] | None = None,
        parameters: Mapping[str, Any] | None = None,
        origin_chat_id: int | None = None,
        origin_thread_id: int | None = None,
    ) -> Slot:
        """Ask for one run now. The row is committed before this returns, and no lock can lose it.

        With ``notify`` a run that stays silent is reported all the same (spec agent-runtime 5.4).
        """
        now = self.clock.now()
        then_json = None if then is None else json.dumps(dict(then))
        extra = (extra_instruction or "").strip() or None

        def work(tx: Tx) -> int:
            if not tx.row("SELECT 1 FROM cron_specs WHERE job_name = ?", name):
                raise self._missing(name)
            moment = now
            while tx.row("SELECT 1 FROM cron_slots WHERE job_name = ? AND slot = ?", name, iso(moment)):
                moment += timedelta(microseconds=1)
            tx.run(
                "UPDATE cron_specs SET triggered_at = ?, trigger_force_notify = ?,"
                " trigger_extra_instruction = ?, trigger_then_json = ?, trigger_origin_chat_id = ?,"
                " trigger_origin_thread_id = ? WHERE job_name = ?",
                *(iso(moment), int(notify), extra, then_json, origin_chat_id, origin_thread_id, name),
            )
            return tx.run(
                "INSERT INTO cron_slots (job_name, slot, attempt, origin, status, force_notify,"
                " extra_instruction, then_json, parameters_json, origin_chat_id, origin_thread_id,"
                " created_at, updated_at) VALUES (?, ?, 1, 'manual', 'due', ?, ?, ?, ?, ?, ?, ?, ?)",
                *(name, iso(moment), int(notify), extra, then_json),
                None if parameters is None else json.dumps(dict(parameters)),
                *(origin_chat_id, origin_thread_id, iso(now), iso(now)),
            ).lastrowid

        slot_id = self.store.transact(work)
        row = self.store.row("SELECT * FROM cron_slots WHERE id = ?", slot_id)
        assert row is not None
        return Slot.from_row(row)

    def slots(self, name: str | None = None, limit: int = 200) -> Sequence[Slot]:
        """Decided and waiting slots, newest first."""
        where, params = ("WHERE job_name = ?", (name,)) if name else ("", ())
        sql = f"SELECT * FROM cron_slots {where} ORDER BY slot DESC, attempt DESC, id DESC LIMIT ?"
        return [Slot.from_row(row) for row in self.store.rows(sql, *params, limit)]

    def runs(self, name: str | None = None, limit: int = 100) -> Sequence[Run]:
        """Cron runs, newest first; of one job when ``name`` is given (also of one that was removed)."""
        where, params = ("AND producer_ref = ?", (name,)) if name else ("", ())
        sql = (
            f"SELECT * FROM async_runs WHERE kind = 'cron' {where} ORDER BY created_at DESC, id DESC LIMIT ?"
        )
        return [Run.from_row(row) for row in self.store.rows(sql, *params, limit)]

    def run(self, run_id: str) -> Run:
        """One run, or a :class:`UsageError`."""
        row = self.store.row("SELECT * FROM async_runs WHERE id = ?", run_id)
        if row is None:
            raise UsageError(f"no run {run_id!r}", fix="`rightlab cron runs AGENT` lists them.")
        return Run.from_row(row)

    def _missing(self, name: str) -> UsageError:
        names = [
            row["job_name"] for row in self.store.rows("SELECT job_name FROM cron_specs ORDER BY job_name")
        ]
        there = (
            f"There are: {', '.join(names)}."
            if names
            else "There are none; add one with `rightlab cron add`."
        )
        return UsageError(f"no cron named {name!r}", fix=there)

    def _check(self, job: Job) -> None:
        """Everything a spec must be (spec agent-runtime 5.1)."""
        if not _NAME.fullmatch(job.name) or len(job.name) > 64:
            raise UsageError(
                f"{job.name!r} is no cron name",
                fix="Use up to 64 lower-case letters, digits and hyphens, beginning with a letter or digit.",
            )
        if bool(job.schedule) == (job.run_at is not None):
            raise ScheduleError(f"cron {job.name!r} needs a schedule or a run-at time, exactly one of them")
        if job.schedule:
            parse_schedule(job.schedule, job.timezone)
        elif job.recurring:
            raise ScheduleError(f"cron {job.name!r} runs at one time, so it cannot be recurring")
        if job.run_at is not None and job.run_at.tzinfo is None:
            raise ScheduleError("the run-at time has no time zone", fix="Write it with an offset or Z.")
        zone(job.timezone)
        if (job.kind == "notebook") != (job.notebook is not None) or (job.kind == "notebook" and job.prompt):
            raise UsageError(f"cron {job.name!r} needs a prompt or a notebook, exactly one of them")
        if job.kind == "prompt" and not job.prompt.strip():
            raise UsageError(f"cron {job.name!r} has no prompt", fix="Say what the agent shall do.")
        if job.notebook is not None:
            self._check_notebook(job)
        if not job.max_budget_usd > 0 or job.max_budget_usd == float("inf"):
            raise UsageError("the budget of a run is a positive amount in USD")
        if not job.deadline_seconds > 0:
            raise UsageError("the deadline is a positive number of seconds")
        if not _TTL.fullmatch(job.lock_ttl):
            raise UsageError(f"{job.lock_ttl!r} is no lock time", fix="Write minutes or hours: 30m, 6h.")
        if job.catchup not in ("none", "latest", "all"):
            raise UsageError(f"catch-up {job.catchup!r} is unknown", fix="Use none, latest or all.")
        if job.overlap not in ("skip", "queue", "replace", "allow"):
            raise UsageError(f"overlap {job.overlap!r} is unknown", fix="Use skip, queue, replace or allow.")
        if job.retries < 0 or job.catchup_max < 1:
            raise UsageError("retries cannot be negative, and catch-up takes at least one slot")
        try:
            json.dumps(dict(job.parameters), allow_nan=False)
        except (TypeError, ValueError) as error:
            raise UsageError(f"a parameter is no JSON value: {error}") from None

    def _check_notebook(self, job: Job) -> None:
        path = Path(job.notebook or "")
        if job.created_by != "person":
            raise UsageError("an agent can schedule prompts only", fix="Add the notebook as the lab's owner.")
        if not path.is_file():
            raise UsageError("no such notebook", where=path, fix="Give the path of an .ipynb file.")
        if path.suffix != ".ipynb":
            raise UsageError("a notebook is an .ipynb file", where=path)
        if self.guest_dir is not None and path.is_relative_to(self.guest_dir.resolve()):
            raise UsageError(
                "a notebook runs on the host, so it cannot come from the agent's own folder",
                where=path,
                fix="Move it to a folder of yours.",
            )


def _fields(job: Job) -> dict[str, Any]:
    return {name: getattr(job, name) for name in Job.__dataclass_fields__}


def _columns(job: Job, next_slot: datetime | None) -> dict[str, Any]:
    values = _fields(job)
    values["job_name"] = values.pop("name")
    values["parameters_json"] = json.dumps(dict(values.pop("parameters")))
    values["next_slot"] = next_slot
    return {
        name: iso(value) if isinstance(value, datetime) else int(value) if isinstance(value, bool) else value
        for name, value in values.items()
    }


def peak_minute_warning(schedule: str, tz: str = "UTC") -> str | None:
    """A hint when a schedule lands on :00 or :30, where everybody's jobs land (spec agent-runtime 5.1)."""
    if not schedule:
        return None
    if any(fire.minute in (0, 30) for fire in next_fires(schedule, tz, _PEAK_FROM, 60)):
        return f"{schedule!r} runs on the hour or half hour, the busiest minutes; an offset such as 17 or 47 is kinder."
    return None
