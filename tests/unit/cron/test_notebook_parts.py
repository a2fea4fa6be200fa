"""The parts under the engine that need no kernel: saver, status, parameters, outputs, claims."""

import asyncio
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from rightlab.cron import deliver, read_outputs, result, silent
from rightlab.cron.claim import claim_run, read_claim
from rightlab.cron.launcher import run_environment
from rightlab.cron.notebook_state import FINAL, NotebookState
from rightlab.cron.outputs import DELIVER_MIME, RESULT_MIME, SILENT_MIME
from rightlab.cron.parameters import declared_names, inject, python_source
from rightlab.cron.runjob import settle
from rightlab.cron.saver import Saver, dump
from rightlab.errors import RightlabError, UsageError
from rightlab.home.processes import is_alive, process_started


async def test_saves_are_few_and_the_last_change_is_always_saved() -> None:
    nb = {"n": 0}
    written: list[int] = []
    saver = Saver(nb, lambda data: written.append(json.loads(data)["n"]), interval=30)
    saver.start()
    for number in range(200):
        nb["n"] = number
        saver.touch()
        await asyncio.sleep(0)
    assert len(written) <= 2
    await saver.close(lambda: b'{"n": 1001}')
    assert written[-1] == 1001


async def test_a_change_is_saved_though_no_other_follows() -> None:
    nb = {"n": 0}
    written: list[int] = []
    saver = Saver(nb, lambda data: written.append(json.loads(data)["n"]), interval=0.02)
    saver.start()
    nb["n"] = 199
    saver.touch()
    async with asyncio.timeout(20):
        while written[-1:] != [199]:
            await asyncio.sleep(0.01)
    await saver.close(lambda: b'{"n": 199}')


async def test_a_full_disk_in_between_is_survived_and_at_the_end_is_said() -> None:
    nb: dict[str, Any] = {"n": 0}
    calls: list[bytes] = []

    def write(data: bytes) -> None:
        calls.append(data)
        raise RightlabError("the disk is full")

    saver = Saver(nb, write, interval=0.01)
    saver.start()
    for _ in range(3):
        saver.touch()
        await asyncio.sleep(0.03)
    assert calls
    assert saver.saves == 0
    with pytest.raises(RightlabError, match="disk is full"):
        await saver.close(lambda: b"{}")


async def test_close_waits_for_a_save_that_has_begun() -> None:
    order: list[str] = []

    def write(data: bytes) -> None:
        import time

        time.sleep(0.1)
        order.append(data.decode())

    saver = Saver({"x": "early"}, write, interval=0.01)
    saver.start()
    saver.touch()
    await asyncio.sleep(0.03)
    await saver.close(lambda: b"final")
    assert order == ['{"x":"early"}', "final"]


def test_any_text_can_be_saved() -> None:
    for text in ("\ud83d", "\x00", "🐦", "a" * 10, "\u2028"):
        assert json.loads(dump({"t": text, "big": 2**70}))["t"] == text


def notebook() -> Any:
    return new_notebook(cells=[new_markdown_cell("#"), new_code_cell("1"), new_code_cell("2")])


@given(
    steps=st.lists(st.sampled_from(["start", "completed", "failed", "cancelled"]), max_size=6),
    status=st.sampled_from(["success", "failed", "cancelled", "lost"]),
)
def test_whatever_happened_every_cell_ends_in_a_final_status(steps: list[str], status: str) -> None:
    nb = notebook()
    state = NotebookState(nb, {"run_id": "r"})
    state.begin()
    index = 0
    for step in steps:
        if index >= len(nb.cells):
            break
        if step == "start":
            state.start_cell(index)
        else:
            state.end_cell(index, step)  # type: ignore[arg-type]  # drawn from the very literals
            index += 1
    state.finish(status, reason="x")
    assert all(cell.metadata.papermill.status in FINAL for cell in nb.cells)
    assert nb.metadata.rightlab["status"] == status
    assert nb.metadata.papermill["exception"] is (status != "success")


