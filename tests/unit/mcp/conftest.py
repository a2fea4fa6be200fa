"""An aggregator on loopback and a client that speaks plain JSON-RPC to it."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx
import pytest

from rightlab.errors import ChannelError
from rightlab.mcp import Aggregator, InvocationRegistry, builtin_tools


class Chat:
    """A message port that keeps what it was given."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, int, str]] = []
        self.fail: ChannelError | None = None

    async def send_message(self, scope: Any, content: Any, attachments: Any) -> list[int]:
        if self.fail is not None:
            raise self.fail
        self.sent.append((scope.chat_id, scope.thread_id, content.plain_text()))
        return [100 + len(self.sent)]


@pytest.fixture
def chat() -> Chat:
    return Chat()


@pytest.fixture
def registry() -> InvocationRegistry:
    return InvocationRegistry()


@pytest.fixture
async def server(registry: InvocationRegistry) -> AsyncIterator[Aggregator]:
    found = Aggregator(registry, builtin_tools())
    await found.start(tcp=True)
    yield found
    await found.stop()


@pytest.fixture
async def rpc(server: Aggregator) -> AsyncIterator[Callable[..., Awaitable[httpx.Response]]]:
    async with httpx.AsyncClient(trust_env=False, timeout=10) as http:

        async def call(
            method: str, params: Any = None, *, invocation: str | None = None, bearer: str | None = None
        ) -> httpx.Response:
            headers = {
                "authorization": f"Bearer {server.bearer_of(invocation) if bearer is None else bearer}",
                "accept": "application/json, text/event-stream",
                "mcp-protocol-version": "2025-06-18",
            }
            if invocation is not None:
                headers["X-Right-Invocation"] = invocation
            document = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}}
            return await http.post(f"{server.url}/mcp", json=document, headers=headers)

        yield call


@pytest.fixture
def call(rpc: Callable[..., Awaitable[httpx.Response]]) -> Callable[..., Awaitable[tuple[bool, Any]]]:
    """Calls a tool: (is_error, the JSON document it answered)."""

    async def run(tool: str, arguments: Any = None, invocation: str | None = None) -> tuple[bool, Any]:
        answer = await rpc("tools/call", {"name": tool, "arguments": arguments or {}}, invocation=invocation)
        result = answer.json()["result"]
        (block,) = result["content"]
        return bool(result.get("isError")), json.loads(block["text"])

    return run
