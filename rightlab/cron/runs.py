"""Slots and runs as plain objects (spec agent-runtime 5.3, 10; design 9)."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from rightlab.clock import parse_iso
from rightlab.store import Row

__all__ = ["RETRYABLE", "Run", "Slot"]

RETRYABLE = frozenset({"lost", "timeout", "infrastructure"})
"""The failures after which a run is tried again by itself (spec agent-runtime D11)."""


@dataclass(frozen=True)
class Slot:
    """One scheduled or asked-for instant of a job and what was decided about it.

    ``status`` is due, running, done, skipped or missed; ``reason`` says why in words, None for the plain case
    of a slot that ran on time. ``origin`` is schedule, catchup, manual or retry.
    """

    id: int
    job: str
    slot: datetime
    attempt: int
    origin: str
    status: str
    reason: str | None
    run_id: str | None
    not_before: datetime | None
    force_notify: bool
    extra_instruction: str | None
    then: Mapping[str, Any] | None
    parameters: Mapping[str, Any] | None
    origin_chat_id: int | None
    origin_thread_id: int | None

    @classmethod
    def from_row(cls, row: Row) -> "Slot":
        return cls(
            id=row["id"],
            job=row["job_name"],
            slot=parse_iso(row["slot"]),
            attempt=row["attempt"],
            origin=row["origin"],
            status=row["status"],
            reason=row["reason"],
            run_id=row["run_id"],
            not_before=_time(row["not_before"]),
            force_notify=bool(row["force_notify"]),
            extra_instruction=row["extra_instruction"],
            then=_json(row["then_json"]),
            parameters=_json(row["parameters_json"]),
            origin_chat_id=row["origin_chat_id"],
            origin_thread_id=row["origin_thread_id"],
        )


@dataclass(frozen=True)
class Run:
    """One execution of a job.

    ``status`` is queued, running, success, failed, cancelled or lost. ``failure`` classes what went wrong
    (notebook, blocked, timeout, infrastructure, lost, cancelled; None on success), ``reason`` says it in one
    line. ``delivery_status`` is a second, independent status; it is ``delivered`` only with message ids.
    """

    id: str
    job: str
    slot_id: int | None
    slot: datetime | None
    attempt: int
    origin: str | None
    status: str
    failure: str | None
    reason: str | None
    target_chat_id: int
    target_thread_id: int
    run_dir: Path | None
    pid: int | None
    pid_started: str | None
    deadline_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    exit_code: int | None
    run_note: str | None
    results: Mapping[str, Any]
    delivery: Mapping[str, Any] | None
    num_turns: int | None
    cost_usd: float | None
    force_notify: bool
    delivery_required: bool
    delivery_status: str
    delivery_attempts: int
    message_ids: tuple[int, ...]
    delivered_at: datetime | None
    last_delivery_error: str | None
    created_at: datetime

    @classmethod
    def from_row(cls, row: Row) -> "Run":
        return cls(
            id=row["id"],
            job=row["producer_ref"],
            slot_id=row["slot_id"],
            slot=_time(row["slot"]),
            attempt=row["attempt"],
            origin=row["origin"],
            status=row["status"],
            failure=row["failure"],
            reason=row["reason"],
            target_chat_id=row["target_chat_id"],
            target_thread_id=row["target_thread_id"],
            run_dir=Path(row["run_dir"]) if row["run_dir"] else None,
            pid=row["pid"],
            pid_started=row["pid_started"],
            deadline_at=_time(row["deadline_at"]),
            started_at=_time(row["started_at"]),
            finished_at=_time(row["finished_at"]),
            exit_code=row["exit_code"],
            run_note=row["run_note"],
            results=_json(row["result_json"]) or {},
            delivery=_json(row["delivery_json"]),
            num_turns=row["num_turns"],
            cost_usd=row["cost_usd"],
            force_notify=bool(row["force_notify"]),
            delivery_required=bool(row["delivery_required"]),
            delivery_status=row["delivery_status"],
            delivery_attempts=row["delivery_attempts"],
            message_ids=tuple(json.loads(row["delivery_message_ids"] or "[]")),
            delivered_at=_time(row["delivered_at"]),
            last_delivery_error=row["last_delivery_error"],
            created_at=parse_iso(row["created_at"]),
        )

    @property
    def finished(self) -> bool:
        return self.status not in ("queued", "running")

    @property
    def notebook(self) -> Path | None:
        """The executed notebook: the final one once it is there, else the one being written."""
        if self.run_dir is None:
            return None
        final = self.run_dir / "output.ipynb"
        return final if final.is_file() else self.run_dir / "out.partial.ipynb"

    @property
    def duration_seconds(self) -> float | None:
        if self.started_at is None or self.finished_at is None:
            return None
        return (self.finished_at - self.started_at).total_seconds()


def _time(text: str | None) -> datetime | None:
    return parse_iso(text) if text else None


def _json(text: str | None) -> Any:
    return json.loads(text) if text else None
