"""The agent panel in JupyterLab: on its own, in place of a status, with every button pressed."""

import time
from typing import Any

import pytest

pytestmark = [pytest.mark.sandbox, pytest.mark.claude, pytest.mark.timeout(300)]

OPEN = """
import rightlab
from rightlab.views import StatusView
lab = rightlab.open()
StatusView(lab)
"""


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Any:
    from rightlab.home import Home
    from rightlab.runtime.demo import prepare_demo

    return prepare_demo(Home.resolve(tmp_path_factory.mktemp("panel") / "home"))


@pytest.fixture(scope="module")
def server(demo: Any, lab_server_factory: Any) -> Any:
    return lab_server_factory(env={"RIGHTLAB_HOME": str(demo.home.path)})


def test_panel_starts_allows_examines_and_stops(demo: Any, server: Any, open_notebook: Any) -> None:
    path = server.write("panel.ipynb", [OPEN], kernel="rightlab")
    notebook = open_notebook(path, "light", width=1000, server=server)
    notebook.run_all()
    page = notebook.page
    panel = page.locator(".rightlab-view")
    panel.get_by_text("demo \u00b7 down").wait_for()
    assert "No turn yet" in panel.inner_text()

    panel.get_by_role("button", name="Start").click()
    panel.get_by_text("demo is up.").wait_for(timeout=60_000)
    assert "demo \u00b7 up" in panel.inner_text()
    assert "scripted model" in panel.inner_text()

    panel.get_by_text("Who am I: 3 identity files").click()
    panel.get_by_text("IDENTITY.md \u00b7").click()
    panel.get_by_text("an agent that shows what rightlab does").wait_for()

    panel.get_by_label("Telegram id").fill("4711")
    panel.get_by_label("Telegram id").press("Enter")
    panel.get_by_role("button", name="Allow", exact=True).click()
    panel.get_by_text("Let 4711 talk to demo?").wait_for()
    panel.get_by_role("button", name="Yes, allow").click()
    panel.get_by_text("4711 is allowed.").wait_for()
    assert demo.agent.allowlist().trusts(4711)
    # What is open stays open: only what changed was drawn again.
    assert panel.get_by_text("an agent that shows what rightlab does").is_visible()

    panel.get_by_role("button", name="Doctor").click()
    panel.locator("caption", has_text="Checks").wait_for(timeout=90_000)
    assert notebook.violations() == []
    notebook.screenshot("panel-light", whole=True)

    panel.get_by_role("button", name="Stop", exact=True).click()
    panel.get_by_role("button", name="Yes, stop").click()
    panel.get_by_text("demo is down.").wait_for(timeout=30_000)
    assert "demo \u00b7 down" in panel.inner_text()
    assert notebook.console_errors() == []
    assert notebook.outside == []


def test_status_shows_one_live_panel_that_follows_a_turn_made_elsewhere(
    demo: Any, server: Any, open_notebook: Any
) -> None:
    cells = [
        "%rightlab status",
        "%rightlab status",
    ]
    notebook = open_notebook(server.write("status.ipynb", cells, kernel="rightlab"), "dark", server=server)
    notebook.run_all()
    panels = notebook.page.locator(".rightlab-view")
    panels.nth(1).get_by_text("No turn yet: %%ask").wait_for()

    from rightlab.lab import Lab

    Lab(demo.agent).ask("Hello!", timeout=60)
    for at in (0, 1):
        panels.nth(at).get_by_role("cell", name="delivered", exact=True).wait_for(timeout=15_000)
    assert notebook.violations() == []
    notebook.screenshot("panel-dark")
    assert notebook.console_errors() == []


def test_a_restarted_kernel_has_its_agent_up_again_and_views_re_attach(
    demo: Any, server: Any, open_notebook: Any
) -> None:
    """The extension brings the agent back without a cell being run; a cell that is run shows a live panel again."""
    from rightlab.runtime import host
    from rightlab.runtime.state import read_state

    cells = ["%rightlab up", "%rightlab status"]
    notebook = open_notebook(server.write("restart.ipynb", cells, kernel="rightlab"), server=server)
    notebook.run_all()
    page = notebook.page
    panel = notebook.output(1).locator(".rightlab-view")
    panel.get_by_text("demo \u00b7 up").wait_for()
    before = read_state(demo.agent)
    assert before is not None

    page.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()")
    deadline = time.monotonic() + 60
    while (after := read_state(demo.agent)) is None or after.pid == before.pid:
        assert time.monotonic() < deadline, "the agent did not come back"
        time.sleep(0.2)
    assert host.ask(demo.agent, "Are you there again?", timeout=60)["status"] == "delivered"

    page.evaluate(
        """() => {
          const notebook = window.jupyterapp.shell.currentWidget.content;
          notebook.activeCellIndex = 1;
          notebook.deselectAll();
        }"""
    )
    notebook.command("notebook:run-cell")
    panel.get_by_text("demo \u00b7 up").wait_for()
    assert panel.count() == 1
    panel.get_by_role("button", name="Stop", exact=True).click()
    panel.get_by_role("button", name="Yes, stop").click()
    panel.get_by_text("demo is down.").wait_for(timeout=30_000)
    assert read_state(demo.agent) is None
    assert notebook.console_errors() == []
