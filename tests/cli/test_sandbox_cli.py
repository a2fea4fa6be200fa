"""The real Claude Code CLI inside bwrap: model, tools and MCP through the sandbox's own doors."""

import json
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rightlab.claude import CliTransport, Gateway, Init, Invocation, Result, ToolResult, claude_env, find_cli
from rightlab.claude.scripted import load_script
from rightlab.errors import TurnFailed
from rightlab.mcp import Aggregator, InvocationRegistry, builtin_tools
from rightlab.sandbox import Sandbox, open_sandbox

pytestmark = [pytest.mark.claude, pytest.mark.sandbox]

PROBE = """
id -u; touch /usr/x 2>&1; echo work >/sandbox/made; ls /root /home 2>&1
curl -s -m 5 http://169.254.169.254/ 2>&1; echo; (exec 3<>/dev/tcp/1.1.1.1/443) 2>&1 | tail -1
"""
RULES = [
    {
        "match": "look around",
        "steps": [
            {
                "tools": [
                    {"name": "Bash", "input": {"command": PROBE, "description": "look"}},
                    {"name": "mcp__right__rightmeta__mcp_list", "input": {}},
                ]
            },
            {"reply": "Done."},
        ],
    },
    {"match": "hello", "reply": "Hello."},
]


@dataclass
class Lab:
    sandbox: Sandbox
    gateway: Gateway
    aggregator: Aggregator
    registry: InvocationRegistry
    base_url: str | None = None

    def transport(self, cli: str) -> CliTransport:
        def env(invocation: Invocation) -> dict[str, str]:
            return claude_env(
                base_url=self.base_url or self.sandbox.url("gateway"),
                bearer=self.gateway.bearer,
                config_dir=self.sandbox.config_dir,
                home=self.sandbox.guest_root,
                path=self.sandbox.path_env,
                invocation_id=invocation.invocation_id,
                max_retries=0,
            )

        return CliTransport(self.sandbox, cli, env)

    async def turn(self, text: str) -> list[Any]:
        invocation_id = f"inv-{uuid.uuid4().hex[:8]}"
        files = self.sandbox.files_dir / invocation_id
        files.mkdir()
        config = self.aggregator.client_config(invocation_id, self.sandbox.url("mcp"))
        (files / "mcp.json").write_text(json.dumps(config))
        invocation = Invocation(
            caller="worker",
            invocation_id=invocation_id,
            session_id=str(uuid.uuid4()),
            model="sonnet",
            mcp_config=f"{self.sandbox.files_at(files)}/mcp.json",
            files=files,
            tools=("Bash",),
            allowed_tools=("Bash", "mcp__right__*"),
            debug_dir=f"{self.sandbox.guest_root}/.claude/logs",
        )
        self.registry.register(invocation_id, "foreground", 1)
        try:
            run = self.transport(self.sandbox.tool("claude")).run(invocation, stdin=text, timeout=60)
            return [event async for event in run]
        finally:
            self.registry.unregister(invocation_id)


@pytest.fixture
async def lab(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Lab]:
    mode = getattr(request, "param", "bwrap")
    script = tmp_path / "script.yaml"
    script.write_text(json.dumps({"name": "test", "rules": RULES}))
    load_script(script)
    gateway = Gateway(upstream=f"scripted:{script}")
    registry = InvocationRegistry()
    aggregator = Aggregator(registry, builtin_tools())
    await gateway.start(unix=tmp_path / "gateway.sock", tcp=True)
    await aggregator.start(unix=tmp_path / "mcp.sock", tcp=True)
    sandbox = await open_sandbox(
        mode=mode,
        root=tmp_path / "agents" / "alice" / "sandbox",
        run_dir=tmp_path / "run",
        services={"gateway": tmp_path / "gateway.sock", "mcp": tmp_path / "mcp.sock"},
        service_urls={"gateway": gateway.url or "", "mcp": aggregator.url or ""},
        tools={"claude": find_cli().path},
        log=tmp_path / "egress.log",
    )
    yield Lab(sandbox, gateway, aggregator, registry)
    await sandbox.close()
    await aggregator.stop()
    await gateway.stop()


def texts(events: list[Any]) -> list[str]:
    return [event.text for event in events if isinstance(event, ToolResult)]


@pytest.mark.parametrize("lab", ["bwrap", "none"], indirect=True)
async def test_a_turn_with_tools_and_mcp(lab: Lab, tmp_path: Path) -> None:
    events = await lab.turn("hello")
    (init,) = [event for event in events if isinstance(event, Init)]
    assert init.mcp_status() == "connected"
    assert init.cwd == lab.sandbox.guest_root
    assert "mcp__right__rightmeta__mcp_list" in init.tools
    result = events[-1]
    assert isinstance(result, Result)
    assert not result.is_error
    sessions = tmp_path / "agents/alice/sandbox/.claude/projects"
    assert list(sessions.rglob("*.jsonl")), "the session is in the agent's own folder"


async def test_what_the_agents_own_tools_can_do(lab: Lab, tmp_path: Path) -> None:
    events = await lab.turn("look around")
    assert not events[-1].is_error
    shell = next(text for text in texts(events) if "1000" in text)
    assert "Read-only file system" in shell
    assert "cannot access '/root'" in shell
    assert "169.254.169.254:80 is refused: metadata" in shell
    assert "Network is unreachable" in shell
    assert any("Connected" in text for text in texts(events)), "the MCP tool answered"
    assert (tmp_path / "agents/alice/sandbox/made").read_text() == "work\n"
    lines = [json.loads(line) for line in (tmp_path / "egress.log").read_text().splitlines()]
    assert [line["host"] for line in lines] == ["169.254.169.254"], "and nothing else tried to get out"


async def test_the_model_is_reached_only_through_the_gateway(lab: Lab) -> None:
    """The host's own loopback is another one."""
    lab.base_url = lab.gateway.url
    try:
        events = await lab.turn("hello")
    except TurnFailed:
        return
    assert events[-1].is_error


async def test_the_bearer_is_all_the_guest_holds(lab: Lab) -> None:
    process = await lab.sandbox.spawn(["env"], env={})
    out, _ = await process.communicate()
    assert lab.gateway.bearer.encode() not in out
    assert lab.aggregator.bearer.encode() not in out


async def test_version_is_told_from_inside(lab: Lab) -> None:
    process = await lab.sandbox.spawn([lab.sandbox.tool("claude"), "--version"], env={})
    out, _ = await process.communicate()
    assert out.decode().startswith(find_cli().version)
