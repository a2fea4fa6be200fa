"""Every view and every page: live, from a file nobody trusts and from a trusted one; in both themes, narrow and wide.

One notebook holds them all, and a page is loaded once per form: themes and widths are switched in it.
"""

import json
from typing import Any

import pytest
from pictures import Look, looks

pytestmark = [pytest.mark.claude, pytest.mark.sandbox, pytest.mark.timeout(300)]

SETUP = """
import pandas
import rightlab
from rightlab.html import Column, money
from rightlab.views import TableView, View

lab = rightlab.open()

def table(n):
    chats = [f"chat {i % 7}" for i in range(n)]
    frame = pandas.DataFrame({"turn": range(n), "chat": chats, "cost": [i / 1000 for i in range(n)]})
    return TableView(frame, ["turn", "chat", Column("cost", format=money)], caption=f"{n} turns", select="many")
"""

VIEWS = {
    "status": ("lab.status()", ["demo \u00b7", "scripted model", "notebook chat"]),
    "table of 10": ("table(10)", ["10 turns", "chat 6", "$0.009"]),
    "table of 10,000": ("table(10_000)", ["10000 turns", "of 10,000", "chat 6"]),
    "turn": (
        "turn = lab.ask('Hello!')\nView(turn)",
        ["scripted stand-in", "System prompt of this turn", "identity:soul"],
    ),
    "assembly": ("lab.prompt()", ["harness:identity", "identity:soul", "IDENTITY.md"]),
    "overview": ("View(lab.overview)", ["Nothing undelivered", "next cron", "good-morning"]),
    "costs": ("View(lambda: lab.costs(days=14))", ["By source", "Dearest invocations", "interactive"]),
    "skills": ("View(lambda: lab.skills)", ["1 other", "Skills", "Show around"]),
    "crons": ("View(lambda: lab.crons)", ["Jobs", "At 09:17 every day", "good-morning"]),
    "run history": ("View(lab.crons.runs)", ["Runs, newest first", "good-morning", "success"]),
    "report": ("View(lab.doctor())", ["Checks", "kernel rightlab"]),
}
"""Each view's cell, and texts every form of it must show."""

WIDTHS = {"narrow": 560, "wide": 1280}
WIDGET = "application/vnd.jupyter.widget-view+json"
STATE = "application/vnd.jupyter.widget-state+json"


@pytest.fixture(scope="module")
def stored(demo_server: Any) -> Any:
    """The notebook executed without a browser, as a cron does; nothing is signed."""
    path = demo_server.write(
        "every-view.ipynb", [SETUP, *(code for code, _ in VIEWS.values())], kernel="rightlab"
    )
    return path, demo_server.execute(path)


def test_state_of_each_view_is_small(stored: Any) -> None:
    _, notebook = stored
    state = notebook.metadata.widgets[STATE]["state"]
    for name, cell in zip(VIEWS, notebook.cells[1:], strict=True):
        (data,) = [output.data for output in cell.outputs if "data" in output]
        assert set(data) == {WIDGET, "text/html", "text/plain"}, name
        size = state_size(state, data[WIDGET]["model_id"])
        print(f"{name}: {size:,} bytes of state, {len(data['text/html']):,} of HTML")
        assert 500 < size < 100_000, name


@pytest.mark.parametrize("form", ["live", "untrusted", "trusted"])
def test_every_view_in_both_themes_narrow_and_wide(
    form: str, demo_server: Any, stored: Any, open_notebook: Any, browser_context: Any
) -> None:
    path, notebook = stored
    if form == "live":
        cells = [cell.source for cell in notebook.cells]
        path = demo_server.write("every-view-live.ipynb", cells, kernel="rightlab")
    elif form == "trusted":
        demo_server.trust(path)
    page = open_notebook(path, "light", width=WIDTHS["wide"], server=demo_server)
    if form == "live":
        page.run_all()
    for at, (_, texts) in enumerate(VIEWS.values(), start=1):
        for text in texts:
            page.output(at).get_by_text(text).first.wait_for(timeout=30_000)
    assert page.page.locator(".rightlab-view").count() == (0 if form == "untrusted" else len(VIEWS))
    if form != "untrusted":
        rows = [grid.locator("tbody tr").count() for grid in page.page.locator(".rightlab-grid").all()[:2]]
        assert rows == [10, 50]
    # Nothing that arrives later moves what is measured: the slowest is the prompt's first comparison.
    page.page.wait_for_timeout(500)

    for width in WIDTHS:
        page.set_width(WIDTHS[width])
        light = _looks(page, browser_context, "light")
        dark = _looks(page, browser_context, "dark")
        for name, one, other in zip(VIEWS, light, dark, strict=True):
            where = f"{name}, {form}, {width}"
            assert one.drawn > 0.002, f"{where}: nothing is drawn"
            assert one.ground > 200, f"{where}: dark ground in the light theme"
            assert other.ground < 80, f"{where}: light ground in the dark theme"
            assert other.drawn > 0.002, f"{where}: nothing can be told from the ground in the dark theme"
            assert abs(one.height - other.height) <= 40, where
            assert one.unlike(other) < 0.1, f"{where}: the themes differ by {one.unlike(other):.3f}"
        assert page.cut_off() == [], f"{form}, {width}"
    assert page.console_errors() == []
    assert page.outside == []


def _looks(page: Any, context: Any, theme: str) -> list[Look]:
    """The outputs as they look in ``theme``; axe is asked as well."""
    page.set_theme(theme)
    assert page.violations() == [], theme
    with page.whole():
        boxes = page.page.locator(".jp-CodeCell").evaluate_all(
            """cells => cells.slice(1).map(cell => {
              const box = cell.querySelector('.jp-Cell-outputArea').getBoundingClientRect();
              return [box.x, box.y, box.width, box.height];
            })"""
        )
        png = page.page.screenshot()
    return looks(context, png, boxes)


def state_size(state: Any, root: str) -> int:
    """Bytes of everything in ``state`` that the model ``root`` refers to, as the file keeps it."""
    seen: set[str] = set()
    waiting = [root]
    while waiting:
        key = waiting.pop()
        if key in seen:
            continue
        seen.add(key)
        text = json.dumps(state[key])
        waiting += [part.split('"')[0] for part in text.split('"IPY_MODEL_')[1:]]
    return sum(len(json.dumps(state[key])) for key in seen)
