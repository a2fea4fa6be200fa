"""The prompt view over a real home: edits, comparison, write-back, limits, what it follows and what it never does."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rightlab.home import AgentHome, Home
from rightlab.home.writers import write_agent_owned
from rightlab.html import register_widget
from rightlab.lab import Lab
from rightlab.runtime.setup import make_agent
from rightlab.runtime.variants import open_variants
from rightlab.views import PromptView
from rightlab.views.live import load, unload
from rightlab.views.prompt_desk import PromptDesk
from rightlab.views.prompt_rows import Against

SOUL = "Kind and <b>exact</b>.\nSays what it did.\n"
WIDGET = "application/vnd.jupyter.widget-view+json"


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[AgentHome]:
    made = make_agent(
        Home.resolve(tmp_path / "home"), "alice", bootstrap=False, overrides={"sandbox.mode": "none"}
    )
    for name, text in (("SOUL.md", SOUL), ("USER.md", "Ann.\n"), ("TOOLS.md", "A hammer.\n")):
        write_agent_owned(made.guest_dir / name, text)
    yield made
    for one in open_variants(made):
        one.close()


@pytest.fixture
def lab(agent: AgentHome) -> Lab:
    return Lab(agent)


@pytest.fixture
def view(lab: Lab, wire: Any) -> PromptView:
    made = PromptView(lab)
    choose(made, "identity:soul")
    return made


def until(check: Callable[[], object], seconds: float = 5.0) -> None:
    deadline = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


def choose(view: PromptView, section: str) -> None:
    view._on_message(view.editor, {"kind": "select", "section": section}, [])


def edit(view: PromptView, section: str, text: str, number: int = 1) -> None:
    message = {"kind": "edit", "section": section, "text": text, "page": "tab", "number": number}
    view._on_message(view.editor, message, [])


def top(view: PromptView) -> str:
    return str(view._parts[0].value)


def row(view: PromptView, section: str) -> list[str]:
    return list(view.editor.rows[view.editor.row_keys.index(section)])


def press(confirm: Any, *, sure: bool = True) -> None:
    ask, asked = confirm.widget.children
    ask.click()
    asked.children[2 if sure else 1].click()


def test_shows_what_the_model_is_told(view: PromptView, lab: Lab) -> None:
    assert "alice \u00b7 normal mode \u00b7" in top(view)
    assert "No edits: this is what the next turn is told." in top(view)
    names = [part.name for part in lab.prompt().parts()]
    assert [key for key in view.editor.row_keys if key in names] == names
    assert row(view, "identity:soul")[2:4] == ["SOUL.md", str(lab.prompt()["identity:soul"].tokens)]
    assert view.editor.text == SOUL
    assert "Your Personality and Values" in view.editor.shown
    assert "&lt;b&gt;exact" in view.editor.shown
    assert "<b>exact" not in view.editor.shown
    assert view.editor.locked == ""


def test_an_edit_changes_tokens_and_diff_and_never_the_agent(
    view: PromptView, lab: Lab, agent: AgentHome
) -> None:
    before = lab.prompt().render()
    edit(view, "identity:soul", SOUL + "Never says sorry twice.\n", 7)
    assert view.editor.answered == "tab:7"
    assert view.desk.variant is not None
    assert view.desk.variant.name == "draft"
    assert "<ins" in view.editor.shown
    assert "Never says sorry twice." in view.editor.shown
    more = lab.prompt(variant="draft").tokens - lab.prompt().tokens
    assert more > 0
    assert f"1 section differs from the agent&#x27;s own: +{more} tokens" in top(view)
    assert row(view, "identity:soul")[1] == "identity:soul *"
    assert row(view, "identity:soul")[6] == "changed"
    assert lab.prompt().render() == before
    assert lab.prompt(variant="draft").render() != before
    assert (agent.guest_dir / "SOUL.md").read_text() == SOUL
    assert f"(+{more} against the agent's own)" in view.editor.status


def test_what_the_model_reads_is_what_the_variant_renders(view: PromptView, lab: Lab) -> None:
    """The fast way (a kept registry, a scope that comes and goes) gives the same bytes as ``lab.prompt``."""
    for number, text in enumerate(("One.\n", "", "Two {{braces}} \U0001f600\n", "Three"), 1):
        edit(view, "identity:soul", text, number)
        assert view.desk.assembly.render_bytes() == lab.prompt(variant="draft").render_bytes()
    edit(view, "harness:identity", "You are {{agent_name}}.", 9)
    assert view.desk.assembly.render_bytes() == lab.prompt(variant="draft").render_bytes()
    assert lab.prompt(variant="draft").render().startswith("You are alice.")


def test_a_template_shows_its_variables_and_a_slip_is_said_where_it_is(view: PromptView) -> None:
    choose(view, "harness:identity")
    assert "{{agent_name}}" in view.editor.text
    assert "alice" in view.editor.shown
    good = view.editor.text
    edit(view, "harness:identity", "You are {{nobody}}.")
    assert "cannot be sent" in top(view)
    assert "nobody" in view.editor.shown
    assert view.editor.text == "You are {{nobody}}."
    assert row(view, "harness:identity")[6] == "cannot be rendered"
    assert row(view, "identity:soul")[3] != ""
    edit(view, "harness:identity", good, 2)
    assert "cannot be sent" not in top(view)


def test_an_emptied_section_keeps_its_row(view: PromptView) -> None:
    edit(view, "identity:soul", "")
    assert row(view, "identity:soul")[6] == "removed"
    assert "identity:soul" in view.editor.selected
    edit(view, "identity:soul", "Back.", 2)
    assert row(view, "identity:soul")[6] == "changed"


def test_a_missing_file_can_be_written_from_nothing(view: PromptView, agent: AgentHome) -> None:
    assert row(view, "memory:long-term")[6] == "no MEMORY.md"
    choose(view, "memory:long-term")
    assert view.editor.text == ""
    edit(view, "memory:long-term", "- likes tea\n")
    assert row(view, "memory:long-term")[6] == "added"
    assert "SECURITY NOTICE:" in view.editor.shown
    press(view.write_back)
    until(lambda: (agent.guest_dir / "MEMORY.md").exists())
    assert (agent.guest_dir / "MEMORY.md").read_text() == "- likes tea\n"


def test_mode_variant_and_comparison_are_switched(view: PromptView, lab: Lab) -> None:
    lab.variant("terse").section("identity:soul", "Terse.\n")
    view.refresh()
    assert ("terse", "terse") in view.variant.options
    view.variant.value = "terse"
    assert view.editor.text == "Terse.\n"
    assert "1 edit in variant terse" in top(view)
    view.mode.value = "cron"
    assert "cron mode" in top(view)
    assert "right:cron-contract" in view.editor.row_keys
    view.against.value = Against("mode", "normal")
    assert row(view, "right:cron-contract")[6] == "added"
    assert "differ from mode normal" in top(view)
    view.variant.value = ""
    view.mode.value = "normal"
    view.against.value = Against("variant", "terse")
    assert row(view, "identity:soul")[6] == "changed"
    assert "<del" in view.editor.shown


def test_a_section_only_the_other_has_can_be_looked_at_not_edited(view: PromptView) -> None:
    view.against.value = Against("mode", "cron")
    choose(view, "right:cron-contract")
    assert row(view, "right:cron-contract")[6] == "removed"
    assert "<del" in view.editor.shown


def test_new_variant_needs_a_name(view: PromptView) -> None:
    view._on_new()
    assert "needs a name" in view._note.value
    view.name.value = " short "
    view._on_new()
    assert view.desk.variant is not None
    assert view.desk.variant.name == "short"
    assert view.variant.value == "short"


def test_nothing_is_written_before_the_diff_was_seen_and_confirmed(
    view: PromptView, agent: AgentHome
) -> None:
    soul = agent.guest_dir / "SOUL.md"
    press(view.write_back)
    assert "is not edited" in view._note.value
    edit(view, "identity:soul", "New.\n")
    press(view.write_back, sure=False)
    assert "Nothing is written yet." in view._parts[1].value
    assert "<del" in view._parts[1].value
    assert soul.read_text() == SOUL
    press(view.write_back)
    until(lambda: "SOUL.md is written" in view._note.value)
    assert soul.read_text() == "New.\n"
    assert [one.read_text() for one in agent.guest_dir.glob("SOUL.md.*.bak")] == [SOUL]
    assert view._parts[1].value == ""
    assert row(view, "identity:soul")[1] == "identity:soul"


def test_a_file_changed_since_the_diff_is_not_overwritten(view: PromptView, agent: AgentHome) -> None:
    soul = agent.guest_dir / "SOUL.md"
    edit(view, "identity:soul", "New.\n")
    ask, asked = view.write_back.widget.children
    ask.click()
    soul.write_text("Somebody else.\n")
    asked.children[2].click()
    until(lambda: "was changed since" in view._note.value)
    assert soul.read_text() == "Somebody else.\n"


def test_selecting_another_section_takes_the_question_back(view: PromptView, agent: AgentHome) -> None:
    edit(view, "identity:soul", "New.\n")
    ask, asked = view.write_back.widget.children
    ask.click()
    choose(view, "identity:user")
    asked.children[2].click()
    assert "changed since you were asked" in view._note.value
    assert (agent.guest_dir / "SOUL.md").read_text() == SOUL


def test_typing_takes_the_question_back_too(view: PromptView, agent: AgentHome) -> None:
    edit(view, "identity:soul", "New.\n")
    ask, asked = view.write_back.widget.children
    ask.click()
    edit(view, "identity:soul", "Newer, and never shown as a diff.\n", 2)
    asked.children[2].click()
    assert "changed since you were asked" in view._note.value
    assert (agent.guest_dir / "SOUL.md").read_text() == SOUL


def test_discard_drops_the_edits_after_a_question(view: PromptView) -> None:
    edit(view, "identity:soul", "New.\n")
    press(view.discard, sure=False)
    assert view.editor.text == "New.\n"
    press(view.discard)
    assert view.editor.text == SOUL
    assert "No edits" in top(view)


def test_follows_a_cell_that_edits_and_a_file_that_changes(
    view: PromptView, lab: Lab, agent: AgentHome
) -> None:
    view.name.value = "cell"
    view._on_new()
    lab.variant("cell").section("identity:soul", "From a cell.\n")
    until(lambda: view.editor.text == "From a cell.\n")
    lab.variant("cell").revert()
    (agent.guest_dir / "SOUL.md").write_text("From the agent.\n")
    until(lambda: view.editor.text == "From the agent.\n")
    lab.variant("cell").close()
    until(lambda: view.variant.value == "")
    assert "No edits" in top(view)


def test_lint_and_lists_come_after_the_first_paint(lab: Lab, agent: AgentHome, wire: Any) -> None:
    (agent.guest_dir / "TOOLS.md").write_text("The key is sk-ant-abcdefghijklmnop.\n")
    view = PromptView(lab)
    assert "sk-ant" not in view.findings.value
    until(lambda: "Anthropic key" in view.findings.value)
    edit(view, "identity:tools", "A hammer.\n")
    until(lambda: "Anthropic key" not in view.findings.value)


@pytest.mark.parametrize("text", ["x" * 400_000, "\U0001f600<&>\n" * 20_000, 'quoted "all" over\n' * 4_000])
def test_state_stays_in_bounds_whatever_a_file_holds(
    lab: Lab, agent: AgentHome, wire: Any, text: str
) -> None:
    for name in ("SOUL.md", "TOOLS.md", "MEMORY.md"):
        (agent.guest_dir / name).write_text(text)
    view = PromptView(lab)
    for section in ("identity:soul", "memory:long-term"):
        choose(view, section)
        assert view.state_bytes <= 100_000
        assert "too long to edit here" in view.editor.locked
        edit(view, section, "short")
        assert view.desk.variant is None, "a cut text must never become the section"
    lab.variant("v").section("identity:soul", "a\n" * 9_000).section("identity:user", 'b"\n' * 9_000)
    view.show("normal", lab.variant("v"))
    for section in ("identity:soul", "identity:user"):
        choose(view, section)
        assert view.editor.locked == ""
        view._ask_write_back()
        view.desk.preview(patient=True)
        view._draw()
        assert view.state_bytes <= 100_000


def test_an_edit_costs_less_than_fifty_milliseconds_in_the_kernel(
    lab: Lab, agent: AgentHome, wire: Any
) -> None:
    """60 kB of prompt, 45 kB of it in the section that is edited (the bench measures the whole way)."""
    text = "".join(
        f"- rule {n}: say what is so and leave out what is not, in plain words.\n" for n in range(640)
    )
    (agent.guest_dir / "SOUL.md").write_text(text)
    view = PromptView(lab)
    choose(view, "identity:soul")
    assert len(lab.prompt().render()) > 50_000
    assert view.editor.locked == ""
    samples = []
    for number in range(1, 12):
        changed = text.replace("rule 320:", f"rule 320: {'x' * number}")
        began = time.perf_counter()
        edit(view, "identity:soul", changed, number)
        samples.append(time.perf_counter() - began)
        assert "<ins" in view.editor.shown
    assert sorted(samples)[len(samples) // 2] < 0.05


def test_an_edit_sends_only_what_changed(view: PromptView, wire: Any) -> None:
    edit(view, "identity:soul", SOUL + "a")
    wire.updates.clear()
    edit(view, "identity:soul", SOUL + "ab", 2)
    sent = [name for update in wire.updates for name in update]
    assert "_esm" not in sent
    assert "columns" not in sent
    assert sent.count("text") == 1
    assert len(json.dumps(wire.updates)) < 6_000


def test_static_and_text_twins_say_the_same(view: PromptView) -> None:
    edit(view, "identity:soul", "New.\n")
    bundle = view._repr_mimebundle_()
    assert WIDGET in bundle
    for form in (bundle["text/html"], bundle["text/plain"]):
        for said in (
            "identity:soul *",
            "SOUL.md",
            "1 edit in variant draft",
            "Problems: none.",
            "No two turns",
        ):
            assert said in form
    assert "{+New.+}" in bundle["text/plain"] or "+ New." in bundle["text/plain"]


class Shell:
    kernel = object()


def test_a_prompt_shows_itself_live_in_a_kernel_once_per_mode(lab: Lab, wire: Any) -> None:
    assert WIDGET not in lab.prompt()._repr_mimebundle_()
    load(Shell())
    try:
        first = lab.prompt()._repr_mimebundle_()
        again = lab.prompt()._repr_mimebundle_()
        cron = lab.prompt("cron")._repr_mimebundle_()
        assert first[WIDGET] == again[WIDGET]
        assert cron[WIDGET] != first[WIDGET]
        assert "Sections in the order the model reads them" in first["text/html"]
        variant = lab.variant("v").section("identity:soul", "x")
        shown = variant._repr_mimebundle_()[WIDGET]
        edited = lab.prompt(variant="v")
        assert edited._repr_mimebundle_()[WIDGET] == shown
        assert lab.requests().divergences()._repr_mimebundle_()[WIDGET]
        variant.close()
        assert WIDGET not in edited._repr_mimebundle_(), "a snapshot of a variant that is gone"
        assert WIDGET not in variant._repr_mimebundle_()
    finally:
        unload()
        register_widget(object, None)
    assert wire.alive == set()


def test_closing_frees_everything_and_a_late_edit_is_ignored(view: PromptView, wire: Any, lab: Lab) -> None:
    view.close()
    assert wire.alive == set()
    edit(view, "identity:soul", "late")
    assert view.desk.variant is None
    view.close()


def test_bad_messages_do_nothing(view: PromptView) -> None:
    for content in (
        None,
        [],
        {},
        {"kind": "edit"},
        {"kind": "edit", "section": 3, "text": "x"},
        {"kind": "select"},
    ):
        view._on_message(view.editor, content, [])
    edit(view, "no:such", "x")
    assert view.desk.variant is None
    assert view.editor.selected == "identity:soul"


def test_a_broken_configuration_is_one_line(lab: Lab, agent: AgentHome, wire: Any) -> None:
    agent.config_path.write_text("nonsense: 1\n")
    view = PromptView(lab)
    assert "nonsense" in top(view)
    edit(view, "identity:soul", "x")
    assert view.desk.variant is None


def test_desk_drafts_do_not_take_over_edits_somebody_else_made(lab: Lab) -> None:
    lab.variant("draft").section("identity:soul", "Mine.")
    desk = PromptDesk(lab)
    desk.read()
    desk.edit("identity:user", "Bob.\n")
    assert desk.variant is not None
    assert desk.variant.name == "draft-2"
    assert lab.variant("draft").sections == {"identity:soul": "Mine."}
