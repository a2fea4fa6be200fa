"""What doctor says, line by line."""

from pathlib import Path

import pytest

from rightlab.home import AgentHome, Home
from rightlab.runtime.doctor import Finding, examine
from rightlab.runtime.setup import make_agent


@pytest.fixture
def agent(tmp_path: Path) -> AgentHome:
    return make_agent(
        Home.resolve(tmp_path / "home"),
        "alice",
        telegram_token="1:aaa",
        bootstrap=False,
        overrides={"gateway.upstream": "scripted:builtin", "telegram.api_base": "http://127.0.0.1:9"},
    )


def found(agent: AgentHome, check: str) -> Finding:
    [finding] = [one for one in examine(agent).findings if one.check == check]
    return finding


@pytest.mark.sandbox
def test_the_sandbox_is_named_once(agent: AgentHome) -> None:
    finding = found(agent, "sandbox")
    assert finding.level == "pass"
    assert finding.detail.count("bwrap") == 1
    assert finding.detail.startswith("bwrap: works")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602])
def test_secrets_that_others_reach_are_a_failure(agent: AgentHome, mode: int) -> None:
    agent.secrets_path.chmod(mode)
    finding = found(agent, "secrets.json")
    assert (finding.level, finding.fix) == ("fail", f"chmod 600 {agent.secrets_path}")
    assert f"mode {mode:o}" in finding.detail


def test_names_of_secrets_are_told_and_no_values(agent: AgentHome) -> None:
    finding = found(agent, "secrets.json")
    assert (finding.level, finding.detail) == ("pass", "telegram_token")
