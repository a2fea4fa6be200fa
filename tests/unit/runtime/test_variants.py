"""Variants, write-back, and what ``lab.prompt`` knows from recordings (contract "Python")."""

import os
from pathlib import Path

import pytest

import rightlab
from rightlab.errors import OwnershipError, UsageError
from rightlab.home import Home
from rightlab.lab import Lab
from rightlab.runtime.setup import make_agent

SOUL = "Kind and exact.\n"


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    agent = make_agent(Home.resolve(tmp_path / "home"), "alice", bootstrap=False)
    (agent.guest_dir / "SOUL.md").write_text(SOUL)
    (agent.guest_dir / "MEMORY.md").write_text("- likes tea\n")
    return rightlab.open("alice", home=tmp_path / "home")


def soul(lab: Lab) -> Path:
    return lab.agent.guest_dir / "SOUL.md"


def test_a_variant_shadows_a_file_s_section_and_the_agent_stays_as_it_is(lab):
    before = lab.prompt()
    with lab.variant("terse") as variant:
        variant.section("identity:soul", "Terse.\n")
        shown = lab.prompt("normal", variant="terse")
        assert shown["identity:soul"].rendered == "## Your Personality and Values\nTerse.\n"
        assert [one.name for one in shown.parts()] == [one.name for one in before.parts()]
        assert [one.owner for one in shown.parts()] == [one.owner for one in before.parts()]
        assert variant.prompt().render() == shown.render()
        assert lab.prompt(variant=variant).render() == shown.render()
        assert [(one.name, one.kind) for one in variant.diff().changes if one.kind != "same"] == [
            ("identity:soul", "changed")
        ]
        assert lab.prompt().render() == before.render()
        assert soul(lab).read_text() == SOUL
    assert variant.closed
    with pytest.raises(UsageError, match="no open variant 'terse'"):
        lab.prompt(variant="terse")
    with pytest.raises(UsageError, match="closed"):
        variant.section("identity:soul", "x")


def test_modes_and_frames_stay(lab):
    variant = lab.variant("v")
    variant.section("identity:soul", "Terse.").section("memory:long-term", "- likes coffee\n" * 300)
    assert "Terse." not in lab.prompt("bootstrap_question", variant="v").render()
    assert "coffee" not in lab.prompt("cron", variant="v").render()
    framed = lab.prompt(variant="v")["memory:long-term"].rendered
    assert framed.startswith("## Long-Term Memory\nSECURITY NOTICE:")
    assert framed.count("coffee") == 200
    variant.section("memory:long-term", " \n")
    assert "Long-Term Memory" not in lab.prompt(variant="v").render()
    variant.close()


def test_a_trial_of_the_same_bytes_gives_the_same_bytes(lab):
    with lab.variant("same") as variant:
        for name in ("identity:soul", "memory:long-term"):
            variant.section(name, variant.text(name))
        assert lab.prompt(variant="same").render_bytes() == lab.prompt().render_bytes()


def test_data_with_braces_is_literal_and_a_template_is_none(lab):
    with lab.variant("v") as variant:
        variant.section("identity:soul", "{{agent_name}} {{nobody}}").section(
            "harness:identity", "I am {{agent_name}}."
        )
        variant.variable("agent_name", "Zoe")
        text = lab.prompt(variant="v").render()
        assert text.startswith("I am Zoe.\n\n")
        assert "{{agent_name}} {{nobody}}" in text
        assert "I am" not in lab.prompt().render()


def test_new_sections_need_an_order_and_typos_are_named(lab):
    with lab.variant("v") as variant:
        with pytest.raises(UsageError, match="Did you mean 'identity:soul'"):
            variant.section("identity:sole", "x")
        variant.section("extra", "At the {{where}}.", order=5000).variable("where", "end")
        assert lab.prompt(variant="v").render().endswith("\n\nAt the end.")
        with pytest.raises(UsageError, match="cannot be the name of a variable"):
            variant.variable("Not Valid", "x")
        with pytest.raises(UsageError, match="must be text"):
            variant.section("identity:soul", 7)
        variant.revert("extra", "where")
        assert variant.sections == variant.variables == {}


def test_the_same_name_is_the_same_variant_of_one_agent(lab, tmp_path):
    one = lab.variant("v").section("identity:soul", "a")
    again = rightlab.open("alice", home=tmp_path / "home").variant("v")
    assert again is one
    make_agent(Home.resolve(tmp_path / "home"), "bob", bootstrap=False)
    other = rightlab.open("bob", home=tmp_path / "home")
    with pytest.raises(UsageError, match="no open variant"):
        other.prompt(variant="v")
    one.close()
    assert lab.variant("v").sections == {}
    lab.variant("v").close()


