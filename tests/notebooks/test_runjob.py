"""One run in one process: claim, results, cancellation, deadline, kills."""

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from notebook_kit import gone, read, run_folder, start_run, status_of, statuses, wait_until, write_notebook

from rightlab.cron.claim import read_claim

pytestmark = pytest.mark.kernel


def finished(folder: Path, **env: str) -> tuple[int, str]:
    process = start_run(folder, **env)
    said, _ = process.communicate(timeout=90)
    return process.returncode, said


def kernel_of(folder: Path) -> Any:
    return json.loads(
        wait_until(lambda: (folder / "kernel.json").exists() and (folder / "kernel.json").read_text())
    )


def test_a_run_leaves_its_results_and_a_true_notebook(tmp_path: Path) -> None:
    notebook = write_notebook(
        tmp_path / "n.ipynb",
        "from rightlab.cron import deliver, result, silent",
        "result('rows', n * 2); result('cost_usd', 0.5); result('rows', n * 3); result('run_note', 'ok')",
        "silent('nothing'); deliver(f'{n} rows for {job}'); deliver({'text': 'second'})",
        "import os; result('env', sorted(name for name in os.environ if 'SECRET' in name)); result('at', when)",
        parameters="n = 1\njob = ''\nwhen = scheduled_at = None",
    )
    folder = run_folder(tmp_path / "run", notebook, parameters={"n": 7, "when": [None, True, {"a": 1.5}]})
    code, said = finished(folder)
    assert (code, said) == (0, "")
    status = status_of(folder)
    assert (status["status"], status["failure"], status["silent"]) == ("success", None, None)
    assert status["results"]["rows"] == 21
    assert status["results"]["env"] == []
    assert status["results"]["at"] == [None, True, {"a": 1.5}]
    assert (status["cost_usd"], status["run_note"]) == (0.5, "ok")
    assert status["deliver"] == {"text": "7 rows for j\n\nsecond"}
    nb = read(folder / "output.ipynb")
    assert set(statuses(nb)) == {"completed"}
    ours = nb.metadata.rightlab
    assert (ours.run_id, ours.job, ours.slot, ours.attempt) == ("r1", "j", "2026-06-01T09:00:00.000000Z", 1)
    assert nb.metadata.papermill.parameters["n"] == 7
    assert nb.cells[1].metadata.tags == ["injected-parameters"]
    assert "attempt" not in nb.cells[1].source
    assert not (folder / "out.partial.ipynb").exists()


def test_errors_of_the_outputs_are_clear(tmp_path: Path) -> None:
    notebook = write_notebook(
        tmp_path / "n.ipynb",
        "import math\nfrom rightlab.cron import deliver, result, silent\nfrom rightlab.errors import RightlabError\n"
        "def fails(act, *args):\n"
        "    try:\n        act(*args)\n    except RightlabError as error:\n        print(error)\n"
        "fails(result, 'x', object()); fails(result, 'x', math.nan); fails(result, '', 1)\n"
        "fails(result, 'x', 'a' * 300_000); fails(silent, ' '); fails(deliver, {'blox': []})",
    )
    folder = run_folder(tmp_path / "run", notebook)
    assert finished(folder)[0] == 0
    lines = read(folder / "output.ipynb").cells[0].outputs[0].text.splitlines()
    assert len(lines) == 6
    assert "no JSON value" in lines[0]
    assert "262,144" in lines[3]
    assert status_of(folder)["results"] == {}


def test_a_run_is_executed_by_one_process_only(tmp_path: Path) -> None:
    """Two processes for one run, as a scheduler and its successor may start: one side effect."""
    notebook = write_notebook(
        tmp_path / "n.ipynb",
        f"open({str(tmp_path / 'effects')!r}, 'a').write('once\\n')",
        "import time; time.sleep(1)",
    )
    folder = run_folder(tmp_path / "run", notebook)
    processes = [start_run(folder) for _ in range(3)]
    codes = sorted(process.wait(60) for process in processes)
    assert codes == [0, 3, 3]
    assert (tmp_path / "effects").read_text() == "once\n"
    claim = read_claim(folder)
    assert claim is not None
    assert claim["pid"] in [process.pid for process in processes]
    assert finished(folder)[0] == 3


