"""Overview, costs and skills: what they find in data.db and the agent's folder, and what they refuse to do."""

import os
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from rightlab.clock import iso
from rightlab.errors import UsageError
from rightlab.home import AgentHome, Home, update_config
from rightlab.runtime.costs import read_costs
from rightlab.runtime.hub import HUB_VARIABLES, hub_warnings
from rightlab.runtime.overview import MOST_SIGNALS, read_overview
from rightlab.runtime.setup import make_agent
from rightlab.runtime.skills import MOST, PREVIEW_BYTES, read_skills
from rightlab.store import Store
from rightlab.testing import FrozenClock

NOW = datetime(2026, 6, 15, 12, 0, tzinfo=UTC)


@pytest.fixture
def agent(tmp_path: Path) -> AgentHome:
    made = make_agent(
        Home.resolve(tmp_path / "home"), "alice", overrides={"gateway.upstream": "scripted:builtin"}
    )
    # The built-in skills would stand in every inventory; these tests bring their own.
    shutil.rmtree(made.guest_dir / ".claude" / "skills")
    return made


@pytest.fixture
def store(agent: AgentHome) -> Iterator[Store]:
    with Store.open(agent.db_path, role="writer") as opened:
        yield opened


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock(NOW)


def insert(store: Store, table: str, **values: Any) -> None:
    marks = ", ".join("?" * len(values))
    store.transact(
        lambda tx: tx.run(f"INSERT INTO {table} ({', '.join(values)}) VALUES ({marks})", *values.values())
    )


def ago(**span: float) -> str:
    return iso(NOW - timedelta(**span))


def turn(store: Store, number: int, status: str, started: str, **more: Any) -> None:
    insert(
        store,
        "turns",
        **{
            "turn_id": f"t{number}",
            "channel": "notebook",
            "chat_id": 1,
            "status": status,
            "messages_json": "[]",
            "started_at": started,
            **more,
        },
    )


def run(store: Store, number: int, status: str, at: str, **more: Any) -> None:
    insert(
        store,
        "async_runs",
        **{
            "id": f"r{number}",
            "kind": "cron",
            "producer_ref": "nightly",
            "status": status,
            "created_at": at,
            "updated_at": at,
            **more,
        },
    )


def spend(store: Store, at: str, cost: float | None, **more: Any) -> None:
    insert(store, "usage_events", **{"ts": at, "source": "interactive", "total_cost_usd": cost, **more})


def part(store: Store, number: int, state: str, **more: Any) -> None:
    insert(store, "outbox", id=number, source="cron", chat_id=-100, state="waiting", created_at=ago(hours=1))
    values = {
        "outbox_id": number,
        "part": 0,
        "kind": "text",
        "text": "x",
        "state": state,
        "updated_at": ago(hours=1),
    }
    insert(store, "outbox_parts", **{**values, **more})


# -- overview ---------------------------------------------------------------------------------------------------


def test_quiet_agent(agent: AgentHome, clock: FrozenClock) -> None:
    overview = read_overview(agent, clock)
    text = overview.page().text()
    assert "No turn yet. No failure in 24 h. Nothing undelivered." in text
    assert "not available yet" in text
    assert overview.signals == ()
    assert overview.today is None


def test_what_is_under_way_failed_and_undelivered(agent: AgentHome, store: Store, clock: FrozenClock) -> None:
    turn(store, 1, "failed", ago(hours=2), finished_at=ago(hours=2), error="the model was overloaded")
    turn(store, 2, "lost", ago(hours=25), finished_at=ago(hours=25))
    turn(store, 3, "running", ago(minutes=5))
    run(store, 1, "failed", ago(hours=3), finished_at=ago(hours=3), reason="cell 2 raised")
    run(store, 2, "lost", ago(hours=4), finished_at=ago(hours=4))
    run(store, 3, "failed", ago(days=2), finished_at=ago(days=2))
    run(store, 4, "running", ago(minutes=1), started_at=ago(minutes=1))
    run(store, 5, "success", ago(minutes=9), finished_at=ago(minutes=8))
    part(store, 1, "uncertain", error="cut while it was being sent")
    part(store, 2, "sent", message_id=7)
    overview = read_overview(agent, clock)

    assert [(item.kind, item.why) for item in overview.failures] == [
        ("turn", "the model was overloaded"),
        ("run", "cell 2 raised"),
        ("run", "lost"),
    ]
    # Nobody owns the agent: the turn was cut, the run is a process of its own.
    assert [(item.kind, item.state) for item in overview.active] == [("turn", "cut"), ("run", "running")]
    assert [(item.chat_id, item.state) for item in overview.undelivered] == [(-100, "uncertain")]
    # As many failures are counted as are listed.
    page = overview.page().text()
    assert "3 failures in 24 h. 1 part undelivered." in page
    assert "Failures of the last 24 hours · 3 rows" in page
    assert "-100" in page
    moments = [signal.at for signal in overview.signals]
    assert moments == sorted(moments, reverse=True)
    assert {signal.level for signal in overview.signals} == {"bad", "warn", "info"}


