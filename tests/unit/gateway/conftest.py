"""Shared by the gateway's tests: a request body, a client, and a raw upstream that misbehaves on demand."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx
import pytest

API = {"anthropic-version": "2023-06-01", "content-type": "application/json"}

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def _body(text: str = "hello", **extra: Any) -> dict[str, Any]:
    return {
        "model": "claude-sonnet-5-5",
        "max_tokens": 1024,
        "messages": [{"role": "user", "content": text}],
        **extra,
    }


@pytest.fixture
def body() -> Callable[..., dict[str, Any]]:
    return _body


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    limits = httpx.Limits(max_connections=200)
    async with httpx.AsyncClient(timeout=20, trust_env=False, limits=limits) as found:
        yield found


@pytest.fixture
def post(client: httpx.AsyncClient) -> Callable[..., Awaitable[httpx.Response]]:
    async def send(gateway: Any, document: Any, path: str = "/v1/messages?beta=true", **headers: str) -> Any:
        given = {**API, "x-api-key": gateway.bearer, **headers}
        return await client.post(f"{gateway.url}{path}", json=document, headers=given)

    return send


@pytest.fixture
async def raw_upstream() -> AsyncIterator[Callable[[Handler], Awaitable[str]]]:
    """Starts a server that speaks bytes: ``await raw_upstream(handler)`` gives its URL."""
    async with contextlib.AsyncExitStack() as stack:

        async def start(handler: Handler) -> str:
            async def guarded(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                    await handler(reader, writer)
                writer.close()

            server = await asyncio.start_server(guarded, "127.0.0.1", 0)
            stack.callback(server.close)
            return f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"

        yield start


async def read_request(reader: asyncio.StreamReader) -> tuple[dict[str, str], bytes]:
    """One HTTP request: lower-case headers and the body."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {}
    for line in head[1:]:
        if ":" in line:
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()
    headers[":request"] = head[0]
    return headers, await reader.readexactly(int(headers.get("content-length", 0)))


@pytest.fixture
def read() -> Callable[[asyncio.StreamReader], Awaitable[tuple[dict[str, str], bytes]]]:
    return read_request
