"""The kernel extension with real kernels (spec jupyter 0, 3)."""

import json
import os
import signal
import time
from pathlib import Path

import pytest

pytestmark = [pytest.mark.kernel, pytest.mark.claude, pytest.mark.sandbox]


def test_kernelspec_loads_the_extension_by_itself_also_after_a_restart(start_kernel, demo_home) -> None:
    kernel = start_kernel(demo_home)
    assert "down" in kernel.run("%rightlab status").text
    kernel.manager.restart_kernel(now=True)
    kernel.client.wait_for_ready(timeout=60)
    assert "down" in kernel.run("%rightlab status").text


def test_loading_needs_and_touches_no_home(start_kernel, tmp_path) -> None:
    missing = tmp_path / "nowhere"
    kernel = start_kernel(missing)
    assert kernel.run("1 + 1").text == "2"
    assert not missing.exists()
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "thesis.tex").write_text("mine")
    other = start_kernel(foreign)
    assert other.run("1 + 1").text == "2"
    assert [path.name for path in foreign.iterdir()] == ["thesis.tex"]


def test_up_ask_prompt_down_show_html_and_text(start_kernel, demo_home) -> None:
    kernel = start_kernel(demo_home)
    up = kernel.run("%rightlab up")
    assert up.status == "ok", up.errors
    assert "scripted model" in up.text
    asked = kernel.run("%%ask\nHello, what are you?")
    assert asked.status == "ok", asked.errors
    assert "scripted" in asked.html
    assert "scripted" in asked.text
    assert "<table" in asked.html
    assert "cost" in asked.text
    prompt = kernel.run("%prompt")
    assert "<table" in prompt.html
    assert "operating" in prompt.text.lower()
    cron = kernel.run("%prompt cron")
    assert cron.status == "ok", cron.errors
    down = kernel.run("%rightlab down")
    assert "down" in down.text
    assert asked.streams == up.streams == ""


def test_bad_words_are_one_line_and_fail_the_cell(start_kernel, demo_home) -> None:
    kernel = start_kernel(demo_home)
    for cell in ("%rightlab fly", "%prompt sideways", "%rightlab status nobody", "%%ask\n   "):
        out = kernel.run(cell)
        assert out.status == "error", cell
        assert "Traceback" not in out.streams, cell


def test_answers_while_a_cell_blocks_and_after_an_interrupt(start_kernel, demo_home) -> None:
    kernel = start_kernel(demo_home)
    assert kernel.run("%rightlab up").status == "ok"
    from rightlab.home import Home
    from rightlab.runtime import host

    agent = Home.resolve(demo_home).agent("demo")
    cell = kernel.start("import time\ntime.sleep(6)")
    time.sleep(0.3)
    started = time.monotonic()
    turn = host.ask(agent, "are you there?", timeout=5)
    assert time.monotonic() - started < 5
    assert turn["status"] == "delivered"
    kernel.manager.interrupt_kernel()
    assert kernel.collect(cell).status == "error"
    assert host.ask(agent, "still there?", timeout=10)["status"] == "delivered"


def test_an_interrupt_ends_the_wait_and_not_the_turn(start_kernel, demo_home) -> None:
    (demo_home / "agents/demo/slow.yaml").write_text("rules:\n  - reply: {text: slow answer}\n    delay: 4\n")
    from rightlab.home import Home, update_config

    agent = Home.resolve(demo_home).agent("demo")
    update_config(agent.config_path, {"gateway.upstream": "scripted:slow.yaml"})
    kernel = start_kernel(demo_home)
    assert kernel.run("%rightlab up").status == "ok"
    cell = kernel.start("%%ask\nslowly please")
    time.sleep(2)
    kernel.manager.interrupt_kernel()
    assert kernel.collect(cell).status == "error"
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        out = kernel.run(_LAST_TURN)
        if "delivered" in out.streams:
            return
        time.sleep(0.3)
    raise AssertionError("the turn did not end well")


_LAST_TURN = "import rightlab\nprint(rightlab.open().status().last_turn['status'])"


def test_never_prints_into_cells(start_kernel, demo_home) -> None:
    kernel = start_kernel(demo_home)
    assert kernel.run("%rightlab up").status == "ok"
    out = kernel.run(
        "import rightlab\nlab = rightlab.open()\nfor _ in range(3): lab.ask('hello')\nprint('mine')"
    )
    assert out.streams == "mine\n"


def test_stops_within_two_seconds(start_kernel, demo_home) -> None:
    kernel = start_kernel(demo_home)
    assert kernel.run("%rightlab up").status == "ok"
    state = demo_home / "run/demo/state.json"
    assert json.loads(state.read_text())["pid"] == kernel.manager.provisioner.pid
    started = time.monotonic()
    assert kernel.run("%rightlab down").status == "ok"
    assert time.monotonic() - started < 2.5
    assert not state.exists()


def test_unload_really_stops_everything(start_kernel, demo_home) -> None:
    kernel = start_kernel(demo_home)
    assert kernel.run("%rightlab up").status == "ok"
    assert kernel.run("%unload_ext rightlab").status == "ok"
    assert not (demo_home / "run/demo/state.json").exists()
    assert kernel.run("%rightlab status").status == "error"
    assert kernel.run("%load_ext rightlab").status == "ok"
    assert "down" in kernel.run("%rightlab status").text


def test_comes_back_after_a_kernel_restart_when_it_was_up(start_kernel, demo_home) -> None:
    kernel = start_kernel(demo_home)
    assert kernel.run("%rightlab up").status == "ok"
    kernel.manager.restart_kernel(now=True)
    kernel.client.wait_for_ready(timeout=60)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        text = kernel.run("%rightlab status").text
        if "demo · up" in text:
            return
        time.sleep(0.3)
    raise AssertionError(text)


def test_second_kernel_is_a_client_and_takes_over_after_a_kill(start_kernel, demo_home) -> None:
    first, second = start_kernel(demo_home), start_kernel(demo_home)
    assert first.run("%rightlab up").status == "ok"
    refused = second.run("%rightlab up")
    assert refused.status == "error"
    assert "already run" in refused.streams
    assert second.run("%%ask\nthrough the owner").status == "ok"
    os.kill(first.manager.provisioner.pid, signal.SIGKILL)
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        if second.run("%rightlab up").status == "ok":
            return
        time.sleep(0.2)
    raise AssertionError("nobody took over")


def test_load_twice_changes_nothing(start_kernel, demo_home) -> None:
    kernel = start_kernel(demo_home)
    kernel.run("%rightlab up")
    assert kernel.run("%load_ext rightlab").status == "ok"
    out = kernel.run("import threading\nprint(sum(t.name == 'rightlab' for t in threading.enumerate()))")
    assert out.streams.strip().endswith("1")


def test_home_isolation(start_kernel, demo_home, tmp_path: Path) -> None:
    """``--home X`` never touches another runtime."""
    kernel = start_kernel(demo_home)
    assert kernel.run("%rightlab up").status == "ok"
    from rightlab.home import Home
    from rightlab.runtime.demo import prepare_demo
    from rightlab.runtime.headless import stop_owner

    other = prepare_demo(Home.resolve(tmp_path / "other"))
    assert stop_owner(other.agent) is False
    assert "demo · up" in kernel.run("%rightlab status").text