def test_today_is_a_day_in_the_agents_zone(agent: AgentHome, store: Store, clock: FrozenClock) -> None:
    update_config(
        agent.config_path, {"timezone": "Pacific/Auckland"}
    )  # 00:00 of the 16th at the frozen moment
    spend(store, ago(minutes=1), 0.5)
    spend(store, ago(), 0.25)
    spend(store, ago(), None)
    today = read_overview(agent, clock).today
    assert today is not None
    assert (today.rows, today.cost_usd, today.unknown_costs) == (2, 0.25, 1)
    text = read_overview(agent, clock).page().text()
    assert "cost today (Pacific/Auckland)" in text
    assert "$0.25 in 2 invocations, the price of 1 is unknown" in text


def test_a_dear_day_is_a_signal_and_one_day_is_nothing_to_compare(
    agent: AgentHome, store: Store, clock: FrozenClock
) -> None:
    spend(store, ago(hours=1), 9.0)
    assert not [one for one in read_overview(agent, clock).signals if one.kind == "dear day"]
    for day in (1, 2, 3):
        spend(store, ago(days=day), 1.0)
    spend(store, ago(days=20), 8.0)  # dear too, and too long ago to tell
    found = [one for one in read_overview(agent, clock).signals if one.kind == "dear day"]
    assert [one.text for one in found] == ["2026-06-15 cost $9.00, 9.0 times the median day"]


def test_at_most_thirty_signals(agent: AgentHome, store: Store, clock: FrozenClock) -> None:
    for number in range(40):
        run(store, number, "failed", ago(minutes=number), finished_at=ago(minutes=number))
    overview = read_overview(agent, clock)
    assert len(overview.signals) == MOST_SIGNALS
    assert len(overview.failures) == 40
    assert overview.signals[0].at == ago()


def test_missed_slots_and_jobs_nobody_runs(agent: AgentHome, store: Store, clock: FrozenClock) -> None:
    from rightlab.runtime.crons import Crons

    Crons(agent).add("nightly", schedule="17 2 * * *", prompt="Hello")
    values = {"job_name": "nightly", "slot": ago(hours=9), "origin": "schedule", "created_at": ago(hours=9)}
    insert(store, "cron_slots", **values, status="missed", reason="nobody was up", updated_at=ago(hours=1))
    texts = {signal.kind: signal.text for signal in read_overview(agent, clock).signals}
    assert texts["run missed"] == "nightly: nobody was up"
    assert "nobody runs them" in texts["crons"]


def test_a_broken_configuration_is_said_on_the_page(agent: AgentHome, clock: FrozenClock) -> None:
    agent.config_path.write_text("modell: sonnet\n")
    overview = read_overview(agent, clock)
    assert overview.page().state == "error"
    assert "modell" in overview.page().text()


