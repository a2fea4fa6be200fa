"""The one writer of status into a notebook: cells and the run itself (contract "In a notebook").

A cell is pending or running while a run goes on, and completed, failed, cancelled or not_run once it has ended,
however it ended. ``metadata.papermill`` keeps papermill's own keys for tools that read them.
"""

import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal

__all__ = ["FINAL", "NotebookState"]

CellStatus = Literal["pending", "running", "completed", "failed", "cancelled", "not_run"]
FINAL = frozenset({"completed", "failed", "cancelled", "not_run"})


class NotebookState:
    """Status of one execution, kept in the metadata of ``nb`` (a notebook of format 4, any mapping).

    ``run`` are the facts that name the run (run_id, job, slot, attempt, ...).
    """

    def __init__(self, nb: Any, run: Mapping[str, Any]) -> None:
        self.nb = nb
        self.run = dict(run)

    def begin(self) -> None:
        """Mark the run as running and every cell as pending."""
        now = _now()
        meta = self.nb["metadata"]
        pm = meta.setdefault("papermill", {})
        pm.update(start_time=now, end_time=None, duration=None, exception=None)
        meta["rightlab"] = {
            "run_id": None,
            "job": None,
            "slot": None,
            "attempt": 1,
            **self.run,
            "status": "running",
            "reason": None,
            "failed_cell": None,
            "started_at": now,
            "ended_at": None,
            "python": platform.python_version(),
        }
        for cell in self.nb["cells"]:
            cell.setdefault("metadata", {})["papermill"] = {
                "status": "pending",
                "exception": None,
                "start_time": None,
                "end_time": None,
                "duration": None,
            }
            if cell["cell_type"] == "code":
                cell["outputs"] = []
                cell["execution_count"] = None

    def start_cell(self, index: int) -> None:
        self._cell(index).update(status="running", start_time=_now())

    def end_cell(self, index: int, status: CellStatus) -> None:
        pm = self._cell(index)
        now = _now()
        pm.update(status=status, exception=status == "failed", end_time=now)
        if pm.get("start_time"):
            pm["duration"] = _seconds(pm["start_time"], now)

    def finish(
        self, status: str, *, reason: str | None = None, failed_cell: int | None = None, **facts: Any
    ) -> None:
        """End the run: no cell stays pending or running.

        A cell that still runs is cancelled when the run was, else failed; what never began is not_run.
        """
        now = _now()
        meta = self.nb["metadata"]
        for index, cell in enumerate(self.nb["cells"]):
            now_is = cell.setdefault("metadata", {}).setdefault("papermill", {}).get("status")
            if now_is == "running":
                self.end_cell(index, "cancelled" if status == "cancelled" else "failed")
                failed_cell = index if failed_cell is None else failed_cell
            elif now_is not in FINAL:
                cell["metadata"]["papermill"].update(status="not_run", exception=None)
        pm = meta.setdefault("papermill", {})
        pm.update(end_time=now, exception=status != "success")
        if pm.get("start_time"):
            pm["duration"] = _seconds(pm["start_time"], now)
        ours = meta.setdefault("rightlab", dict(self.run))
        ours.update(status=status, reason=reason, failed_cell=failed_cell, ended_at=now, **facts)

    def _cell(self, index: int) -> dict[str, Any]:
        pm: dict[str, Any] = self.nb["cells"][index]["metadata"]["papermill"]
        return pm


def _now() -> str:
    return datetime.now(UTC).isoformat()


def _seconds(start: str, end: str) -> float:
    return (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()
