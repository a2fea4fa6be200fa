"""The aggregator over HTTP: bearer, scope, kinds, limits, codes (spec agent-runtime 8.1-8.4)."""

import asyncio
import json
import subprocess
import sys

import httpx
import pytest

from rightlab.errors import ChannelError, UsageError
from rightlab.mcp import Aggregator, InvocationRegistry, Tool, builtin_tools
from rightlab.mcp.builtin import SendMessage
from rightlab.mcp.tools import NoParams, Params, input_schema

HELLO = {"content": {"text": "hello"}}


def code(answer):
    failed, document = answer
    assert failed
    assert set(document) == {"error"}
    return document["error"]["code"]


@pytest.mark.parametrize("bearer", ["x", "wrong", "right-" + "x" * 43])
async def test_the_wrong_bearer_is_401(rpc, bearer):
    answer = await rpc("tools/list", bearer=bearer)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"


async def test_another_invocations_id_is_worth_nothing(server, rpc, registry, chat):
    """One running turn must not send as another one, whatever it knows of it."""
    registry.register("mine", "foreground", 1, messages=chat)
    registry.register("other", "foreground", 2, messages=chat)
    send = ("tools/call", {"name": "send_message", "arguments": HELLO})
    for bearer in (server.bearer_of("mine"), server.bearer):
        assert (await rpc(*send, invocation="other", bearer=bearer)).status_code == 401
    assert (await rpc(*send, bearer=server.bearer_of("mine"))).status_code == 401
    assert chat.sent == []
    async with httpx.AsyncClient(trust_env=False) as http:
        headers = [
            ("authorization", f"Bearer {server.bearer_of('mine')}"),
            ("accept", "application/json, text/event-stream"),
            ("x-right-invocation", "mine"),
            ("x-right-invocation", "other"),
        ]
        document = {"jsonrpc": "2.0", "id": 1, "method": send[0], "params": send[1]}
        await http.post(f"{server.url}/mcp", json=document, headers=headers)
    assert [chat_id for chat_id, _, _ in chat.sent] == [1]


async def test_no_bearer_and_other_paths(server):
    async with httpx.AsyncClient(trust_env=False) as http:
        assert (await http.post(f"{server.url}/mcp", json={})).status_code == 401
        assert (await http.get(f"{server.url}/")).status_code == 404
        assert (await http.get(f"{server.url}/.well-known/oauth-protected-resource")).status_code == 404


async def test_each_agent_has_a_bearer_of_its_own(registry):
    assert Aggregator(registry, ()).bearer != Aggregator(registry, ()).bearer


async def test_the_list_is_sorted_and_the_same_bytes_every_time(rpc):
    first = (await rpc("tools/list")).content
    assert (await rpc("tools/list", invocation="another")).content == first
    tools = json.loads(first)["result"]["tools"]
    assert [tool["name"] for tool in tools] == ["rightmeta__mcp_list", "send_message"]
    assert all(tool["inputSchema"]["additionalProperties"] is False for tool in tools)
    assert "title" not in json.dumps(tools)