@pytest.mark.parametrize(
    ("number", "cell", "status", "failure"),
    [
        (signal.SIGTERM, "cancelled", "cancelled", "cancelled"),
        (signal.SIGINT, "failed", "failed", "timeout"),
    ],
)
def test_signals_end_a_run_gently(
    tmp_path: Path, number: signal.Signals, cell: str, status: str, failure: str
) -> None:
    notebook = write_notebook(
        tmp_path / "n.ipynb",
        "print('a')",
        "import time\nprint('in', flush=True)\ntime.sleep(60)",
        "print('c')",
    )
    folder = run_folder(tmp_path / "run", notebook)
    process = start_run(folder)
    partial = folder / "out.partial.ipynb"
    # The trailing save: what a long cell has printed so far is on disk while it runs.
    wait_until(lambda: partial.exists() and '"in\\n"' in partial.read_text())
    process.send_signal(number)
    assert process.wait(30) == 1
    nb = read(folder / "output.ipynb")
    assert statuses(nb) == ["completed", cell, "not_run"]
    assert nb.cells[1].outputs[0].text == "in\n"
    assert (status_of(folder)["status"], status_of(folder)["failure"]) == (status, failure)
    assert gone(kernel_of(folder)["pid"])


def test_the_deadline_holds_without_an_owner_and_against_a_stubborn_cell(tmp_path: Path) -> None:
    notebook = write_notebook(
        tmp_path / "n.ipynb",
        "import time\nwhile True:\n    try:\n        time.sleep(60)\n    except KeyboardInterrupt:\n        pass",
        "print('never')",
    )
    folder = run_folder(tmp_path / "run", notebook, deadline=4.0, grace_seconds=1)
    began = time.monotonic()
    assert finished(folder)[0] == 1
    assert time.monotonic() - began < 25
    status = status_of(folder)
    assert (status["status"], status["failure"]) == ("failed", "timeout")
    assert "deadline of 4 s" in status["reason"]
    assert statuses(read(folder / "output.ipynb")) == ["failed", "not_run"]
    assert gone(kernel_of(folder)["pid"])


def test_what_a_notebook_left_running_in_its_group_ends_with_it(tmp_path: Path) -> None:
    """jupyter_client#104: children outlive their kernel."""
    notebook = write_notebook(
        tmp_path / "n.ipynb",
        "import subprocess\nfrom rightlab.cron import result\nresult('pid', subprocess.Popen(['sleep', '300']).pid)",
    )
    folder = run_folder(tmp_path / "run", notebook)
    assert finished(folder)[0] == 0
    assert gone(status_of(folder)["results"]["pid"])


def test_the_runner_killed_takes_its_kernel_along_and_leaves_a_notebook_that_parses(tmp_path: Path) -> None:
    notebook = write_notebook(tmp_path / "n.ipynb", "print('a')", "import time; time.sleep(60)", "print('c')")
    folder = run_folder(tmp_path / "run", notebook)
    process = start_run(folder)
    pid = kernel_of(folder)["pid"]
    wait_until(lambda: (folder / "out.partial.ipynb").exists())
    time.sleep(0.8)
    os.kill(process.pid, signal.SIGKILL)
    process.wait(10)
    assert not (folder / "status.json").exists()
    assert read(folder / "out.partial.ipynb").metadata.rightlab.status == "running"
    wait_until(lambda: gone(pid), 15)


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b"", "cannot be read"),
        (b"not json", "cannot be read"),
        (b"[]", "no notebook"),
        (b"\xff\xfe", "cannot be read"),
        (b'{"metadata": {}}', "cannot be read"),
        (b'{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [1]}', "cell 1 is no cell"),
        (b'{"nbformat": 4, "metadata": {}, "cells": [{"cell_type": "code"}]}', "cell 1 has no source"),
    ],
)
def test_a_broken_notebook_is_blocked_in_one_line(tmp_path: Path, raw: bytes, says: str) -> None:
    path = tmp_path / "n.ipynb"
    path.write_bytes(raw)
    folder = run_folder(tmp_path / "run", path)
    assert finished(folder)[0] == 1
    status = status_of(folder)
    assert (status["status"], status["failure"]) == ("failed", "blocked")
    assert says in status["reason"]
    assert "\n" not in status["reason"]


def test_a_changed_input_is_not_executed(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "run", write_notebook(tmp_path / "n.ipynb", "print(1)"))
    write_notebook(folder / "input.ipynb", "print('something else')")
    assert finished(folder)[0] == 1
    assert "not the notebook that was scheduled" in status_of(folder)["reason"]
    assert not (folder / "output.ipynb").exists()


def test_an_old_notebook_is_upgraded(tmp_path: Path) -> None:
    old = {
        "nbformat": 3,
        "nbformat_minor": 0,
        "metadata": {"name": "old"},
        "worksheets": [
            {
                "cells": [
                    {
                        "cell_type": "code",
                        "language": "python",
                        "input": ["6*7"],
                        "outputs": [],
                        "metadata": {},
                    }
                ]
            }
        ],
    }
    path = tmp_path / "n.ipynb"
    path.write_text(json.dumps(old))
    folder = run_folder(tmp_path / "run", path)
    assert finished(folder)[0] == 0
    assert read(folder / "output.ipynb").cells[0].outputs[0].data["text/plain"] == "42"