def test_settling_a_cut_off_run_never_claims_completion(tmp_path: Path) -> None:
    nb = notebook()
    state = NotebookState(nb, {"run_id": "r"})
    state.begin()
    state.start_cell(0)
    state.end_cell(0, "completed")
    state.start_cell(1)
    (tmp_path / "out.partial.ipynb").write_bytes(dump(nb))
    settle(tmp_path, "lost", "killed", "lost")
    settled = json.loads((tmp_path / "output.ipynb").read_text())
    found = [cell["metadata"]["papermill"]["status"] for cell in settled["cells"]]
    assert found == ["completed", "failed", "not_run"]
    assert settled["metadata"]["rightlab"]["failed_cell"] == 1
    settle(tmp_path, "success", "again", None)
    assert json.loads((tmp_path / "output.ipynb").read_text()) == settled


@given(
    value=st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=8,
    )
)
def test_every_json_value_reads_back_as_itself(value: Any) -> None:
    space: dict[str, Any] = {}
    exec(python_source({"x": value}), space)
    assert repr(space["x"]) == repr(value)


def test_the_injected_cell_follows_replaces_or_comes_first() -> None:
    nb = new_notebook(
        cells=[new_code_cell("a"), new_code_cell("x = 1\ny: int = 2", metadata={"tags": ["parameters"]})]
    )
    assert declared_names(nb) == {"x", "y"}
    inject(nb, {"x": 5})
    assert [cell.source for cell in nb.cells][2] == "# Parameters\nx = 5\n"
    inject(nb, {"x": math.inf})
    assert len(nb.cells) == 3
    assert nb.cells[2].source == "# Parameters\nx = float('inf')\n"
    bare = new_notebook(cells=[new_code_cell("a")])
    inject(bare, {"x": 1})
    assert bare.cells[0].metadata.tags == ["injected-parameters"]
    inject(bare, {})
    assert len(bare.cells) == 2
    with pytest.raises(UsageError, match="parameter name"):
        inject(bare, {"x; import os": 1})


def shown(mime: str, value: Any) -> Any:
    return new_code_cell("x", outputs=[new_output("display_data", {mime: value})])


def test_outputs_are_read_in_order_and_garbage_is_passed_over() -> None:
    rows = {"blocks": [{"type": "paragraph", "runs": [{"text": "b"}]}]}
    nb = new_notebook(
        cells=[
            shown(RESULT_MIME, {"name": "a", "value": None}),
            shown(RESULT_MIME, {"name": 1, "value": 2}),
            shown(RESULT_MIME, "junk"),
            shown(SILENT_MIME, {"reason": "nothing"}),
            new_markdown_cell("no outputs"),
        ]
    )
    said = read_outputs(nb)
    assert (dict(said.results), said.deliver, said.silent) == ({"a": None}, None, "nothing")
    nb.cells += [shown(DELIVER_MIME, {"content": {"text": "a\n\nA"}}), shown(DELIVER_MIME, {"content": rows})]
    said = read_outputs(nb)
    assert said.silent is None
    assert said.deliver is not None
    assert [block["runs"][0]["text"] for block in said.deliver["blocks"]] == ["a", "A", "b"]
    assert read_outputs({}).results == {}


@pytest.mark.parametrize("act", [lambda: result("x", 1), lambda: deliver("x"), lambda: silent("x")])
def test_outside_a_kernel_the_error_says_what_to_do(act: Any) -> None:
    with pytest.raises(UsageError, match="works in a notebook only"):
        act()


def test_a_claim_is_made_once_and_names_a_process(tmp_path: Path) -> None:
    assert read_claim(tmp_path) is None
    assert claim_run(tmp_path, "runjob")
    assert not claim_run(tmp_path, "scheduler")
    claim = read_claim(tmp_path)
    assert claim is not None
    assert claim["by"] == "runjob"
    assert is_alive(claim["pid"], claim["started"])
    assert not is_alive(claim["pid"], "another:1")
    assert [path.name for path in tmp_path.iterdir()] == ["claim.json"]
    child = subprocess.Popen([sys.executable, "-c", ""])
    started = process_started(child.pid)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not is_alive(child.pid, started)  # a zombie is no run
    child.wait()
    assert process_started(child.pid) is None


def test_no_credential_gets_into_the_environment_of_a_run() -> None:
    given_env = {
        "PATH": "/bin",
        "ANTHROPIC_API_KEY": "sk-x",
        "AWS_SECRET_ACCESS_KEY": "y",
        "TELEGRAM_TOKEN": "z",
    }
    assert run_environment(given_env, {"RIGHTLAB_HOME": "/h"}) == {"PATH": "/bin", "RIGHTLAB_HOME": "/h"}
