"""The agent's own env file, whatever stands in it, and the real Claude Code (spec agent-runtime 1.5).

It is applied before each start of the CLI, filtered and within a few seconds, by the first program of the launch.
Nothing else of a turn may read it: what the agent writes there must neither keep it from being started nor lead the
CLI around the model gateway.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from rightlab.home import Home
from rightlab.runtime.agent import AgentRuntime
from rightlab.runtime.setup import make_agent

pytestmark = [pytest.mark.claude, pytest.mark.sandbox]

SHOW = {"name": "Bash", "input": {"command": "echo greeting=$GREETING", "description": "x"}}
RULES = [{"match": "look", "steps": [{"tools": [SHOW]}, {"reply": "saw {{tool_result}}"}]}, {"reply": "ok"}]
HOSTILE = {
    "ends": "exit 3",
    "hangs": "sleep 30",
    "holds the pipe": "setsid sleep 30 >&10 2>/dev/null & exec 1>&10",
    "leads away": "export GREETING=hi ANTHROPIC_BASE_URL=http://127.0.0.1:9 ANTHROPIC_API_KEY=x"
    " HTTPS_PROXY=http://127.0.0.1:9 CLAUDE_CONFIG_DIR=/tmp/elsewhere",
}


async def turn(folder: Path, mode: str, text: str, words: str) -> dict[str, Any]:
    script = folder / "script.yaml"
    script.write_text(json.dumps({"rules": RULES}))
    agent = make_agent(
        Home.resolve(folder / "home"),
        "alice",
        bootstrap=False,
        overrides={"gateway.upstream": f"scripted:{script}", "sandbox.mode": mode},
    )
    runtime = AgentRuntime(agent, brief=True)
    await runtime.start()
    try:
        (agent.guest_dir / ".right" / "env.local.sh").write_text(text + "\n")
        return dict(await runtime.handle("ask", {"text": words}))
    finally:
        await runtime.stop()


@pytest.mark.parametrize("mode", ["bwrap", "none"])
@pytest.mark.parametrize("name", HOSTILE)
async def test_a_hostile_env_file_harms_no_turn(tmp_path: Path, name: str, mode: str) -> None:
    answer = await turn(tmp_path, mode, HOSTILE[name], "hello")
    assert answer["error"] is None
    assert answer["status"] == "delivered"
    assert answer["reply"] == {"text": "ok"}
    assert answer["elapsed_ms"] < 20_000


@pytest.mark.parametrize("mode", ["bwrap", "none"])
async def test_what_it_may_set_reaches_the_agents_commands(tmp_path: Path, mode: str) -> None:
    answer = await turn(tmp_path, mode, HOSTILE["leads away"], "look")
    assert answer["reply"] == {"text": "saw greeting=hi"}
