"""The folder of a run: ``runs/<job>/<run_id>/`` (jupyter 4.1(3))."""

import hashlib
import json
import os
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from rightlab.clock import iso
from rightlab.cron.jobs import Job
from rightlab.cron.runs import Run, Slot
from rightlab.cron.schedule import zone
from rightlab.errors import RunError
from rightlab.home.writers import atomic_write, make_dir

__all__ = ["PROMPT_NOTEBOOK", "RunEnd", "prepare_run", "read_end", "run_id_at"]

PROMPT_NOTEBOOK = Path(__file__).with_name("prompt_cron.ipynb")
"""The built-in notebook of prompt crons."""


@dataclass(frozen=True)
class RunEnd:
    """How a run ended, as its status.json says, or as was found out without one."""

    status: str
    failure: str | None = None
    reason: str | None = None
    exit_code: int | None = None
    results: dict[str, Any] | None = None
    deliver: dict[str, Any] | None = None
    silent: str | None = None
    run_note: str | None = None
    num_turns: int | None = None
    cost_usd: float | None = None


def prepare_run(
    run_dir: Path, run: Run, job: Job, slot: Slot, *, agent: str, home: Path, guest_dir: Path | None
) -> None:
    """Write input.ipynb (read-only), params.json and run.json.

    Raises:
        RunError: the notebook is gone, cannot be read, or lies in the agent's own folder by now.
    """
    source = PROMPT_NOTEBOOK if job.kind == "prompt" else Path(job.notebook or "")
    if job.kind == "notebook" and guest_dir is not None:
        resolved = source.resolve()
        if resolved.is_relative_to(guest_dir.resolve()):
            raise RunError("the notebook lies in the agent's own folder now", where=source)
    try:
        raw = source.read_bytes()
    except OSError as error:
        raise RunError(
            f"the notebook cannot be read: {os.strerror(error.errno or 0).lower()}",
            where=source,
            fix="Put it back, or remove the cron.",
        ) from None
    make_dir(run_dir)
    atomic_write(run_dir / "input.ipynb", raw, mode=0o400)
    scheduled_at = slot.slot.astimezone(zone(job.timezone)).isoformat()
    facts = {
        "agent": agent,
        "job": job.name,
        "run_id": run.id,
        "scheduled_at": scheduled_at,
        "attempt": run.attempt,
        "home": str(home),
    }
    parameters: dict[str, Any] = {**job.parameters, **(slot.parameters or {})}
    if job.kind == "prompt":
        parameters |= {
            **facts,
            "prompt": job.prompt,
            "model": job.model,
            "budget": job.max_budget_usd,
            "extra_instruction": slot.extra_instruction,
            "force_notify": slot.force_notify,
        }
    params = {"offered": facts, "parameters": parameters}
    atomic_write(run_dir / "params.json", json.dumps(params, indent=1) + "\n", mode=0o600)
    assert run.deadline_at is not None
    described = {
        "run_id": run.id,
        "job": job.name,
        "kind": job.kind,
        "agent": agent,
        "slot": iso(slot.slot),
        "scheduled_at": scheduled_at,
        "attempt": run.attempt,
        "origin": slot.origin,
        "cwd": str(source.parent) if job.kind == "notebook" else None,
        "source": str(source),
        "input_sha256": hashlib.sha256(raw).hexdigest(),
        "deadline_seconds": job.deadline_seconds,
        "deadline_at": run.deadline_at.isoformat(),
    }
    atomic_write(run_dir / "run.json", json.dumps(described, indent=1) + "\n", mode=0o600)


def read_end(run_dir: Path, run_id: str, exit_code: int | None) -> RunEnd | None:
    """What status.json says; None when the run wrote none."""
    try:
        said = json.loads((run_dir / "status.json").read_bytes())
    except (OSError, ValueError):
        return None
    if not isinstance(said, dict) or said.get("run_id") != run_id:
        return None
    turns = said.get("num_turns")
    return RunEnd(
        status=str(said.get("status")),
        failure=said.get("failure"),
        reason=said.get("reason"),
        exit_code=exit_code,
        results=said.get("results") or {},
        deliver=said.get("deliver"),
        silent=said.get("silent"),
        run_note=said.get("run_note"),
        num_turns=None if turns is None else int(turns),
        cost_usd=said.get("cost_usd"),
    )


def run_id_at(moment: datetime, salt: str) -> str:
    """A run id that sorts by time and is a good folder name."""
    return f"{moment.strftime('%Y%m%dT%H%M%S')}-{salt}"
