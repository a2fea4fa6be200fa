"""The transitions of slots and runs, each one transaction (spec agent-runtime 5.2, 5.3, 5.5; design 9)."""

import asyncio
import json
import logging
import secrets
import socket
from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from rightlab.clock import Clock, iso, parse_iso
from rightlab.cron.jobs import Job
from rightlab.cron.plan import Plan, plan
from rightlab.cron.rundir import RunEnd, run_id_at
from rightlab.cron.runs import RETRYABLE, Run, Slot
from rightlab.errors import ScheduleError
from rightlab.store import Row, Store, Tx

__all__ = ["DELIVERY_ATTEMPTS", "RETRY_SECONDS", "RunRows"]

_log = logging.getLogger(__name__)
DELIVERY_ATTEMPTS = 3
RETRY_SECONDS = 5.0
"""The pause before a second attempt; doubled for each one after it."""

_INSERT_SLOT = (
    "INSERT OR IGNORE INTO cron_slots (job_name, slot, attempt, origin, status, reason, created_at, updated_at)"
    " VALUES (?, ?, 1, ?, ?, ?, ?, ?)"
)


class RunRows:
    """Rows of slots and runs for the owner's scheduler."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def plan_due(self) -> int:
        """Decide on every slot that became due; how many rows were written.

        A job's slots and its next slot change in the same transaction, so a slot is decided on once, whatever
        dies when.
        """
        now = self._clock.now()
        total = 0
        for row in self._store.rows(
            "SELECT * FROM cron_specs WHERE enabled AND next_slot IS NOT NULL AND next_slot <= ?", iso(now)
        ):
            try:
                # Off the loop: a minutely job that was away for months has many slots to count.
                decided = await asyncio.to_thread(plan, Job.from_row(row), now)
            except ScheduleError as error:  # one broken job must not hold up the others (pain H PR#7158)
                _log.error("crons: %s cannot be planned: %s", row["job_name"], error)
                continue
            if decided is not None:
                total += await self._store.atransact(partial(_apply, row=row, decided=decided, now=now))
        return total

    def next_wake(self) -> datetime | None:
        """The next instant at which something becomes due by itself."""
        value = self._store.value(
            "SELECT min(moment) FROM (SELECT min(next_slot) AS moment FROM cron_specs WHERE enabled"
            " UNION ALL SELECT min(not_before) FROM cron_slots WHERE status = 'due')"
        )
        return parse_iso(value) if value else None

    def due(self) -> list[Slot]:
        """Slots to start or to skip now, oldest first; what was asked for by hand before the rest."""
        rows = self._store.rows(
            "SELECT * FROM cron_slots WHERE status = 'due' AND (not_before IS NULL OR not_before <= ?)"
            " ORDER BY origin <> 'manual', slot, attempt, id",
            iso(self._clock.now()),
        )
        return [Slot.from_row(row) for row in rows]

    def job(self, name: str) -> Job | None:
        row = self._store.row("SELECT * FROM cron_specs WHERE job_name = ?", name)
        return None if row is None else Job.from_row(row)

    def unfinished(self, job: str | None = None) -> list[Run]:
        """Runs that have not ended (of one job), oldest first."""
        where, params = ("AND producer_ref = ?", (job,)) if job else ("", ())
        rows = self._store.rows(
            "SELECT * FROM async_runs WHERE kind = 'cron' AND status IN ('queued', 'running')"
            f" {where} ORDER BY created_at, id",
            *params,
        )
        return [Run.from_row(row) for row in rows]

    def run(self, run_id: str) -> Run:
        row = self._store.row("SELECT * FROM async_runs WHERE id = ?", run_id)
        assert row is not None, run_id
        return Run.from_row(row)

    async def skip(self, slot: Slot, reason: str) -> None:
        """Decide that a due slot does not run."""
        now = iso(self._clock.now())
        await self._store.atransact(
            lambda tx: tx.run(
                "UPDATE cron_slots SET status = 'skipped', reason = ?, updated_at = ?"
                " WHERE id = ? AND status = 'due'",
                reason,
                now,
                slot.id,
            )
        )

    async def claim(self, slot: Slot, job: Job, runs_dir: Path) -> Run | None:
        """Turn a due slot into a queued run, in one transaction; None when it is not due any more.

        The start is stamped here, not when the run ends (pain moadim-io#514).
        """
        now = self._clock.now()
        run_id = run_id_at(now, secrets.token_hex(4))
        run_dir = runs_dir / job.name / run_id
        chat = job.target_chat_id
        deadline = now + timedelta(seconds=job.deadline_seconds)

        def work(tx: Tx) -> bool:
            changed = tx.run(
                "UPDATE cron_slots SET status = 'running', run_id = ?, updated_at = ?"
                " WHERE id = ? AND status = 'due'",
                *(run_id, iso(now), slot.id),
            )
            if not changed.rowcount:
                return False
            tx.run(
                "INSERT INTO async_runs (id, kind, producer_ref, slot_id, slot, attempt, origin, target_chat_id,"
                " target_thread_id, status, run_dir, log_path, host, fence, heartbeat_at, deadline_at, started_at,"
                " force_notify, created_at, updated_at)"
                " VALUES (?, 'cron', ?, ?, ?, ?, ?, ?, ?, 'queued', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                *(run_id, job.name, slot.id, iso(slot.slot), slot.attempt, slot.origin),
                *(chat or 0, job.target_thread_id, str(run_dir), str(run_dir / "run.log")),
                *(socket.gethostname(), self._store.fence, iso(now), iso(deadline), iso(now)),
                *(int(slot.force_notify), iso(now), iso(now)),
            )
            return True

        return self.run(run_id) if await self._store.atransact(work) else None

    async def started(self, run_id: str, pid: int, pid_started: str | None) -> None:
        """The process of a run is up."""
        now = iso(self._clock.now())
        await self._store.atransact(
            lambda tx: tx.run(
                "UPDATE async_runs SET status = 'running', pid = ?, pid_started = ?, heartbeat_at = ?,"
                " updated_at = ? WHERE id = ? AND status IN ('queued', 'running')",
                *(pid, pid_started, now, now, run_id),
            )
        )

    async def heartbeat(self, run_ids: Iterable[str]) -> None:
        """Say that these runs are being watched."""
        now = iso(self._clock.now())
        rows = [(now, self._store.fence, run_id) for run_id in run_ids]
        await self._store.atransact(
            lambda tx: tx.run_many("UPDATE async_runs SET heartbeat_at = ?, fence = ? WHERE id = ?", rows)
        )

    async def finish(self, run: Run, end: RunEnd, job: Job | None) -> tuple[Run, bool]:
        """Write down how a run ended, and the next attempt when its failure is one to retry.

        Returns the run as it is now and whether there will be another attempt. What has to be delivered is part
        of the same transaction; it is only ever decided once.
        """
        now = self._clock.now()
        retry = job is not None and end.failure in RETRYABLE and run.attempt <= job.retries
        delivery, required = _delivery(run, end, retry)
        state = ("pending" if run.target_chat_id else "no_target") if required else "none"
        error = None if end.status == "success" else {"kind": _error_kind(end), "detail": end.reason}

        def work(tx: Tx) -> None:
            changed = tx.run(
                "UPDATE async_runs SET status = ?, failure = ?, reason = ?, exit_code = ?, run_note = ?,"
                " result_json = ?, delivery_json = ?, error_json = ?, num_turns = ?, cost_usd = ?,"
                " delivery_required = ?, delivery_status = ?, finished_at = ?, updated_at = ?"
                " WHERE id = ? AND status IN ('queued', 'running')",
                *(end.status, end.failure, end.reason, end.exit_code, end.run_note),
                json.dumps(end.results or {}),
                *(_dump(delivery), _dump(error), end.num_turns, end.cost_usd, int(required), state),
                *(iso(now), iso(now), run.id),
            )
            if not changed.rowcount:
                return
            tx.run(
                "UPDATE cron_slots SET status = 'done', updated_at = ? WHERE id = ?", iso(now), run.slot_id
            )
            if retry:
                pause = timedelta(seconds=RETRY_SECONDS * 2 ** (run.attempt - 1))
                tx.run(
                    "INSERT OR IGNORE INTO cron_slots (job_name, slot, attempt, origin, status, reason, not_before,"
                    " force_notify, extra_instruction, then_json, parameters_json, origin_chat_id,"
                    " origin_thread_id, created_at, updated_at) SELECT job_name, slot, attempt + 1, 'retry', 'due',"
                    " ?, ?, force_notify, extra_instruction, then_json, parameters_json, origin_chat_id,"
                    " origin_thread_id, ?, ? FROM cron_slots WHERE id = ?",
                    f"attempt {run.attempt} ended: {end.failure}",
                    *(iso(now + pause), iso(now), iso(now), run.slot_id),
                )
            elif job is not None and not job.recurring and run.origin != "manual":
                tx.run("DELETE FROM cron_specs WHERE job_name = ? AND NOT recurring", job.name)

        await self._store.atransact(work)
        return self.run(run.id), retry

    def undelivered(self) -> list[Run]:
        """Ended runs whose result still has to go out, oldest first."""
        rows = self._store.rows(
            "SELECT * FROM async_runs WHERE kind = 'cron' AND delivery_required"
            " AND delivery_status IN ('pending', 'retryable') ORDER BY finished_at, id"
        )
        return [Run.from_row(row) for row in rows]

    async def delivered(
        self, run: Run, status: str, message_ids: Iterable[int] = (), error: str | None = None
    ) -> Run:
        """Write down how a delivery went. ``delivered`` needs a message id (pain OC#14743)."""
        ids = list(message_ids)
        attempts = run.delivery_attempts + 1
        if status == "delivered" and not ids:
            status, error = "failed", error or "the channel confirmed no message"
        if status == "retryable" and attempts >= DELIVERY_ATTEMPTS:
            status = "failed"
        now = iso(self._clock.now())
        await self._store.atransact(
            lambda tx: tx.run(
                "UPDATE async_runs SET delivery_status = ?, delivery_attempts = ?, delivery_message_ids = ?,"
                " delivered_at = ?, last_delivery_error = ?, updated_at = ? WHERE id = ?",
                *(status, attempts, json.dumps(ids) if ids else None),
                *(now if status == "delivered" else None, error, now, run.id),
            )
        )
        return self.run(run.id)


def _apply(tx: Tx, row: Row, decided: Plan, now: datetime) -> int:
    """Write a plan down, unless the job was changed while it was made; the next tick sees to it then."""
    name, read = row["job_name"], (row["next_slot"], row["updated_at"], row["enabled"])
    found = tx.row("SELECT next_slot, updated_at, enabled FROM cron_specs WHERE job_name = ?", name)
    if found is None or tuple(found) != read:
        return 0
    rows = [(name, iso(d.slot), d.origin, d.status, d.reason, iso(now), iso(now)) for d in decided.decisions]
    tx.run_many(_INSERT_SLOT, rows)
    tx.run(
        "UPDATE cron_specs SET next_slot = ?, last_slot = ? WHERE job_name = ?",
        None if decided.next_slot is None else iso(decided.next_slot),
        iso(decided.last_slot),
        name,
    )
    return len(rows)


def _delivery(run: Run, end: RunEnd, retry: bool) -> tuple[dict[str, Any] | None, bool]:
    """The delivery (spec agent-runtime 2.5) and whether it has to go out."""
    if end.status == "success":
        if end.deliver is not None:
            return {"kind": "notify", "content": end.deliver}, True
        if run.force_notify:
            told = f" {end.silent}" if end.silent else ""
            return {
                "kind": "notify",
                "content": {"text": f"Verification run: nothing to report.{told}"},
            }, True
        return ({"kind": "silent", "reason": end.silent}, False) if end.silent else (None, False)
    if end.status == "cancelled" or retry:
        return None, False
    # A failure is always told; silence is only ever the run's own word (pain NB#2369).
    text = (
        f"✗ {run.job} {'was lost' if end.status == 'lost' else 'failed'}: {end.reason or 'no reason known'}"
    )
    return {"kind": "notify", "content": {"text": text}}, True


def _error_kind(end: RunEnd) -> str:
    return "cron_parse_failed" if end.failure == "schema" else "cron_failed"


def _dump(value: Any) -> str | None:
    return None if value is None else json.dumps(value)
