"""The prompt view beside recorded turns: what is cached, what an edit breaks, what a turn was told, where two part."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from rightlab.clock import iso
from rightlab.home import Home
from rightlab.lab import Lab
from rightlab.runtime.setup import make_agent
from rightlab.store import Store
from rightlab.views import DivergenceView, PromptView
from rightlab.views.prompt_desk import PromptDesk
from rightlab.views.prompt_page import header, page
from rightlab.views.prompt_rows import Against

MODEL = "claude-sonnet-4-5"


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    agent = make_agent(
        Home.resolve(tmp_path / "home"), "alice", bootstrap=False, overrides={"sandbox.mode": "none"}
    )
    (agent.guest_dir / "SOUL.md").write_text("Kind. " * 500 + "\n")
    (agent.guest_dir / "USER.md").write_text("Ann.\n")
    made = Lab(agent)
    for number in (1, 2, 3):
        say(made, number)
    return made


def say(lab: Lab, number: int) -> None:
    """Record a turn as the gateway and the turn runner do: the request of the prompt as it is now, and its row."""
    parts = lab.prompt().parts()
    kept = {"type": "ephemeral"}
    messages = [
        {"role": "user", "content": [{"type": "text", "text": f"message {n}"}]} for n in range(1, number + 1)
    ]
    messages[-1]["content"][0]["cache_control"] = kept
    body = {
        "model": MODEL,
        "tools": [
            {"name": "Read", "description": "Reads a file. " * 200, "input_schema": {"type": "object"}}
        ],
        "system": [{"type": "text", "text": lab.prompt().render(), "cache_control": kept}],
        "messages": messages,
    }
    at = datetime.now(UTC) - timedelta(minutes=4 - number)
    key = f"{number:032x}"
    folder = lab.agent.recordings_dir / f"{at:%Y%m%dT%H%M%S.%f}Z-{key}"
    folder.mkdir(parents=True)
    summary = {
        "number": 1,
        "invocation_id": key,
        "session_id": "one",
        "at": iso(at),
        "path": "/v1/messages",
        "model": MODEL,
        "scripted": True,
    }
    (folder / "0001.json").write_text(json.dumps(summary))
    (folder / "0001.request.json").write_text(json.dumps(body))
    with Store.open(lab.agent.db_path, role="owner") as store:
        store.transact(
            lambda tx: tx.run(
                "INSERT INTO turns (turn_id, channel, chat_id, status, messages_json, invocation_id, sections_json,"
                " started_at) VALUES (?, 'notebook', 7, 'delivered', '[]', ?, ?, ?)",
                *(f"t{number}", key, json.dumps([one.to_json() for one in parts]), iso(at)),
            )
        )


def desk(lab: Lab, **options: Any) -> PromptDesk:
    made = PromptDesk(lab, **options)
    made.read()
    assert made.take(made.inspect())
    return made


def test_what_was_sent_is_cached_and_an_edit_breaks_it_there(lab: Lab) -> None:
    made = desk(lab)
    assert set(made.effect.cached.values()) == {"yes"}
    assert "stable prefix 100 % over 3 recorded requests" in header(made).title
    made.edit("identity:soul", "Terse.\n")
    made.take(made.inspect())
    cached = made.effect.cached
    assert cached["harness:identity"] == "same"
    assert cached["identity:soul"].startswith("breaks here: +")
    assert "$0." in cached["identity:soul"]
    assert cached["identity:user"] == "behind it"
    assert "tokens again, $0." in made.effect.sentence
    assert "source: scripted model" in page(made).text()


def test_a_file_that_changed_since_breaks_it_without_any_edit(lab: Lab) -> None:
    """An edited SOUL.md reaches the very next turn, and the lab says what that does to the cache."""
    (lab.agent.guest_dir / "USER.md").write_text("Bob.\n")
    made = desk(lab)
    assert made.effect.cached["identity:soul"] == "same"
    assert made.effect.cached["identity:user"].startswith("breaks here")
    assert made.variant is None


def test_a_new_section_breaks_it_too(lab: Lab) -> None:
    made = desk(lab)
    made.edit("identity:tools", "A hammer.\n")
    made.take(made.inspect())
    assert made.effect.cached["identity:tools"] == "breaks here"
    assert made.effect.cached["identity:user"] == "same"
    assert made.effect.cached["right:notice-token"] == "behind it"


def test_an_answer_for_an_earlier_edit_is_thrown_away(lab: Lab) -> None:
    made = desk(lab)
    late = made.inspect()
    made.edit("identity:soul", "Terse.\n")
    assert not made.take(late)


def test_a_request_recorded_meanwhile_is_read(lab: Lab) -> None:
    made = desk(lab)
    same = made.traffic
    made.take(made.inspect())
    assert made.traffic is same
    say(lab, 4)
    made.take(made.inspect())
    assert made.traffic.turns == (1, 2, 3, 4)


def test_compared_with_what_a_turn_was_told(lab: Lab) -> None:
    (lab.agent.guest_dir / "SOUL.md").write_text("Changed since.\n")
    made = desk(lab, against=Against("turn", "2"))
    assert {row.name: row.change for row in made.rows if row.change} == {"identity:soul": "changed"}
    assert "1 section differs from turn 2" in header(made).sentence
    made.against = Against("turn", "99")
    made.read()
    assert made.rows


def test_cron_mode_has_no_traffic_of_its_own_here(lab: Lab) -> None:
    made = desk(lab, mode="cron")
    assert made.effect.now is None
    assert made.traffic.turns == (1, 2, 3)
    assert "stable prefix" not in header(made).title


def test_two_turns_are_picked_and_compared(lab: Lab, wire: Any) -> None:
    (lab.agent.guest_dir / "USER.md").write_text("Bob, since 2026-11-30.\n")
    say(lab, 4)
    view = PromptView(lab)
    shown = view.static().text()
    assert "turn 3 and turn 4 first differ in section" in shown
    assert "identity:user" in view.turns.html.value
    view.turns._from.value = 1
    view.turns._to.value = 2
    assert "turn 2 goes on exactly where turn 1 ends" in view.turns.html.value
    view.turns._to.value = 1
    assert "two different turns" in view.turns.html.value
    assert view.state_bytes < 100_000


def test_the_divergences_of_a_lab_are_a_view_of_their_own(lab: Lab, wire: Any) -> None:
    found = lab.requests().divergences()
    assert found == []
    assert "goes on where the one before it" in found.page().text()
    (lab.agent.guest_dir / "USER.md").write_text("Bob.\n")
    say(lab, 4)
    found = lab.requests().divergences()
    assert [one.name for one in found] == ["identity:user"]
    assert "1 time in 4 requests the cache was lost" in found.page().text()
    assert list(found.to_frame()["name"]) == ["identity:user"]
    view = DivergenceView.of(found)
    assert DivergenceView.of(found) is view
    assert "turn 3 → turn 4" in view.static().text()
    assert "First divergence" in view.static().text()


def test_nothing_recorded_says_what_would_fill_it(tmp_path: Path) -> None:
    agent = make_agent(
        Home.resolve(tmp_path / "none"), "bob", bootstrap=False, overrides={"sandbox.mode": "none"}
    )
    found = Lab(agent).requests().divergences()
    assert "No model request is recorded yet." in found.page().text()
    assert "rightlab ask bob" in found.page().text()
    made = desk(Lab(agent))
    assert made.effect.cached == {}


def test_the_tail_is_predicted_not_done(lab: Lab, wire: Any) -> None:
    view = PromptView(lab)
    view.desk.selected = "identity:soul"
    view._tail()
    for _ in range(500):
        if "What if" in view._note.value:
            break
        view._stop.wait(0.01)
    assert "identity:soul moved out of the system prompt" in view._note.value
    assert view.desk.variant is None


def test_equal_texts_of_another_comparison_get_their_own_name(lab: Lab) -> None:
    made = desk(lab, selected="identity:soul")
    made.edit("identity:soul", "Terse.\n")
    assert "the agent's own → variant draft" in made.preview()[0].text()
    made.against = Against("turn", "2")
    made.read()
    assert "turn 2 → variant draft" in made.preview()[0].text()
