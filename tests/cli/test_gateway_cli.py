"""The real CLI through the gateway and the aggregator (spec platform B)."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rightlab.claude.gateway import Gateway
from rightlab.content import rich_content_schema
from rightlab.mcp import Aggregator, InvocationRegistry, builtin_tools
from rightlab.testing import ScriptedModel

pytestmark = pytest.mark.claude

SCHEMA = {
    "type": "object",
    "properties": {
        "content": {"anyOf": [*rich_content_schema()["anyOf"], {"type": "null"}]},
        "used_skill_receipts": {"type": "array", "items": {"type": "object"}},
    },
    "required": ["content", "used_skill_receipts"],
    "additionalProperties": False,
}


@dataclass
class Turn:
    code: int
    events: list[dict[str, Any]]
    stderr: str

    @property
    def result(self) -> dict[str, Any]:
        return next(event for event in reversed(self.events) if event["type"] == "result")

    @property
    def text(self) -> str:
        return str(self.result["structured_output"]["content"]["text"])

    @property
    def servers(self) -> dict[str, str]:
        init = next(event for event in self.events if event.get("subtype") == "init")
        return {server["name"]: server["status"] for server in init["mcp_servers"]}


@dataclass
class Cli:
    path: str
    home: Path

    async def turn(
        self,
        gateway: Gateway,
        text: str,
        *,
        mcp: dict[str, Any] | None = None,
        retries: int = 0,
        args: tuple[str, ...] = (),
        tools: str = "Bash",
        timeout: float = 60,
    ) -> Turn:
        env = {
            "PATH": "/usr/bin:/bin",
            "HOME": str(self.home),
            "ANTHROPIC_BASE_URL": gateway.url or "",
            "ANTHROPIC_API_KEY": gateway.bearer,
            "ANTHROPIC_CUSTOM_HEADERS": "X-Right-Invocation: inv-1",
            "CLAUDE_CODE_MAX_RETRIES": str(retries),
            "CLAUDE_CODE_ATTRIBUTION_HEADER": "0",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_TELEMETRY": "1",
            "DISABLE_AUTOUPDATER": "1",
            "ENABLE_TOOL_SEARCH": "false",
            "MCP_TIMEOUT": "5000",
            "IS_SANDBOX": "1",
        }
        config = self.home / "mcp.json"
        config.write_text(json.dumps(mcp or {"mcpServers": {}}))
        argv = [self.path, "-p", "--dangerously-skip-permissions", "--mcp-config", str(config)]
        argv += ["--strict-mcp-config", *args, "--model", "sonnet", "--verbose"]
        argv += ["--output-format", "stream-json", "--json-schema", json.dumps(SCHEMA), "--tools", tools]
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=env,
            cwd=self.home,
            start_new_session=True,
        )
        try:
            out, err = await asyncio.wait_for(process.communicate(text.encode()), timeout)
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
        events = [json.loads(line) for line in out.splitlines() if line.strip()]
        return Turn(process.returncode or 0, events, err.decode())


class Chat:
    def __init__(self) -> None:
        self.sent: list[tuple[int, int, str]] = []

    async def send_message(self, scope: Any, content: Any, attachments: Any) -> list[int]:
        self.sent.append((scope.chat_id, scope.thread_id, content.plain_text()))
        return [7]


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    import claude_agent_sdk

    path = Path(claude_agent_sdk.__file__).parent / "_bundled" / "claude"
    home = tmp_path / "home"
    home.mkdir()
    return Cli(str(path), home)


@pytest.fixture
async def gateway() -> AsyncIterator[Gateway]:
    async with Gateway(upstream="scripted:builtin") as found:
        yield found


@pytest.fixture
async def server() -> AsyncIterator[Aggregator]:
    found = Aggregator(InvocationRegistry(), builtin_tools())
    await found.start(tcp=True)
    yield found
    await found.stop()


async def test_a_structured_turn(cli, gateway):
    turn = await cli.turn(gateway, "hello there")
    assert turn.code == 0, turn.stderr
    assert "scripted" in turn.text
    assert turn.result["num_turns"] == 2
    (record,) = gateway.requests("inv-1")
    assert record.outcome == "complete"
    assert record.session_id == turn.result["session_id"]
    usage = turn.result["usage"]
    for key in ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"):
        assert usage[key] == record.usage[key]
    assert len(record.breakpoints) == 3
    assert record.model == turn.events[0]["model"]


async def test_the_second_turn_of_a_session_reads_what_the_first_wrote(cli, gateway):
    session = "0b7a5c1e-6f0d-4a52-9a53-8d6f0f1f5d11"
    first = await cli.turn(gateway, "hello", args=("--session-id", session))
    second = await cli.turn(gateway, "and again", args=("--resume", session))
    assert second.code == 0
    wrote = first.result["usage"]["cache_creation_input_tokens"]
    assert wrote > 1024
    assert second.result["usage"]["cache_read_input_tokens"] == wrote


async def test_a_bash_call_really_runs(cli, gateway):
    turn = await cli.turn(gateway, "remember that the kettle's on")
    assert "answered: - the kettle's on" in turn.text
    assert (cli.home / "MEMORY.md").read_text() == "- the kettle's on\n"
    assert [record.outcome for record in gateway.requests("inv-1")] == ["complete", "complete"]


async def test_tools_over_the_aggregator(cli, gateway, server):
    turn = await cli.turn(gateway, "which tools", mcp=server.client_config("inv-1", server.url), tools="")
    assert turn.servers == {"right": "connected"}
    assert 'rightmeta__mcp_list and it answered: {"servers":' in turn.text
    names = {tool["name"] for tool in gateway.requests("inv-1")[0].json["tools"]}
    assert {"mcp__right__rightmeta__mcp_list", "mcp__right__send_message"} <= names
    messages = json.dumps(gateway.requests("inv-1")[0].json["messages"])
    assert "Tools of this agent's platform" in messages


async def test_send_message_reaches_the_chat_of_its_invocation(cli, gateway, server):
    chat = Chat()
    server.registry.register("inv-1", "foreground", 42, 3, messages=chat)
    turn = await cli.turn(gateway, "send a postcard", mcp=server.client_config("inv-1", server.url))
    assert chat.sent == [(42, 3, "(scripted) a postcard")]
    assert "message_ids" in turn.text


async def test_send_message_without_a_running_invocation_is_refused(cli, gateway, server):
    turn = await cli.turn(gateway, "send a postcard", mcp=server.client_config("gone", server.url))
    assert "refused" in turn.text
    assert "conversation_scope_unavailable" in turn.text


async def test_a_wrong_bearer_shows_in_init_and_the_turn_goes_on(cli, gateway, server):
    config = server.client_config("inv-1", server.url)
    config["mcpServers"]["right"]["headers"]["Authorization"] = "Bearer wrong"
    turn = await cli.turn(gateway, "hello", mcp=config)
    assert turn.code == 0
    assert turn.servers == {"right": "failed"}


async def test_a_turn_forwarded_to_an_upstream_with_its_own_credential(cli):
    key = "sk-ant-api03-only-the-gateway-knows"
    with ScriptedModel(credential=key) as model:
        async with Gateway(upstream=model.url, credential=lambda: key) as gateway:
            turn = await cli.turn(gateway, "remember tea")
            assert "- tea" in turn.text
            assert [r.outcome for r in gateway.requests("inv-1")] == ["complete", "complete"]
            raw = [record.body for record in gateway.requests("inv-1")]
        assert [request.raw for request in model.requests] == raw
        assert all("x-right-invocation" not in request.headers for request in model.requests)
        assert all(request.headers["x-api-key"] == key for request in model.requests)
    home = b"".join(path.read_bytes() for path in cli.home.rglob("*") if path.is_file())
    assert key.encode() not in home


async def test_an_oauth_token_works_behind_a_plain_placeholder(cli):
    token = "sk-ant-oat01-only-the-gateway-knows"
    with ScriptedModel(credential=token) as model:
        async with Gateway(upstream=model.url, credential=lambda: token) as gateway:
            assert (await cli.turn(gateway, "hello")).code == 0
        (request,) = model.requests
        assert request.headers["authorization"] == f"Bearer {token}"
        assert "oauth-2025-04-20" in request.headers["anthropic-beta"]


@pytest.mark.parametrize("status", [400, 401, 403, 429, 529])
async def test_errors_of_the_api_end_the_turn(cli, gateway, status):
    turn = await cli.turn(gateway, f"error {status}")
    assert turn.code == 1
    assert turn.result["is_error"] is True
    assert turn.result["api_error_status"] == status
    assert {record.status for record in gateway.requests("inv-1")} == {status}


async def test_overload_then_a_limit_then_fine(cli):
    rules = [
        {
            "sequence": [
                {"error": {"status": 529}},
                {"error": {"status": 429, "retry_after": 1}},
                {"reply": "at last"},
            ]
        }
    ]
    with ScriptedModel(rules) as model:
        async with Gateway(upstream=model.url, credential=lambda: "k") as gateway:
            turn = await cli.turn(gateway, "hello", retries=3)
            assert turn.text == "at last"
            assert [record.status for record in gateway.requests("inv-1")] == [529, 429, 200]


async def test_no_credential_ends_the_turn_at_once(cli):
    async with Gateway(upstream="https://api.anthropic.com", credential=lambda: None) as gateway:
        started = asyncio.get_running_loop().time()
        turn = await cli.turn(gateway, "hello", retries=10)
        assert asyncio.get_running_loop().time() - started < 20
        assert turn.result["api_error_status"] == 401
        assert "no credential" in json.dumps(turn.events)
        assert {record.outcome for record in gateway.requests("inv-1")} == {"refused"}


async def test_an_unreachable_upstream_ends_the_turn(cli):
    async with Gateway(upstream="http://127.0.0.1:9", credential=lambda: "k") as gateway:
        turn = await cli.turn(gateway, "hello")
        assert turn.result["api_error_status"] == 502
        assert "cannot reach" in turn.result["result"]


@pytest.mark.parametrize("drop", ["start", "middle"])
async def test_a_connection_cut_is_survived_with_a_retry(cli, drop):
    rules = [{"times": 1, "reply": "lost " * 50, "drop": drop}, {"reply": "the second try"}]
    with ScriptedModel(rules) as model:
        async with Gateway(upstream=model.url, credential=lambda: "k") as gateway:
            turn = await cli.turn(gateway, "hello", retries=2)
            assert turn.text == "the second try"
            outcomes = [record.outcome for record in gateway.requests("inv-1")]
            assert outcomes[0] == ("unreachable" if drop == "start" else "cut")
            assert outcomes[-1] == "complete"


async def test_a_text_answer_is_nudged_into_the_schema(cli):
    rules = [{"match": {"step": 0}, "text": "just words"}, {"reply": "now in the schema"}]
    with ScriptedModel(rules) as model:
        async with Gateway(upstream=model.url, credential=lambda: "k") as gateway:
            turn = await cli.turn(gateway, "hello")
            assert turn.text == "now in the schema"
            assert len(gateway.requests("inv-1")) == 2
