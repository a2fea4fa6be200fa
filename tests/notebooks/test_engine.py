"""``papermill --engine rightlab``, with real kernels, outside any home."""

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from nbformat.v4 import new_code_cell, new_notebook
from notebook_kit import ENV, gone, papermill, read, statuses, wait_until, write_notebook

from rightlab.cron.execution import Execution
from rightlab.errors import RunError

pytestmark = pytest.mark.kernel

DIE = "import os, signal, time\nprint('before', flush=True)\ntime.sleep(0.3)\nos.kill(os.getpid(), signal.SIGKILL)"


def start(*args: str | Path, cwd: Path) -> "subprocess.Popen[str]":
    argv = [sys.executable, "-m", "papermill", "--engine", "rightlab", *map(str, args)]
    return subprocess.Popen(
        argv,
        cwd=cwd,
        env=ENV,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def test_the_command_line_with_parameters_and_a_folder_of_its_own(tmp_path: Path) -> None:
    """Relative paths are those of the caller, whatever ``--cwd`` says; no home is needed or made."""
    write_notebook(
        tmp_path / "in.ipynb", "#:Title", "import os\nprint(x * 2, os.getcwd())", "", parameters="x = 1"
    )
    (tmp_path / "elsewhere").mkdir()
    done = papermill("in.ipynb", "out.ipynb", "-p", "x", "21", "--cwd", "elsewhere", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    nb = read(tmp_path / "out.ipynb")
    assert set(statuses(nb)) == {"completed"}
    printed = next(cell for cell in nb.cells if "getcwd" in cell.source).outputs[0].text
    assert printed == f"42 {tmp_path / 'elsewhere'}\n"
    ours = nb.metadata.rightlab
    assert (ours.status, ours.attempt, ours.job, ours.slot, ours.reason) == ("success", 1, None, None, None)
    assert ours.run_id
    assert nb.metadata.papermill.parameters == {"x": 21}
    assert nb.metadata.papermill.exception is False
    assert nb.metadata.papermill.duration > 0
    assert nb.metadata.language_info.name == "python"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["elsewhere", "in.ipynb", "out.ipynb"]
    assert "TCP" not in done.stderr


def test_an_error_fails_its_cell_and_the_rest_did_not_run(tmp_path: Path) -> None:
    write_notebook(tmp_path / "in.ipynb", "print(1)", "1 / 0", "print(2)", "#:end")
    done = papermill("in.ipynb", "out.ipynb", cwd=tmp_path)
    assert done.returncode == 1
    assert "ZeroDivisionError" in done.stderr
    nb = read(tmp_path / "out.ipynb")
    ran = [
        (c.source, c.metadata.papermill.status)
        for c in nb.cells
        if "error" not in str(c.metadata.get("tags"))
    ]
    assert ran == [
        ("print(1)", "completed"),
        ("1 / 0", "failed"),
        ("print(2)", "not_run"),
        ("end", "not_run"),
    ]
    assert {status in ("completed", "failed", "cancelled", "not_run") for status in statuses(nb)} == {True}
    assert (nb.metadata.rightlab.status, nb.metadata.rightlab.failure) == ("failed", "notebook")
    assert "ZeroDivisionError: division by zero" in nb.metadata.rightlab.reason


def execute(folder: Path, **options: Any) -> Exception | None:
    """Papermill in this process, much faster than its command line; what it raised."""
    import papermill as pm

    try:
        pm.execute_notebook(
            str(folder / "in.ipynb"),
            str(folder / "out.ipynb"),
            engine_name="rightlab",
            progress_bar=False,
            **options,
        )
    except Exception as error:
        return error
    return None


@pytest.mark.parametrize("at_end", [False, True])
def test_pain_papermill125_a_killed_kernel_is_a_failure_that_says_so(tmp_path: Path, at_end: bool) -> None:
    """Papermill's own engine exits with the cell, and all that never ran, marked completed."""
    cells = ["print(1)", DIE] if at_end else ["print(1)", DIE, "print(2)"]
    write_notebook(tmp_path / "in.ipynb", *cells)
    began = time.monotonic()
    error = execute(tmp_path)
    assert time.monotonic() - began < 30
    assert "killed by SIGKILL" in str(error)
    nb = read(tmp_path / "out.ipynb")
    by_source = {cell.source: cell for cell in nb.cells}
    assert by_source["print(1)"].metadata.papermill.status == "completed"
    assert by_source[DIE].metadata.papermill.status == "failed"
    assert by_source[DIE].outputs[0].text == "before\n"
    if not at_end:
        assert by_source["print(2)"].metadata.papermill.status == "not_run"
    assert (nb.metadata.rightlab.status, nb.metadata.rightlab.failure) == ("failed", "infrastructure")


@pytest.mark.parametrize(
    ("ending", "ok"),
    [("import sys; sys.exit(0)", True), ("import sys; sys.exit()", True), ("exit()", True),
     ("raise SystemExit", True), ("import sys; sys.exit(3)", False), ("import sys; sys.exit('no')", False)],
)  # fmt: skip
def test_pain_papermill536_exit_means_what_it_says(tmp_path: Path, ending: str, ok: bool) -> None:
    write_notebook(tmp_path / "in.ipynb", ending, "print('never')")
    error = execute(tmp_path)
    nb = read(tmp_path / "out.ipynb")
    by_source = {cell.source: cell.metadata.papermill.status for cell in nb.cells}
    assert (error is None) is ok
    assert by_source[ending] == ("completed" if ok else "failed")
    assert by_source["print('never')"] == "not_run"
    assert nb.metadata.rightlab.status == ("success" if ok else "failed")


async def test_pain_papermill511_kernels_use_no_tcp_ports_and_leave_nothing() -> None:
    """Four at once; each has sockets of its own, and they are gone afterwards."""
    look = (
        "import json\nfrom ipykernel import get_connection_file\n"
        "facts = json.load(open(get_connection_file()))\nprint(facts['transport'], facts['ip'])"
    )
    notebooks = [new_notebook(cells=[new_code_cell(look)]) for _ in range(4)]
    outcomes = await asyncio.gather(*(Execution(nb).run() for nb in notebooks))
    assert [outcome.status for outcome in outcomes] == ["success"] * 4
    seen = [nb.cells[0].outputs[0].text for nb in notebooks]
    assert all(text.startswith("ipc ") for text in seen)
    assert len(set(seen)) == 4
    for text in seen:
        assert not Path(text.split()[1]).parent.exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_pain_papermill601_a_stopped_run_says_cancelled(tmp_path: Path, number: signal.Signals) -> None:
    """papermill#508, #601: stopped by a signal, papermill leaves a notebook that says running for ever."""
    write_notebook(
        tmp_path / "in.ipynb",
        "print('one')",
        f"import os, time\nopen({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))\ntime.sleep(60)",
        "print('three')",
    )
    process = start("in.ipynb", "out.ipynb", cwd=tmp_path)
    pid = int(wait_until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text()))
    process.send_signal(number)
    assert process.wait(30) not in (0, None)
    nb = read(tmp_path / "out.ipynb")
    assert statuses(nb) == ["completed", "cancelled", "not_run"]
    assert (nb.metadata.rightlab.status, nb.metadata.rightlab.reason) == (
        "cancelled",
        f"stopped by {number.name}",
    )
    assert gone(pid)


def test_killed_at_random_moments_the_output_always_parses(tmp_path: Path) -> None:
    """A fixed sample; papermill's own writer tore 3 of 12 (jupyter 0(6)). No kernel stays behind."""
    rng = random.Random(5)
    write_notebook(
        tmp_path / "in.ipynb",
        f"import os\nopen({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))",
        *["import time\nfor _ in range(4):\n    print('x' * 2_000_000)\n    time.sleep(0.02)"] * 8,
    )
    parsed = 0
    for number in range(5):
        (tmp_path / "pid").unlink(missing_ok=True)
        output = tmp_path / f"out{number}.ipynb"
        process = start("in.ipynb", output.name, cwd=tmp_path)
        pid = int(wait_until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text()))
        time.sleep(rng.uniform(0.0, 1.2))
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)
        if output.exists():
            nb = read(output)
            parsed += 1
            assert nb.metadata.rightlab.status in ("running", "success")
            if nb.metadata.rightlab.status == "running":
                assert "running" in statuses(nb) or "pending" in statuses(nb)
        wait_until(lambda pid=pid: gone(pid), 15)
    assert parsed >= 3


