"""One run in one process: ``python -m rightlab.cron.runjob --run-dir DIR`` (jupyter 4.1).

The folder holds ``run.json`` (which run), ``input.ipynb`` (immutable, its SHA-256 in run.json) and
``params.json``. The process claims the run, executes the notebook while saving it to ``out.partial.ipynb``,
renames that to ``output.ipynb`` and writes ``status.json`` last: where there is no status.json, the run did not
end by itself.

SIGTERM cancels, SIGINT says that the deadline has passed; both interrupt the cell, save, and end. The deadline
of run.json is watched here too, so that a run whose owner is gone ends all the same.
"""

import argparse
import asyncio
import contextlib
import hashlib
import json
import os
import signal
import sys
import traceback
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rightlab.claude import redact_secrets
from rightlab.cron.claim import claim_run
from rightlab.errors import RightlabError, RunError, UsageError
from rightlab.home.processes import process_started
from rightlab.home.writers import atomic_write

__all__ = ["main", "settle"]

PARTIAL, FINAL, STATUS, KERNEL = "out.partial.ipynb", "output.ipynb", "status.json", "kernel.json"
CLAIMED_ELSEWHERE = 3
"""Exit status when another process has claimed the run."""


def main(argv: list[str] | None = None) -> int:
    """Execute the run; 0 for a success, 1 for any other end, 3 when the run is somebody else's."""
    parser = argparse.ArgumentParser(prog="python -m rightlab.cron.runjob", description="Execute one run.")
    parser.add_argument("--run-dir", type=Path, required=True)
    run_dir = parser.parse_args(argv).run_dir.resolve()
    # jsonschema imports a URI grammar (0.9 s) for a check that no notebook needs.
    sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]  # None forbids the import
    try:
        run = json.loads((run_dir / "run.json").read_bytes())
    except (OSError, ValueError) as error:
        print(f"{run_dir}: no run.json to execute: {error}", file=sys.stderr)
        return 2
    if not claim_run(run_dir, "runjob"):
        print(f"{run_dir}: claimed by another process", file=sys.stderr)
        return CLAIMED_ELSEWHERE
    try:
        return asyncio.run(_execute(run_dir, run))
    except RightlabError as error:
        reason = redact_secrets(str(error))
        print(reason, file=sys.stderr)
    except Exception as error:
        print(redact_secrets(traceback.format_exc()), end="", file=sys.stderr)
        reason = f"the run broke: {type(error).__name__}: {error}"
    _finish(run_dir, run, {"status": "failed", "failure": "infrastructure", "reason": reason})
    return 1


async def _execute(run_dir: Path, run: dict[str, Any]) -> int:
    from rightlab.cron.execution import Execution

    raw = (run_dir / "input.ipynb").read_bytes()
    if hashlib.sha256(raw).hexdigest() != run.get("input_sha256"):
        raise RunError("input.ipynb is not the notebook that was scheduled", where=run_dir)
    try:
        nb = _Notebook.parse(raw)
    except ValueError as error:
        reason = f"the notebook cannot be read: {error}"
        _finish(run_dir, run, {"status": "failed", "failure": "blocked", "reason": reason})
        return 1
    execution = Execution(
        nb.node,
        kernel_name=run.get("kernel") or nb.kernel,
        own_python=True,
        run={name: run.get(name) for name in ("run_id", "job", "slot", "attempt", "origin", "input_sha256")},
        write=lambda data: atomic_write(run_dir / PARTIAL, data, mode=0o600),
        cwd=run.get("cwd") or str(run_dir),
        start_timeout=float(run.get("start_timeout", 60)),
        grace=float(run.get("grace_seconds", 10)),
        on_kernel=lambda kernel: _note_kernel(run_dir, kernel),
        prepare=lambda: nb.prepare(json.loads((run_dir / "params.json").read_bytes())),
    )
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, execution.stop, "cancelled", "cancelled")
    overdue = f"it took longer than its deadline of {float(run['deadline_seconds']):g} s"
    loop.add_signal_handler(signal.SIGINT, execution.stop, "timeout", overdue)
    left = datetime.fromisoformat(run["deadline_at"]) - datetime.now(UTC)
    loop.call_later(max(0.0, left.total_seconds()), execution.stop, "timeout", overdue)
    outcome = await execution.run()
    os.replace(run_dir / PARTIAL, run_dir / FINAL)
    end = {
        "status": outcome.status,
        "failure": outcome.failure,
        "reason": outcome.reason,
        "failed_cell": outcome.failed_cell,
    }
    _finish(run_dir, run, end, nb.node)
    return 0 if outcome.status == "success" else 1


