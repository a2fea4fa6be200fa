"""The base install: everything that reads and shows is there, what runs agents says in one line what to install."""

import subprocess
import sys

import pytest

BLOCKED = """
import sys
from rightlab.errors import RightlabError

class NotInstalled:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {blocked}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, NotInstalled())
try:
    {statement}
except RightlabError as error:
    print(error)
"""
AGENT = {"mcp", "mcp_types", "claude_agent_sdk", "uvicorn", "starlette"}


def said(statement: str, blocked: set[str] = AGENT) -> str:
    program = BLOCKED.format(blocked=blocked, statement=statement)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    ("statement", "what"),
    [
        ("from rightlab.testing import ScriptedModel", "rightlab.testing.ScriptedModel"),
        ("from rightlab.claude import Gateway", "rightlab.claude.Gateway"),
        ("from rightlab.mcp import Aggregator", "rightlab.mcp.Aggregator"),
    ],
)
def test_what_runs_agents_says_what_to_install(statement: str, what: str) -> None:
    line = said(statement)
    assert line.startswith(f"{what} needs the package starlette. ")
    assert "Install rightlab[agent]" in line
    assert line.count("\n") == 1


def test_up_names_the_package_and_not_a_module_of_it() -> None:
    line = said("from rightlab.runtime import host; host._runtime(None, host='test')", {"starlette"})
    assert "needs the package starlette. Install rightlab[agent]" in line
    assert line.count("\n") == 1


@pytest.mark.parametrize(
    "statement",
    [
        "from rightlab.testing import BotApi, FrozenClock, ScriptedTransport",
        "from rightlab.claude import ClaudeTransport, Invocation, parse_stream",
        "from rightlab.prompt import PromptRegistry; from rightlab.usage import price, summarize",
        "from rightlab.cron import next_fires; from rightlab.telegram import RichContent, split_text",
        "from rightlab.sandbox import open_sandbox; import rightlab; rightlab.open",
    ],
)
def test_the_base_install_has_the_rest(statement: str) -> None:
    assert said(statement) == ""


def test_another_missing_package_is_not_laid_on_the_extra() -> None:
    assert "ModuleNotFoundError: No module named 'orjson'" in said(
        "from rightlab.testing import ScriptedModel", {"orjson"}
    )
