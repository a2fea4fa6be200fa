"""The agent panel over a real home: what it shows, what it asks before writing, what it follows."""

import os
import time
from pathlib import Path
from typing import Any

import pytest

from rightlab.home import AgentHome, Home
from rightlab.home.writers import write_agent_owned
from rightlab.html import Table
from rightlab.lab import Lab
from rightlab.views import StatusView
from rightlab.views.status import IDENTITY_FILES


@pytest.fixture
def agent(tmp_path: Path) -> AgentHome:
    made = Home.resolve(tmp_path / "home").create_agent(
        "alice", allow=[4711], sandbox="none", bootstrap=False
    )
    write_agent_owned(made.guest_dir / "IDENTITY.md", "I am Alice <b>and</b> careful.\n")
    return made


@pytest.fixture
def panel(agent: AgentHome, wire: Any) -> StatusView:
    return StatusView(Lab(agent))


def until(check: Any, seconds: float = 5.0) -> None:
    deadline = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


def html(panel: StatusView) -> str:
    return "".join(part.value for part in panel._parts)


def text(panel: StatusView) -> str:
    return str(panel._repr_mimebundle_()["text/plain"])


def note(panel: StatusView) -> str:
    return str(panel._note.value)


def press(confirm: Any, *, sure: bool = True) -> None:
    ask, asked = confirm.widget.children
    ask.click()
    asked.children[2 if sure else 1].click()


def test_shows_who_it_is_and_whether_it_lives(panel: StatusView) -> None:
    shown = text(panel)
    assert "alice \u00b7 down" in shown
    assert "No turn yet" in shown
    assert "I am Alice <b>and</b> careful." in shown
    assert "<b>and</b>" not in html(panel)
    assert "4711" in shown
    assert panel.state_bytes < 100_000


def test_huge_files_and_a_long_allowlist_keep_the_state_limit(panel: StatusView, agent: AgentHome) -> None:
    for name in IDENTITY_FILES:
        write_agent_owned(agent.guest_dir / name, "\U0001f600<&>" * 50_000)
    users = "".join(f"  - {{id: {n}, label: '<person {n}>'}}\n" for n in range(1, 2_000))
    agent.allowlist_path.write_text(f"version: 2\nusers:\n{users}groups: []\n")
    panel._report = Table([["x" * 300] * 4] * 200, ["a", "b", "c", "d"], caption="Checks")
    panel.refresh()
    assert panel.state_bytes <= 100_000
    assert "characters" in html(panel) or "Cut" in html(panel) or "limit" in html(panel)


def test_files_of_the_guest_are_read_without_following_links(
    panel: StatusView, agent: AgentHome, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("the host's own")
    os.symlink(secret, agent.guest_dir / "SOUL.md")
    panel.refresh()
    assert "the host's own" not in text(panel)


def test_follows_files_that_change(panel: StatusView, agent: AgentHome) -> None:
    write_agent_owned(agent.guest_dir / "USER.md", "Likes short answers.\n")
    until(lambda: "Likes short answers." in html(panel))


def test_allowing_asks_first_and_writes_once(panel: StatusView, agent: AgentHome) -> None:
    panel._who.value = "815"
    press(panel._allow, sure=False)
    assert not agent.allowlist().trusts(815)
    press(panel._allow)
    until(lambda: agent.allowlist().trusts(815))
    until(lambda: "815 is allowed." in note(panel))
    assert "815" in text(panel)
    press(panel._allow)
    until(lambda: "815 was allowed already." in note(panel))
    press(panel._deny)
    until(lambda: not agent.allowlist().trusts(815))


@pytest.mark.parametrize("typed", ["", "alice", "1.5"])
def test_something_that_is_no_id_is_refused_before_the_question(panel: StatusView, typed: str) -> None:
    panel._who.value = typed
    panel._allow.widget.children[0].click()
    assert not panel._allow.asking
    assert "is no Telegram id" in note(panel)


def test_an_id_the_allowlist_refuses_is_said_in_the_panel(panel: StatusView) -> None:
    panel._who.value = "0"
    press(panel._allow)
    until(lambda: "is no id of a user or a group" in note(panel))


def test_a_broken_allowlist_does_not_hide_the_rest(panel: StatusView, agent: AgentHome) -> None:
    agent.allowlist_path.write_text("users: 17\n")
    panel.refresh()
    assert "alice" in text(panel)
    assert "version" in text(panel)


def test_one_panel_per_agent(agent: AgentHome, wire: Any) -> None:
    first = StatusView.of(Lab(agent))
    assert StatusView.of(Lab(agent)) is first
    first.close()
    second = StatusView.of(Lab(agent))
    assert second is not first
    assert not second.closed


def test_doctor_runs_on_its_button_only(panel: StatusView, monkeypatch: pytest.MonkeyPatch) -> None:
    from rightlab.runtime import doctor

    asked: list[object] = []

    def examine(agent: AgentHome) -> doctor.Report:
        asked.append(agent)
        return doctor.Report(agent.name, (doctor.Finding("warn", "disk", "nearly full", "Free some space."),))

    monkeypatch.setattr(doctor, "examine", examine)
    panel.refresh()
    assert asked == []
    next(one for one in panel._controls.children if getattr(one, "description", "") == "Doctor").click()
    until(lambda: "Free some space." in html(panel))
    assert len(asked) == 1


def test_closing_ends_the_watch(panel: StatusView, agent: AgentHome) -> None:
    panel.close()
    write_agent_owned(agent.guest_dir / "USER.md", "changed\n")
    time.sleep(1.2)
    assert "changed" not in text(panel)
    assert panel._watch._stop.is_set()