def test_it_runs_no_doctor_and_opens_no_sandbox(
    agent: AgentHome, clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    import subprocess

    def never(*args: Any, **more: Any) -> Any:
        raise AssertionError("looking must not run anything")

    monkeypatch.setattr("rightlab.runtime.doctor.examine", never)
    monkeypatch.setattr("rightlab.sandbox.open_sandbox", never)
    monkeypatch.setattr(subprocess, "Popen", never)
    before = {path: path.stat().st_mtime_ns for path in agent.root.rglob("*") if "data.db" not in path.name}
    read_overview(agent, clock).page().html()
    after = {path: path.stat().st_mtime_ns for path in agent.root.rglob("*") if "data.db" not in path.name}
    assert after == before


# -- costs ------------------------------------------------------------------------------------------------------


def test_groups_percentiles_and_unknown_prices(agent: AgentHome, store: Store, clock: FrozenClock) -> None:
    for number in range(20):
        spend(store, ago(hours=1), 0.01 * (number + 1), num_turns=2, wall_elapsed_ms=1000, model="m1")
    spend(store, ago(hours=1), None, source="cron", model="m2", job_name="nightly")
    costs = read_costs(agent, clock=clock)
    by = {group.key: group for group in costs.groups}
    mine = by[("interactive",)]
    assert mine.cost_usd == pytest.approx(2.1)
    assert mine.cost.p50 == pytest.approx(0.105)
    assert mine.cost.p99 == pytest.approx(0.2)
    cron = by[("cron",)]
    assert (cron.n, cron.cost_usd, cron.unknown, cron.cost.p50) == (1, None, 1, None)
    text = costs.page().text()
    assert "unknown + 1 unknown" not in text
    assert "21 invocations cost $2.10, 1 of them has no known price." in text
    assert "hazen" in text
    frame = costs.to_frame()
    assert list(frame["source"]) == ["interactive", "cron"]


def test_days_are_whole_and_in_the_asked_zone(agent: AgentHome, store: Store, clock: FrozenClock) -> None:
    spend(store, "2026-06-14T23:30:00.000000Z", 1.0)  # the 15th in Berlin
    spend(store, "2026-06-13T22:30:00.000000Z", 1.0)  # the 14th in Berlin
    spend(store, "2026-06-13T21:30:00.000000Z", 1.0)  # the 13th in Berlin: outside
    costs = read_costs(agent, days=1, by="day", tz="Europe/Berlin", clock=clock)
    assert [group.key for group in costs.groups] == [("2026-06-14",), ("2026-06-15",)]
    assert [group.key for group in read_costs(agent, days=1, by="day", clock=clock).groups] == [
        ("2026-06-14",)
    ]


def test_several_keys_and_some_sources(agent: AgentHome, store: Store, clock: FrozenClock) -> None:
    spend(store, ago(hours=1), 1.0, model="m1", chat_id=5)
    spend(store, ago(hours=1), 2.0, model="m2", source="cron", job_name="nightly")
    assert [group.key for group in read_costs(agent, by="source, model", clock=clock).groups] == [
        ("cron", "m2"),
        ("interactive", "m1"),
    ]
    only = read_costs(agent, by=("cron", "chat"), sources="cron", clock=clock)
    assert [group.key for group in only.groups] == [("nightly", "–")]
    assert read_costs(agent, sources=["experiment"], clock=clock).page().state == "empty"


@pytest.mark.parametrize("by", ["colour", "", "day,day", ()])
def test_unknown_keys_are_one_line(agent: AgentHome, by: Any) -> None:
    with pytest.raises(UsageError, match="cannot be grouped"):
        read_costs(agent, by=by)


def test_says_who_answered_and_how_it_was_paid(agent: AgentHome, store: Store, clock: FrozenClock) -> None:
    spend(store, ago(hours=1), 1.0, scripted=1, api_key_source="none")
    assert "API-equivalent" not in read_costs(agent, clock=clock).page().text()
    spend(store, ago(hours=1), 1.0, api_key_source="none")
    text = read_costs(agent, clock=clock).page().text()
    assert "subscription use is shown API-equivalent" in text
    assert "scripted model in 1 of 2" in text


# -- skills -----------------------------------------------------------------------------------------------------


def skill(agent: AgentHome, name: str, text: str | None = None) -> Path:
    folder = agent.guest_dir / ".claude/skills" / name
    folder.mkdir(parents=True)
    folder.joinpath("SKILL.md").write_text(
        text or f"---\nname: {name}\ndescription: Does {name}.\n---\nSteps.\n"
    )
    return folder


def test_groups_titles_and_sizes(agent: AgentHome) -> None:
    skill(agent, "right-cron")
    folder = skill(agent, "rightx-release-notes")
    folder.joinpath("scripts").mkdir()
    folder.joinpath("scripts/log.sh").write_bytes(b"x" * 100)
    skill(agent, "brewing", '---\ndescription: >\n  Tea and\n  coffee.\nname: "brewing"\nlicense: MIT\n---\n')
    skills = read_skills(agent)
    assert [(one.name, one.group, one.title) for one in skills] == [
        ("rightx-release-notes", "learned", "Release notes"),
        ("right-cron", "core", "Cron"),
        ("brewing", "other", "Brewing"),
    ]
    assert skills["rightx-release-notes"].files == 2
    assert skills["rightx-release-notes"].bytes > 100
    assert skills["brewing"].description == "Tea and coffee."
    assert "1 learned, 1 built in, 1 other." in skills.page().text()
    assert list(skills.to_frame()["name"]) == [one.name for one in skills]
    with pytest.raises(UsageError, match="no skill 'nope'"):
        skills["nope"]


def test_what_is_no_skill_says_why(agent: AgentHome) -> None:
    skill(agent, "plain", "no front matter\n")
    skill(agent, "half", "---\nname: half\n---\n")
    (agent.guest_dir / ".claude/skills/empty").mkdir()
    problems = {one.name: one.problem for one in read_skills(agent)}
    assert problems == {
        "plain": "SKILL.md names no name and no description",
        "half": "SKILL.md names no description",
        "empty": "has no SKILL.md that can be read",
    }
    assert "3 packages cannot be used" in read_skills(agent).page().text()


def test_links_planted_by_the_guest_are_not_followed(agent: AgentHome, tmp_path: Path) -> None:
    """Pain laude-institute/headlong PR#72: a symlink in the guest's folder must not show the host's files."""
    secret = tmp_path / "secret"
    secret.mkdir()
    secret.joinpath("SKILL.md").write_text("---\nname: s\ndescription: host secret\n---\n")
    folder = skill(agent, "linked")
    folder.joinpath("SKILL.md").unlink()
    folder.joinpath("SKILL.md").symlink_to(secret / "SKILL.md")
    folder.joinpath("more").symlink_to(secret)
    folder.parent.joinpath("whole").symlink_to(secret)
    os.mkfifo(skill(agent, "fifo") / "pipe")
    skills = read_skills(agent)
    assert [one.name for one in skills] == ["fifo", "linked"]
    assert skills["linked"].problem == "has no SKILL.md that can be read"
    assert "host secret" not in skills.page().html()


def test_a_linked_skills_folder_is_a_problem_and_not_an_empty_inventory(
    agent: AgentHome, tmp_path: Path
) -> None:
    agent.guest_dir.joinpath(".claude").mkdir(exist_ok=True)
    agent.guest_dir.joinpath(".claude/skills").symlink_to(tmp_path)
    skills = read_skills(agent)
    assert len(skills) == 0
    assert skills.page().state == "error"


def test_sizes_are_bounded(agent: AgentHome) -> None:
    head = "---\nname: huge\ndescription: " + "d" * 20_000 + "\n---\n"
    skill(agent, "huge", head + "x" * 2_000_000)
    for number in range(MOST + 5):
        (agent.guest_dir / f".claude/skills/z{number:03}").mkdir()
    skills = read_skills(agent)
    assert skills.total == MOST + 6
    assert len(skills) == MOST
    assert len(skills["huge"].preview) <= PREVIEW_BYTES
    assert len(skills["huge"].description) < 9_000
    assert f"{MOST} of {MOST + 6} rows" in skills.page().text()
    assert len(skills.page().html()) <= 100_000


def test_no_folder_is_no_skill(agent: AgentHome) -> None:
    assert read_skills(agent).page().state == "empty"


# -- hubs -------------------------------------------------------------------------------------------------------


def test_hubs_are_told_by_their_variables() -> None:
    assert hub_warnings({"PATH": "/bin", "JUPYTERHUB_SERVICE_PREFIX": ""}) == ()
    assert "JupyterHub" in hub_warnings({"JUPYTERHUB_API_URL": "http://hub"})[0]
    assert "Binder" in hub_warnings({"BINDER_LAUNCH_HOST": "x", "JUPYTERHUB_USER": "y"})[0]
    assert not [name for name in HUB_VARIABLES if "TOKEN" in name or "SECRET" in name]


def test_doctor_tells_memory_and_the_owners_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    import subprocess

    from rightlab.runtime import doctor

    found = doctor._memory()
    assert isinstance(found, str)
    assert found.endswith("available")
    children = [subprocess.Popen(["sleep", "30"]) for _ in range(2)]
    try:
        words = doctor._processes(os.getpid())
    finally:
        for child in children:
            child.kill()
            child.wait()
    assert int(words.split()[0]) >= 3
    assert "MB" in words
