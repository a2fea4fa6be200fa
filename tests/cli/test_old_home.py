"""Upgrade law: a home made by an earlier version is adopted by restart alone."""

import shutil
from pathlib import Path

import pytest

import rightlab

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
HOMES = sorted(path.name for path in FIXTURES.glob("home-*"))


@pytest.fixture(params=HOMES)
def old_home(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    home = tmp_path / "home"
    shutil.copytree(FIXTURES / request.param, home)
    (home / "agents/alice/secrets.json").chmod(0o600)
    return home


def test_there_is_a_kept_home() -> None:
    assert HOMES


@pytest.mark.claude
@pytest.mark.sandbox
def test_an_old_home_is_adopted_and_keeps_everything(old_home: Path) -> None:
    lab = rightlab.open("alice", home=old_home)
    turn = lab.ask("hello from the new version")
    assert turn.status == "delivered", turn.error
    frame = lab.turns(days=36500)
    assert list(frame.source).count("interactive") >= 3
    assert "cron" in set(frame.source)
    assert lab.crons.names() == ["note"]
    assert lab.crons.runs("note").rows[0].status == "success"
    assert lab.agent.allowlist().trusts(42)
    assert "tea" in lab.prompt().render()
    assert lab.status().problem is None