def test_a_cell_over_its_time_fails_and_its_kernel_ends(tmp_path: Path) -> None:
    write_notebook(tmp_path / "in.ipynb", "import time\ntime.sleep(60)", "print(2)")
    assert execute(tmp_path, execution_timeout=1) is not None
    nb = read(tmp_path / "out.ipynb")
    assert nb.metadata.rightlab.failure == "timeout"
    assert [cell.metadata.papermill.status for cell in nb.cells if cell.cell_type == "code"] == [
        "failed",
        "not_run",
    ]


def test_an_unknown_kernel_is_one_line(tmp_path: Path) -> None:
    write_notebook(tmp_path / "in.ipynb", "print(1)", kernel="no-such-kernel")
    error = execute(tmp_path)
    assert "'no-such-kernel', which is not installed" in str(error)
    assert isinstance(error, RunError)
    nb = read(tmp_path / "out.ipynb")
    assert statuses(nb) == ["not_run"]
    assert (nb.metadata.rightlab.status, nb.metadata.rightlab.failure) == ("failed", "blocked")


def test_tags_of_nbclient_are_respected(tmp_path: Path) -> None:
    path = write_notebook(tmp_path / "in.ipynb", "1 / 0", "print('skipped')", "print('end')")
    nb = json.loads(path.read_text())
    nb["cells"][0]["metadata"]["tags"] = ["raises-exception"]
    nb["cells"][1]["metadata"]["tags"] = ["skip-execution"]
    path.write_text(json.dumps(nb))
    execute(tmp_path)  # papermill raises for any error output
    got = {cell.source: cell.metadata.papermill.status for cell in read(tmp_path / "out.ipynb").cells}
    assert (got["1 / 0"], got["print('skipped')"], got["print('end')"]) == (
        "completed",
        "not_run",
        "completed",
    )


