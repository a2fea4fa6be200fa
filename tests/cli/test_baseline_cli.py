"""``baseline save|show|check`` and ``usage show`` over a ledger (contract)."""

import json
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import rightlab
from rightlab.errors import RunError
from rightlab.home import Home
from rightlab.runtime.setup import make_agent
from rightlab.testing.ledger import fill_ledger, usage_values

NOW = datetime.now(UTC)


def costs(base: float, days: range, each: int = 8, **values: object) -> list[dict[str, object]]:
    return [
        usage_values(NOW - timedelta(days=day), base * (0.8 + 0.05 * turn), **values)
        for day in days
        for turn in range(each)
    ]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home.resolve(tmp_path / "home")
    agent = make_agent(made, "alice", bootstrap=False, overrides={"gateway.upstream": "scripted:builtin"})
    fill_ledger(agent.db_path, costs(0.10, range(2, 9)))
    return made


@pytest.fixture
def run(home: Home, rightlab_command: list[str]) -> Callable[..., subprocess.CompletedProcess[str]]:
    def start(*args: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*rightlab_command, "--home", str(home.path), *args],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return start


def test_save_show_check(run, home: Home, tmp_path: Path) -> None:
    before = run("baseline", "show", "alice", "--json")
    assert before.returncode == 0, before.stderr
    assert json.loads(before.stdout)["saved"] is False

    saved = run("baseline", "save", "alice", "--json")
    assert saved.returncode == 0, saved.stderr
    document = json.loads(saved.stdout)
    path = home.path / "agents/alice/baselines/main.json"
    assert document["saved"] == str(path)
    assert document["n"] == document["cost_usd"]["n"] == 56
    assert json.loads(path.read_text())["cost_usd"]["p50"] == document["cost_usd"]["p50"]

    shown = json.loads(run("baseline", "show", "alice", "--json").stdout)
    assert (shown["saved"], shown["name"], shown["n"]) == (True, "main", 56)
    assert "Percentiles" in run("baseline", "show", "alice").stdout

    unsure = run("baseline", "check", "alice", "--json")
    assert unsure.returncode == 0, unsure.stderr
    assert json.loads(unsure.stdout)["verdict"] == "cannot tell"
    assert run("baseline", "check", "alice", "--strict").returncode == 1

    fill_ledger(home.agent("alice").db_path, costs(0.20, range(1), each=24))
    dearer = run("baseline", "check", "alice", "--json")
    assert dearer.returncode == 1
    found = json.loads(dearer.stdout)
    assert found["verdict"] == "dearer"
    assert found["change"]["low"] > 0
    assert "Dearer than baseline" in run("baseline", "check", "alice").stdout

    lab = rightlab.open("alice", home=home.path)
    assert lab.check_baseline().outcome == "dearer"
    assert lab.baseline().cost_usd is not None
    with pytest.raises(RunError, match="Dearer"):
        lab.check_baseline().require()


def test_a_store_outside_the_home_and_names(run, tmp_path: Path) -> None:
    folder = tmp_path / "repo" / "baselines"
    assert run("baseline", "save", "alice", "--store", str(folder), "--name", "weekly").returncode == 0
    assert [path.name for path in folder.iterdir()] == ["weekly.json"]
    assert run("baseline", "check", "alice", "--store", str(folder), "--name", "weekly").returncode == 0
    shown = run("baseline", "show", "alice", "--store", str(folder), "--name", "weekly", "--json")
    assert json.loads(shown.stdout)["name"] == "weekly"


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (("check", "alice"), 2),
        (("show", "alice", "--name", "none"), 2),
        (("save", "alice", "--name", "../x"), 2),
        (("save", "alice", "--days", "0"), 2),
        (("save", "alice", "--source", "everyone"), 2),
        (("save", "alice", "--tz", "Mars/Base"), 2),
        (("save", "nobody"), 2),
        (("save", "alice", "--source", "cron"), 1),
    ],
)
def test_what_fails_is_one_line_and_leaves_stdout_empty(run, args: tuple[str, ...], code: int) -> None:
    done = run("baseline", *args, "--json")
    assert (done.returncode, done.stdout) == (code, "")
    assert len(done.stderr.strip().splitlines()) == 1


def test_usage_show_groups_by_what_is_asked(run, home: Home) -> None:
    fill_ledger(
        home.agent("alice").db_path,
        [
            usage_values(NOW, 0.5, source="cron", job_name="nightly"),
            usage_values(NOW, None, model="claude-next-9"),
        ],
    )
    done = run("usage", "show", "alice", "--by", "source,model", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["by"] == ["source", "model"]
    assert {(group["source"], group["model"], group["n"]) for group in found["groups"]} == {
        ("interactive", "claude-sonnet-5-5", 56),
        ("cron", "claude-sonnet-5-5", 1),
        ("interactive", "claude-next-9", 1),
    }
    assert found["totals"]["n"] == 58
    assert found["unknown_models"] == ["claude-next-9"]
    text = run("usage", "show", "alice", "--by", "day", "--tz", "Europe/Berlin", "--days", "3").stdout
    assert "Europe/Berlin" in text
    assert "no known price: claude-next-9" in text
    assert run("usage", "show", "alice", "--by", "colour", "--json").returncode == 2
    assert run("usage", "show", "alice", "--tz", "Mars/Base").returncode == 2


def test_help_says_the_exit_codes(run) -> None:
    assert "1 when dearer" in " ".join(run("baseline", "check", "--help").stdout.split())