def test_write_back_shows_first_and_writes_with_a_backup(lab):
    variant = lab.variant("v").section("identity:soul", "Terse.\n")
    shown = variant.write_back("identity:soul")
    assert not shown.written
    assert soul(lab).read_text() == SOUL
    assert "Nothing is written yet" in shown.page().text()
    assert "+ Terse." in str(shown)
    done = variant.write_back("identity:soul", confirm=True)
    assert done.written
    assert soul(lab).read_text() == "Terse.\n"
    assert done.backup.read_text() == SOUL
    assert variant.sections == {}
    assert "Terse." in lab.prompt().render()
    variant.close()


def test_write_back_refuses_what_changed_since_it_was_shown(lab):
    variant = lab.variant("v").section("identity:soul", "Terse.\n")
    variant.write_back("identity:soul")
    soul(lab).write_text("The agent wrote this meanwhile.\n")
    with pytest.raises(UsageError, match=r"SOUL\.md was changed since its diff was shown"):
        variant.write_back("identity:soul", confirm=True)
    assert soul(lab).read_text() == "The agent wrote this meanwhile.\n"
    assert variant.write_back("identity:soul").before == "The agent wrote this meanwhile.\n"
    assert variant.write_back("identity:soul", confirm=True).written
    variant.close()


def test_only_files_can_be_written_back(lab):
    with lab.variant("v") as variant:
        variant.section("right:operating", "Do well.")
        with pytest.raises(UsageError, match="shows no file"):
            variant.write_back("right:operating", confirm=True)
        with pytest.raises(UsageError, match="no edited section"):
            variant.write_back("identity:user", confirm=True)


def test_write_back_makes_a_missing_file_and_follows_no_link(lab, tmp_path):
    with lab.variant("v") as variant:
        variant.section("identity:user", "Ann.\n")
        done = variant.write_back("identity:user", confirm=True)
        assert (done.written, done.backup) == (True, None)
        outside = tmp_path / "outside"
        outside.write_text("mine")
        soul(lab).unlink()
        os.symlink(outside, soul(lab))
        variant.section("identity:soul", "Terse.\n")
        variant.write_back("identity:soul", confirm=True)
        assert outside.read_text() == "mine"
        assert not soul(lab).is_symlink()
        assert soul(lab).read_text() == "Terse.\n"


def test_a_folder_in_the_way_is_one_line(lab):
    soul(lab).unlink()
    soul(lab).mkdir()
    with lab.variant("v") as variant:
        variant.section("identity:soul", "Terse.\n")
        with pytest.raises((UsageError, OwnershipError)):
            variant.write_back("identity:soul", confirm=True)


def test_the_linter_looks_at_the_variant(lab):
    with lab.variant("v") as variant:
        variant.section("identity:soul", "Current time: 10:15\n")
        assert [one.section for one in lab.lint(variant="v")] == ["identity:soul"]
        assert [one.section for one in variant.lint()] == ["identity:soul"]
        assert list(lab.lint()) == []


def test_without_recordings_nothing_is_claimed(lab):
    document = lab.prompt().to_json()
    assert {one["stability"] for one in document["sections"]} == {None}
    assert document["token_method"] == "estimate by character class, not a tokenizer"
    assert len(lab.requests()) == 0
    assert "No model request is recorded yet" in lab.requests().page().text()
    with pytest.raises(UsageError, match="no two recorded turns"):
        lab.divergence()
    with pytest.raises(UsageError, match="no recorded turn 7"):
        lab.divergence(7)
    with pytest.raises(UsageError, match="not enough to compare"):
        lab.requests().divergence()
    with pytest.raises(UsageError, match="at least one"):
        lab.requests(0)
    assert lab.variant("v").what_if().forecast().traces == ()
    lab.variant("v").close()


def test_every_form_is_there(lab):
    variant = lab.variant("v").section("identity:soul", "Terse.\n")
    for shown in (
        variant,
        variant.write_back("identity:soul"),
        lab.requests(),
        lab.lint(),
        variant.what_if(),
    ):
        bundle = shown._repr_mimebundle_()
        assert set(bundle) >= {"text/html", "text/plain"}
        assert len(bundle["text/html"]) < 100_000
    variant.close()
    assert "Closed" in variant.page().text()


async def test_prompt_works_inside_a_running_loop(lab):
    """A notebook cell runs inside the kernel's loop."""
    assert lab.prompt().render() == lab.prompt(variant=lab.variant("v")).render()
    lab.variant("v").close()


def test_huge_files_are_named_before_a_model_refuses_them(lab):
    (lab.agent.guest_dir / "USER.md").write_text("x" * 10_000_000)
    (lab.agent.guest_dir / "MEMORY.md").write_text("- a fact\n" * 1_200_000)
    assembly = lab.prompt()
    assert [(one.code, one.section, one.severity) for one in assembly.problems] == [
        ("huge_file", "identity:user", "warning")
    ]
    assert "USER.md brings 10.0 MB into every request" in assembly.problems[0].message
    assert assembly["memory:long-term"].bytes < 5_000
    assert ("oversized", "identity:user") in [(one.code, one.section) for one in lab.lint()]
