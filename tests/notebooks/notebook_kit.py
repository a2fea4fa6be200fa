"""Small notebooks for the tests of this folder, and readers of what became of them."""

import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

ENV = {
    name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR", "VIRTUAL_ENV") if name in os.environ
} | {"PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])}


def write_notebook(path: Path, *cells: str, parameters: str | None = None, kernel: str = "python3") -> Path:
    """A notebook of code cells; one that begins with ``#:`` is markdown."""
    made = [new_markdown_cell(text[2:]) if text.startswith("#:") else new_code_cell(text) for text in cells]
    if parameters is not None:
        made.insert(0, new_code_cell(parameters, metadata={"tags": ["parameters"]}))
    nb = new_notebook(cells=made)
    nb.metadata["kernelspec"] = {"name": kernel, "display_name": kernel, "language": "python"}
    nbformat.write(nb, path)
    return path


def read(path: Path) -> Any:
    """Parse and validate: a torn notebook fails here."""
    nb = nbformat.read(path, as_version=4)
    nbformat.validate(nb)
    return nb


def statuses(nb: Any) -> list[str]:
    return [cell["metadata"]["papermill"]["status"] for cell in nb["cells"]]


def papermill(*args: str | Path, cwd: Path, **options: Any) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "papermill", "--engine", "rightlab", *map(str, args)]
    return subprocess.run(argv, cwd=cwd, env=ENV, capture_output=True, text=True, timeout=120, **options)


def run_folder(folder: Path, notebook: Path, *, deadline: float = 60.0, **facts: Any) -> Path:
    """A run folder as the scheduler makes it."""
    folder.mkdir(parents=True)
    raw = notebook.read_bytes()
    folder.joinpath("input.ipynb").write_bytes(raw)
    parameters = facts.pop("parameters", {})
    offered = {"agent": "alice", "job": "j", "run_id": "r1", "scheduled_at": "2026-06-01T11:00:00+02:00"}
    folder.joinpath("params.json").write_text(json.dumps({"offered": offered, "parameters": parameters}))
    run = {
        "run_id": "r1",
        "job": "j",
        "slot": "2026-06-01T09:00:00.000000Z",
        "attempt": 1,
        "origin": "schedule",
        "input_sha256": hashlib.sha256(raw).hexdigest(),
        "deadline_seconds": deadline,
        "deadline_at": (datetime.now(UTC) + timedelta(seconds=deadline)).isoformat(),
        **facts,
    }
    folder.joinpath("run.json").write_text(json.dumps(run))
    return folder


def start_run(folder: Path, **env: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "rightlab.cron.runjob", "--run-dir", str(folder)],
        env={**ENV, **env},
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def status_of(folder: Path) -> Any:
    return json.loads(folder.joinpath("status.json").read_text())


def wait_until(check: Callable[[], Any], seconds: float = 30.0) -> Any:
    """The first true answer of ``check``; an assertion error when there is none in time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = check()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError("it did not happen in time")


def gone(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state in ("Z", "X")
