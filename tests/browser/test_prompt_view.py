"""The prompt view in JupyterLab: a section is edited live, by mouse and by keyboard, beside a busy cell and without
subshells, in two tabs; from a file nobody trusts the static form is read; both themes.

The picture in the README is made by one of these tests::

    RIGHTLAB_SCREENSHOTS=docs python3 -m pytest tests/browser/test_prompt_view.py -k picture
"""

import os
from pathlib import Path
from typing import Any

import pytest
from pictures import looks, small_picture

pytestmark = [pytest.mark.sandbox, pytest.mark.claude, pytest.mark.timeout(300)]

OPEN = """
import rightlab
lab = rightlab.open()
lab.prompt()
"""
PICTURE_LIMIT = 300_000


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The demo agent after three turns of one conversation."""
    from rightlab.home import Home
    from rightlab.runtime import host
    from rightlab.runtime.demo import prepare_demo

    made = prepare_demo(Home.resolve(tmp_path_factory.mktemp("prompt") / "home"))
    host.up(made.agent, host="test")
    try:
        for text in ("Hello!", "What can you do?", "Thank you."):
            host.ask(made.agent, text, timeout=90)
    finally:
        host.down(made.agent)
    return made


@pytest.fixture(scope="module")
def server(demo: Any, lab_server_factory: Any) -> Any:
    return lab_server_factory(env={"RIGHTLAB_HOME": str(demo.home.path)})


@pytest.fixture
def open_prompt(server: Any, open_notebook: Any, request: pytest.FixtureRequest) -> Any:
    """A notebook with the view in its first cell, run; the section SOUL.md is chosen."""

    def open_(*cells: str, theme: str = "light", width: int = 1280, run: bool = True) -> Any:
        path = server.write(f"{request.node.name[:40]}.ipynb", [OPEN, *cells], kernel="rightlab")
        notebook = open_notebook(path, theme, width=width, server=server)
        if run:
            notebook.run_all()
            view = notebook.page.locator(".rightlab-view").first
            view.get_by_role("cell", name="yes", exact=True).first.wait_for()
            choose(view, "identity:soul", "Friendly")
        return notebook

    return open_


def choose(view: Any, section: str, begins: str) -> Any:
    view.get_by_label(f"Edit {section}").check()
    area = view.locator("textarea")
    view.page.wait_for_function(
        "([area, begins]) => area.value.startsWith(begins)", arg=[area.element_handle(), begins]
    )
    return area


def status(view: Any) -> str:
    return str(view.locator(".rightlab-prompt [role=status]").inner_text())


@pytest.mark.parametrize(("theme", "width"), [("light", 1280), ("dark", 1280), ("dark", 600)])
def test_a_section_is_edited_live(open_prompt: Any, browser_context: Any, theme: str, width: int) -> None:
    notebook = open_prompt(
        "%prompt", "print(lab.variant('draft').text('identity:soul'))", theme=theme, width=width
    )
    page = notebook.page
    view = page.locator(".rightlab-view").first
    assert "No edits: this is what the next turn is told." in view.inner_text()
    before = status(view)
    area = view.locator("textarea")
    area.press("ControlOrMeta+End")
    area.press_sequentially("It never says sorry twice.")
    view.locator(".shown ins").wait_for(timeout=5_000)
    assert "It never says sorry twice." in view.locator(".shown ins").first.inner_text()
    view.get_by_text("(+7 against the agent's own)").wait_for()
    assert status(view) != before
    view.get_by_text("breaks here: +").wait_for()
    assert "1 edit in variant draft; the agent does not see it." in view.inner_text()
    assert "tokens again, $0." in view.inner_text()

    area.press("ControlOrMeta+End")
    for _ in range(26):
        area.press("Backspace")
    view.locator(".shown ins").wait_for(state="detached", timeout=5_000)
    area.press_sequentially("Short.")
    view.locator(".shown ins").first.wait_for()
    # A second view of the same prompt is the same view.
    assert page.locator(".rightlab-view").nth(1).locator("textarea").input_value() == area.input_value()
    page.locator(".jp-CodeCell").nth(2).click()
    notebook.command("notebook:run-cell")
    notebook.wait_for("Short.")
    assert "Short." in notebook.output(2).inner_text()

    page.wait_for_timeout(500)
    assert notebook.violations() == []
    assert notebook.cut_off() == []
    box = view.bounding_box()
    with notebook.whole():
        box = view.bounding_box()
        png = page.screenshot()
    (look,) = looks(browser_context, png, [[box["x"], box["y"], box["width"], box["height"]]])
    assert look.drawn > 0.01
    assert (look.ground > 200) if theme == "light" else (look.ground < 80)
    assert notebook.console_errors() == []
    assert notebook.outside == []


def test_keyboard_alone_chooses_edits_and_writes_back(demo: Any, open_prompt: Any) -> None:
    notebook = open_prompt()
    page = notebook.page
    view = page.locator(".rightlab-view").first
    soul = demo.agent.guest_dir / "SOUL.md"
    kept = soul.read_text()
    cells = page.locator(".jp-Cell").count()
    view.get_by_label("Edit identity:soul").focus()
    page.keyboard.press("ArrowDown")
    view.get_by_text("identity:user · USER.md").wait_for()
    page.keyboard.press("ArrowUp")
    view.get_by_text("identity:soul · SOUL.md").wait_for()
    assert page.evaluate("() => document.activeElement.value") == "identity:soul"
    page.keyboard.press("Tab")
    assert page.evaluate("() => document.activeElement.tagName") == "TEXTAREA"
    page.keyboard.press("Control+End")
    # Keys that are commands of JupyterLab elsewhere are text here.
    page.keyboard.type("dd a b x")
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("z")
    view.locator(".shown ins").first.wait_for()
    assert view.locator("textarea").input_value() == kept + "dd a b x\nz"
    assert page.locator(".jp-Cell").count() == cells

    view.get_by_role("button", name="Write back", exact=True).focus()
    page.keyboard.press("Enter")
    view.get_by_text("Replace SOUL.md by this? The old text is kept beside it.").wait_for()
    view.get_by_text("Write back identity:soul?").wait_for()
    page.wait_for_function("() => document.activeElement.textContent.trim() === 'Cancel'")
    page.keyboard.press("Enter")
    page.wait_for_function("() => document.activeElement.textContent.trim() === 'Write back'")
    assert soul.read_text() == kept
    page.keyboard.press("Enter")
    view.get_by_role("button", name="Yes, write back").focus()
    page.keyboard.press("Enter")
    view.get_by_text("SOUL.md is written; the next turn reads it.").wait_for()
    assert soul.read_text() == kept + "dd a b x\nz"
    # What the next turn costs more is said although nothing is edited any more.
    view.get_by_text("breaks here: +").wait_for()
    soul.write_text(kept)
    view.get_by_role("cell", name="yes", exact=True).first.wait_for()
    assert notebook.console_errors() == []


def test_mode_variant_comparison_and_turns_are_switched(open_prompt: Any) -> None:
    notebook = open_prompt(
        "lab.variant('terse').section('identity:soul', 'Terse.'); None", "lab.requests().divergences()"
    )
    view = notebook.page.locator(".rightlab-view").first
    view.get_by_label("mode", exact=True).select_option(label="cron")
    view.get_by_text("demo · cron mode ·").wait_for()
    view.get_by_role("row", name="right:cron-contract").wait_for()
    view.get_by_label("compare with").select_option(label="mode normal")
    view.get_by_text("from mode normal: ").wait_for()
    view.get_by_label("mode", exact=True).select_option(label="normal")
    view.get_by_text("demo · normal mode ·").wait_for()
    view.get_by_label("variant", exact=True).select_option(label="terse")
    view.get_by_text("1 edit in variant terse").wait_for()
    view.get_by_label("compare with").select_option(label="turn 2")
    view.get_by_text("from turn 2: ").wait_for()
    choose(view, "identity:soul", "Terse.")
    view.get_by_text("turn 2 → variant terse").wait_for()
    assert view.locator(".shown del").count()
    view.get_by_label("from", exact=True).select_option(label="turn 1")
    view.get_by_text("turn 3 goes on exactly where turn 1 ends").or_(
        view.get_by_text("turn 1 and turn 3")
    ).wait_for()
    view.get_by_role("button", name="Discard", exact=True).click()
    view.get_by_text("Drop 1 edit of variant terse?").wait_for()
    view.get_by_role("button", name="Yes, discard").click()
    view.get_by_text("No edits: this is what the next turn is told.").wait_for()
    explorer = notebook.page.locator(".rightlab-view").nth(1)
    explorer.get_by_label("from", exact=True).select_option(label="turn 1")
    explorer.get_by_text("First divergence").wait_for()
    assert notebook.violations() == []
    assert notebook.console_errors() == []


def test_untrusted_output_is_the_static_form_and_a_trusted_one_the_widget_as_it_was(
    server: Any, open_notebook: Any
) -> None:
    made = """