async def test_it_runs_inside_a_running_loop_and_logs_on_request(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As papermill is used from a notebook, whose loop is running."""
    import papermill as pm

    write_notebook(tmp_path / "in.ipynb", "print('hello')\n'\\ud83d'")
    monkeypatch.chdir(tmp_path)
    assert asyncio.get_running_loop().is_running()
    with caplog.at_level("INFO", logger="papermill"):
        nb: Any = pm.execute_notebook(
            "in.ipynb", "out.ipynb", engine_name="rightlab", progress_bar=False, log_output=True
        )
    assert nb.cells[0].outputs[0].text == "hello\n"
    assert "hello" in caplog.messages
    assert statuses(read(tmp_path / "out.ipynb")) == ["completed"]


def test_without_an_output_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import papermill as pm

    write_notebook(tmp_path / "in.ipynb", "1 + 1")
    monkeypatch.chdir(tmp_path)
    nb: Any = pm.execute_notebook("in.ipynb", None, engine_name="rightlab", progress_bar=False)
    assert nb.metadata.rightlab.status == "success"
    assert [path.name for path in tmp_path.iterdir()] == ["in.ipynb"]


def test_an_output_widget_does_not_hold_up_its_cell(tmp_path: Path) -> None:
    """Each print is answered on the socket on which the cell's reply is awaited."""
    notebook = write_notebook(
        tmp_path / "n.ipynb",
        "import ipywidgets\nout = ipywidgets.Output()\nout",
        *["with out:\n    for n in range(40):\n        print(n, flush=True)"] * 5,
        f"with out:\n    raise ValueError('sk-ant-api03-{'k' * 40}')",
    )
    done = papermill(notebook, tmp_path / "o.ipynb", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "o.ipynb").read_text()
    widgets = json.dumps(json.loads(text)["metadata"]["widgets"])
    assert "[redacted]" in widgets
    assert "sk-ant" not in widgets