class _Notebook:
    """A notebook read with the plain JSON parser first, so that its kernel can start at once."""

    def __init__(self, node: dict[str, Any]) -> None:
        self.node: Any = node
        self.kernel = str((node["metadata"].get("kernelspec") or {}).get("name") or "python3")

    @classmethod
    def parse(cls, raw: bytes) -> "_Notebook":
        plain = json.loads(raw)
        if not isinstance(plain, dict) or not isinstance(plain.get("metadata", {}), dict):
            raise ValueError("it is no notebook")
        if plain.get("nbformat") != 4 or not isinstance(plain.get("cells"), list):
            import nbformat

            try:
                plain = nbformat.reads(raw.decode(), as_version=4)
            except Exception as error:
                raise ValueError(" ".join(str(error).split())[:200]) from None
        plain.setdefault("metadata", {})
        for number, cell in enumerate(plain["cells"], 1):
            if not isinstance(cell, dict) or cell.get("cell_type") not in ("code", "markdown", "raw"):
                raise ValueError(f"cell {number} is no cell")
            if not isinstance(cell.setdefault("metadata", {}), dict) or "source" not in cell:
                raise ValueError(f"cell {number} has no source or no metadata")
        return cls(plain)

    def prepare(self, given: dict[str, Any]) -> Any:
        """As a NotebookNode with its parameters; called while the kernel boots."""
        import nbformat

        from rightlab.cron.parameters import declared_names, inject

        try:
            node = nbformat.reads(json.dumps(self.node), as_version=4)
            node = nbformat.v4.upgrade(node) or node
        except Exception as error:
            raise UsageError(f"the notebook cannot be read: {error}") from None
        declared = declared_names(node)
        offered = {name: value for name, value in given["offered"].items() if name in declared}
        inject(node, {**offered, **given["parameters"]})
        self.node = node
        return node


def _note_kernel(run_dir: Path, kernel: Any) -> None:
    facts = {"pid": kernel.pid, "started": process_started(kernel.pid), "sockets": str(kernel.socket_dir)}
    atomic_write(run_dir / KERNEL, json.dumps(facts) + "\n", mode=0o600)


def _finish(run_dir: Path, run: dict[str, Any], end: dict[str, Any], nb: Any = None) -> None:
    from rightlab.cron.outputs import read_outputs

    said = read_outputs(nb or {})
    notes = said.results
    reason = end.get("reason")
    status = {
        "run_id": run.get("run_id"),
        "failed_cell": None,
        **end,
        # Also as plain text: in JSON an escape can stand where a credential begins.
        "reason": None if reason is None else redact_secrets(reason),
        "ended_at": datetime.now(UTC).isoformat(),
        "results": dict(said.results),
        "deliver": said.deliver,
        "silent": said.silent,
        "run_note": notes.get("run_note") if isinstance(notes.get("run_note"), str) else None,
        "num_turns": _number(notes.get("num_turns")),
        "cost_usd": _number(notes.get("cost_usd")),
    }
    # The owner shows the reason in chats and in logs, and keeps it in the database.
    text = redact_secrets(json.dumps(status, ensure_ascii=True))
    atomic_write(run_dir / STATUS, text + "\n", mode=0o600)


def _number(value: Any) -> float | int | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def settle(run_dir: Path, status: str, reason: str, failure: str | None) -> None:
    """Make the notebook of a run that was cut off true: nothing in it stays running, and it says why.

    Called by whoever found the run dead. Does nothing when the run left no notebook or a finished one.
    """
    from rightlab.cron.notebook_state import NotebookState

    partial = run_dir / PARTIAL
    with contextlib.suppress(FileNotFoundError, ValueError):
        if not (run_dir / FINAL).exists():
            nb = json.loads(partial.read_bytes())
            NotebookState(nb, {}).finish(status, reason=reason, failure=failure)
            atomic_write(run_dir / FINAL, json.dumps(nb, indent=1, ensure_ascii=True) + "\n", mode=0o600)
            partial.unlink()


if __name__ == "__main__":
    sys.exit(main())