def test_the_schemas_are_the_same_bytes_in_another_process():
    """The prompt cache depends on it; a set or hash order in the way would show here."""
    program = (
        "import json, rightlab.mcp as m, rightlab.mcp.tools as t;"
        "tools = m.builtin_tools();"
        "print(json.dumps([[x.name, x.summary, t.input_schema(x)] for x in tools]) + t.instructions(tools))"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program], env={"PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1
    assert len(outputs.pop()) > 500


def test_schema_and_parameters_name_the_same_things():
    for tool in builtin_tools():
        assert set(input_schema(tool)["properties"]) == set(tool.params.model_fields)


def test_instructions_come_from_the_table(registry):
    text = Aggregator(registry, builtin_tools()).instructions()
    assert "`send_message` (foreground turns only)" in text
    assert text.index("rightmeta__mcp_list") < text.index("send_message")


async def test_sends_into_the_scope_s_chat_and_nowhere_else(call, registry, chat):
    registry.register("inv", "foreground", 42, 7, "s", messages=chat)
    failed, answer = await call("send_message", HELLO, "inv")
    assert (failed, answer) == (False, {"message_ids": [101]})
    assert chat.sent == [(42, 7, "hello")]
    assert code(await call("send_message", {**HELLO, "chat_id": 1}, "inv")) == "invalid_argument"
    assert len(chat.sent) == 1


@pytest.mark.parametrize("invocation", [None, "", "unknown"])
async def test_no_running_invocation_is_no_scope(call, invocation):
    assert code(await call("send_message", HELLO, invocation)) == "conversation_scope_unavailable"


async def test_a_call_between_the_turns_of_a_warm_process_finds_no_scope(call, registry, chat):
    for _ in range(2):
        registry.register("warm", "foreground", 1, messages=chat)
        assert not (await call("send_message", HELLO, "warm"))[0]
        registry.unregister("warm")
        assert code(await call("send_message", HELLO, "warm")) == "conversation_scope_unavailable"


@pytest.mark.parametrize("kind", ["cron", "background", "delivery", "reflection", "probe_writer", "curator"])
async def test_only_foreground_turns_send_messages(call, registry, chat, kind):
    registry.register("inv", kind, 1, messages=chat)
    assert code(await call("send_message", HELLO, "inv")) == "send_message_forbidden"
    assert chat.sent == []


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, "send_message_empty"),
        ({"content": None, "attachments": []}, "send_message_empty"),
        ({"content": {"text": " "}}, "empty_content"),
        ({"content": {"text": "a", "html": "b"}}, "invalid_argument"),
        ({"content": "just text"}, "invalid_argument"),
        (
            {"content": {"blocks": [{"type": "heading", "level": 9, "runs": [{"text": "x"}]}]}},
            "invalid_argument",
        ),
        ({"attachments": [{"type": "photo", "path": "/etc/passwd"}]}, "send_message_bad_path"),
        ({"attachments": [{"type": "photo", "path": "/sandbox/outbox/../x"}]}, "send_message_bad_path"),
        ({"attachments": [{"type": "photo", "path": "/sandbox/outbox/"}]}, "send_message_bad_path"),
        ({"attachments": [{"type": "photo", "path": "/sandbox/outbox/a.png"}]}, "send_message_unavailable"),
        ({"attachments": [{"type": "poster", "path": "/sandbox/outbox/a.png"}]}, "invalid_argument"),
        ({"attachments": [{"type": "photo", "path": "/sandbox/outbox/a.png", "x": 1}]}, "invalid_argument"),
    ],
)
async def test_codes_of_a_bad_send_message(call, registry, chat, arguments, expected):
    registry.register("inv", "foreground", 1, messages=chat)
    assert code(await call("send_message", arguments, "inv")) == expected
    assert chat.sent == []


async def test_twenty_messages_per_turn_and_no_more_at_once(call, registry, chat):
    registry.register("inv", "foreground", 1, messages=chat)
    answers = await asyncio.gather(*(call("send_message", HELLO, "inv") for _ in range(25)))
    assert len(chat.sent) == 20
    refused = [document["error"]["code"] for failed, document in answers if failed]
    assert refused == ["send_message_limit"] * 5
    registry.unregister("inv")
    registry.register("inv", "foreground", 1, messages=chat)
    assert not (await call("send_message", HELLO, "inv"))[0]


async def test_a_channel_that_fails_and_one_that_takes_none(call, registry, chat):
    chat.fail = ChannelError("the chat is gone", where="telegram")
    registry.register("inv", "foreground", 1, messages=chat)
    answer = await call("send_message", HELLO, "inv")
    assert code(answer) == "send_message_failed"
    assert "the chat is gone" in answer[1]["error"]["message"]
    registry.register("none", "foreground", 1)
    assert code(await call("send_message", HELLO, "none")) == "send_message_unavailable"


async def test_a_timeout_says_that_the_message_may_be_out(registry):
    class Slow:
        async def send_message(self, scope, content, attachments):
            await asyncio.sleep(30)
            return []

    (tool,) = (tool for tool in builtin_tools() if tool.name == "send_message")
    assert tool.timeout == 30
    quick = Tool(**{name: getattr(tool, name) for name in Tool.__slots__} | {"timeout": 0.05})
    aggregator = Aggregator(registry, [quick])
    registry.register("inv", "foreground", 1, messages=Slow())
    answer = await aggregator.call(quick, HELLO, "inv")
    assert answer.code == "send_message_failed"
    assert answer.details == {"delivery_uncertain": True}