from rightlab.views import PromptView
PromptView(lab, variant=lab.variant("v").section("identity:soul", "Short."))
"""
    path = server.write("prompt-stored.ipynb", [OPEN, made], kernel="rightlab")
    server.execute(path)
    untrusted = open_notebook(path, "dark", server=server)
    untrusted.wait_for("Sections in the order the model reads them")
    assert untrusted.page.locator(".rightlab-view").count() == 0
    assert "breaks here: +" in untrusted.output(1).inner_text()
    assert untrusted.page.locator(".jp-OutputArea-output ins").first.is_visible()
    assert untrusted.violations() == []
    assert untrusted.console_errors() == []
    assert untrusted.outside == []

    server.trust(path)
    trusted = open_notebook(path, server=server)
    shown = trusted.page.locator(".rightlab-view").nth(1)
    shown.locator("textarea").wait_for(timeout=30_000)
    assert shown.locator("textarea").input_value() == "Short."
    assert "identity:soul *" in shown.inner_text()
    assert shown.locator(".shown ins").count()
    assert trusted.console_errors() == []


def test_an_edit_is_answered_while_a_cell_is_busy(open_prompt: Any) -> None:
    notebook = open_prompt("import time; time.sleep(8); print('cell done')", run=False)
    page = notebook.page
    notebook.start_all()
    view = page.locator(".rightlab-view").first
    area = view.locator("textarea")
    area.wait_for(timeout=30_000)
    choose(view, "identity:soul", "Friendly")
    area.fill("While it is busy.")
    view.locator(".shown ins").wait_for(timeout=4_000)
    assert "cell done" not in "".join(notebook.outputs())
    notebook.wait_for("cell done")
    assert notebook.console_errors() == []


def test_without_subshells_an_edit_waits_for_the_cell_and_says_so(server: Any, open_prompt: Any) -> None:
    with server.setting("apputils-extension/kernels-settings", {"commsOverSubshells": "disabled"}):
        notebook = open_prompt("import time; time.sleep(9); print('cell done')", run=False)
    notebook.start_all()
    view = notebook.page.locator(".rightlab-view").first
    area = view.locator("textarea")
    area.wait_for(timeout=30_000)
    notebook.page.wait_for_function("area => area.value !== ''", arg=area.element_handle())
    area.fill("While it is busy.")
    view.get_by_text("The kernel has not answered yet").wait_for(timeout=6_000)
    notebook.wait_for("cell done")
    view.locator(".shown ins").first.wait_for()
    assert "The kernel has not answered yet" not in view.inner_text()
    assert area.input_value() == "While it is busy."
    assert notebook.console_errors() == []


def test_two_tabs_show_one_text_and_neither_takes_typing_back(
    server: Any, open_prompt: Any, open_notebook: Any
) -> None:
    first = open_prompt()
    first.command("docmanager:save")
    second = open_notebook(first.name, server=server)
    here = first.page.locator(".rightlab-view textarea")
    there = second.page.locator(".rightlab-view textarea")
    there.wait_for(timeout=30_000)
    here.fill("From the first tab. ")
    second.page.wait_for_function("area => area.value === 'From the first tab. '", arg=there.element_handle())
    there.press("ControlOrMeta+End")
    there.press_sequentially(
        "And from the second, which is typed slowly enough to be answered between.", delay=25
    )
    whole = "From the first tab. And from the second, which is typed slowly enough to be answered between."
    assert there.input_value() == whole
    first.page.wait_for_function(
        "([area, whole]) => area.value === whole", arg=[here.element_handle(), whole]
    )
    assert second.page.locator(".rightlab-view textarea").input_value() == whole


def test_picture_of_the_notebook_after_an_edit(
    lived_demo: Any, demo_server: Any, open_notebook: Any, browser_context: Any, tmp_path: Path
) -> None:
    from rightlab.runtime import host

    host.up(lived_demo.agent, host="test")
    try:
        for text in ("What can you do?", "And what did that cost?", "Thank you."):
            host.ask(lived_demo.agent, text, timeout=90)
    finally:
        host.down(lived_demo.agent)
    notebook = open_notebook("01_prompts.ipynb", width=1150, server=demo_server)
    page = notebook.page
    notebook.run_all(timeout=120)
    view = page.locator(".rightlab-view").first
    view.get_by_role("cell", name="yes", exact=True).first.wait_for()
    area = choose(view, "identity:soul", "Friendly")
    area.fill("Friendly, short and exact. Says what it did.\nOne apology is enough.\n")
    view.locator(".shown ins").first.wait_for()
    view.get_by_text("breaks here: +").wait_for()
    view.get_by_text("First divergence").wait_for()
    page.wait_for_timeout(700)
    assert notebook.violations() == []
    with notebook.whole():
        area_box = page.locator(".jp-Notebook").bounding_box()
        end = view.bounding_box()
        png = page.screenshot(clip={**area_box, "height": end["y"] + end["height"] + 8 - area_box["y"]})
    picture = small_picture(browser_context, png, width=1100, height=1600)
    folder = Path(os.environ.get("RIGHTLAB_SCREENSHOTS") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "prompts.png").write_bytes(picture)
    assert 10_000 < len(picture) < PICTURE_LIMIT
    assert notebook.console_errors() == []
    assert notebook.outside == []
