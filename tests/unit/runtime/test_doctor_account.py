"""Doctor on the model's account: what it finds is what a turn would meet."""

from pathlib import Path

import pytest

from rightlab.claude import Result
from rightlab.claude.failures import failure_of, process_failure
from rightlab.home import AgentHome, Home
from rightlab.runtime.doctor import examine
from rightlab.runtime.setup import make_agent
from rightlab.testing import ScriptedModel

GOOD = "sk-ant-api03-the-good-one"


@pytest.fixture
def asked(tmp_path: Path):
    with ScriptedModel(credential=GOOD) as model:
        agent = make_agent(
            Home.resolve(tmp_path / "home"),
            "alice",
            bootstrap=False,
            overrides={"gateway.upstream": model.url},
        )
        yield agent


def _model(agent: AgentHome):
    return next(finding for finding in examine(agent).findings if finding.check == "model")


def test_a_refused_credential_fails_and_names_its_place(asked: AgentHome) -> None:
    asked.secrets().set("claude_credential", "sk-ant-wrong")
    found = _model(asked)
    assert found.level == "fail"
    assert str(asked.secrets_path) in found.detail
    assert "sk-ant-wrong" not in found.detail


def test_a_good_credential_passes(asked: AgentHome) -> None:
    asked.secrets().set("claude_credential", GOOD)
    assert _model(asked).level == "pass"


def test_what_our_gateway_says_is_shown_alone() -> None:
    said = (
        "Failed to authenticate. API Error: 401 rightlab gateway: this agent has no credential for the model."
    )
    failure = failure_of(Result(is_error=True, api_error_status=401, text=said))
    assert failure is not None
    assert failure.kind == "auth"
    assert str(failure) == "this agent has no credential for the model"


def test_the_clis_own_login_advice_is_left_out() -> None:
    assert "/login" not in str(process_failure(1, "Not logged in · Please run /login"))