async def test_a_bug_of_ours_is_a_tool_failure_without_its_insides(registry, caplog):
    async def broken(context, params):
        raise ValueError("secret detail")

    tool = Tool("broken", "s", "a", NoParams, broken)
    answer = await Aggregator(registry, [tool]).call(tool, {}, None)
    assert answer.code == "tool_failed"
    assert "secret" not in answer.message
    assert "secret detail" in caplog.text


async def test_mcp_list_needs_no_scope(call, rpc):
    failed, answer = await call("rightmeta__mcp_list")
    assert not failed
    (own,) = answer["servers"]
    assert own["name"] == "right"
    listed = (await rpc("tools/list")).json()["result"]["tools"]
    assert own["tools"] == [tool["name"] for tool in listed]
    assert code(await call("rightmeta__mcp_list", {"x": 1})) == "invalid_argument"


async def test_mcp_list_shows_the_upstreams(registry):
    rows = [{"name": "docs", "status": "NeedsAuth", "tools": []}]
    tools = builtin_tools(servers=lambda: rows)
    answer = await Aggregator(registry, tools).call(tools[0], {}, None)
    assert [row["name"] for row in answer["servers"]] == ["right", "docs"]


async def test_an_unknown_tool_is_a_protocol_error(rpc):
    answer = (await rpc("tools/call", {"name": "mcp_add", "arguments": {}})).json()
    assert "result" not in answer
    assert "mcp_add" in answer["error"]["message"]


async def test_the_sdk_s_own_client_gets_on_with_it(server, registry, chat):
    from mcp import ClientSession
    from mcp.client.streamable_http import streamable_http_client

    registry.register("inv", "foreground", 5, messages=chat)
    headers = server.client_config("inv", server.url)["mcpServers"]["right"]["headers"]
    async with (
        httpx.AsyncClient(headers=headers, trust_env=False) as http,
        streamable_http_client(f"{server.url}/mcp", http_client=http) as streams,
        ClientSession(streams[0], streams[1]) as session,
    ):
        hello = await session.initialize()
        assert hello.server_info.name == "right"
        assert hello.instructions == server.instructions()
        names = [tool.name for tool in (await session.list_tools()).tools]
        assert names == ["rightmeta__mcp_list", "send_message"]
        result = await session.call_tool("send_message", HELLO)
        assert not result.is_error
    assert chat.sent == [(5, 0, "hello")]


async def test_on_a_unix_socket_and_started_again(tmp_path, registry):
    aggregator = Aggregator(registry, builtin_tools())
    for _ in range(2):
        await aggregator.start(unix=tmp_path / "mcp.sock")
        transport = httpx.AsyncHTTPTransport(uds=str(tmp_path / "mcp.sock"))
        async with httpx.AsyncClient(transport=transport) as http:
            answer = await http.post(
                "http://right.mcp/mcp",
                json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"},
                headers={
                    "authorization": f"Bearer {aggregator.bearer}",
                    "accept": "application/json, text/event-stream",
                },
            )
            assert answer.status_code == 200
        await aggregator.stop()
    assert not (tmp_path / "mcp.sock").exists()


def test_the_client_configuration(registry):
    aggregator = Aggregator(registry, (), bearer="b")
    bearer = aggregator.bearer_of("inv")
    assert bearer not in ("b", aggregator.bearer_of("other"), Aggregator(registry, ()).bearer_of("inv"))
    assert aggregator.client_config("inv", "http://10.0.0.1:3129/") == {
        "mcpServers": {
            "right": {
                "type": "http",
                "url": "http://10.0.0.1:3129/mcp",
                "headers": {"Authorization": f"Bearer {bearer}", "X-Right-Invocation": "inv"},
            }
        }
    }


def test_the_registry():
    registry = InvocationRegistry()
    scope = registry.register("a", "cron", 1, 2, "s")
    assert registry.lookup("a") is scope
    assert registry.running() == [scope]
    with pytest.raises(UsageError, match="running already"):
        registry.register("a", "foreground", 9)
    registry.unregister("a")
    registry.unregister("a")
    assert registry.lookup("a") is None
    assert registry.lookup(None) is None


def test_all_parameters_refuse_unknown_names():
    assert issubclass(SendMessage, Params)
    for tool in builtin_tools():
        assert tool.params.model_config["extra"] == "forbid"
