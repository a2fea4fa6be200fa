"""Forwarding: credentials, headers, streaming, failures (design 6, pains 10)."""

import asyncio
import contextlib
import gzip
import time

import httpx
import orjson
import pytest

from rightlab.claude.gateway import Gateway
from rightlab.claude.gateway_forward import check_upstream
from rightlab.errors import ConfigError, NotAvailable
from rightlab.testing import ScriptedModel

KEY = "sk-ant-api03-abcdefghijklmnopqrstuvwxyz"
OAUTH = "sk-ant-oat01-abcdefghijklmnopqrstuvwxyz"
HELLO = [{"match": "hello", "reply": "Hi there, this is a longer scripted answer."}]


async def test_forwards_with_the_api_key_and_without_the_placeholder(body, post):
    with ScriptedModel(HELLO, credential=KEY) as model:
        async with Gateway(upstream=model.url, credential=lambda: KEY) as gateway:
            answer = await post(gateway, body(), **{"X-Right-Invocation": "inv-1", "cookie": "a=b"})
            assert answer.status_code == 200
            assert answer.json()["content"][0]["text"].startswith("Hi there")
            seen = model.requests[0]
            assert seen.headers["x-api-key"] == KEY
            assert "authorization" not in seen.headers
            assert "x-right-invocation" not in seen.headers
            assert "cookie" not in seen.headers
            assert seen.query == "beta=true"
            assert gateway.bearer not in repr(seen)


async def test_the_body_goes_upstream_byte_for_byte(client):
    raw = b'{"model": "m",  "max_tokens": 5, "messages":[{"role":"user","content":"hello \\u00e4 \xc3\xa4"}]}'
    with ScriptedModel(HELLO) as model:
        async with Gateway(upstream=model.url, credential=lambda: KEY) as gateway:
            headers = {
                "x-api-key": gateway.bearer,
                "anthropic-version": "1",
                "content-type": "application/json",
            }
            answer = await client.post(f"{gateway.url}/v1/messages", content=raw, headers=headers)
            assert answer.status_code == 200
        assert model.requests[0].raw == raw


@pytest.mark.parametrize("sent", [None, "claude-code-20250219", "a,oauth-2025-04-20,b"])
async def test_an_oauth_token_goes_as_bearer_with_its_beta(body, post, sent):
    with ScriptedModel(HELLO, credential=OAUTH) as model:
        async with Gateway(upstream=model.url, credential=lambda: OAUTH) as gateway:
            headers = {"anthropic-beta": sent} if sent else {}
            assert (await post(gateway, body(), **headers)).status_code == 200
        seen = model.requests[0].headers
        assert seen["authorization"] == f"Bearer {OAUTH}"
        assert "x-api-key" not in seen
        betas = seen["anthropic-beta"].split(",")
        assert betas.count("oauth-2025-04-20") == 1
        assert set((sent or "").split(",")) - {""} <= set(betas)


async def test_the_credential_is_asked_for_every_request(body, post):
    current = ["old-key-123456"]
    with ScriptedModel(HELLO, credential="new-key-123456") as model:
        async with Gateway(upstream=model.url, credential=lambda: current[0]) as gateway:
            assert (await post(gateway, body())).status_code == 401
            current[0] = "new-key-123456"
            assert (await post(gateway, body())).status_code == 200
        assert len(model.requests) == 2


async def test_no_credential_is_a_401_of_the_api_for_the_real_upstream(body, post):
    async with Gateway(upstream="https://api.anthropic.com", credential=lambda: None) as gateway:
        answer = await post(gateway, body())
        assert answer.status_code == 401
        assert answer.headers["x-should-retry"] == "false"
        error = answer.json()
        assert error["type"] == "error"
        assert error["error"]["type"] == "authentication_error"
        assert "no credential" in error["error"]["message"]


async def test_no_credential_is_fine_for_an_upstream_on_this_machine(body, post, raw_upstream, read):
    seen = {}

    async def handler(reader, writer):
        headers, _ = await read(reader)
        seen.update(headers)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-type: application/json\r\n\r\n{}")

    async with Gateway(upstream=await raw_upstream(handler), credential=lambda: None) as gateway:
        assert (await post(gateway, body())).json() == {}
    assert "x-api-key" not in seen
    assert "authorization" not in seen
    assert seen["accept-encoding"] == "identity"


@pytest.mark.parametrize("value", ["two\nlines-of-it", "not ascii ä", "with space"])
async def test_a_broken_credential_is_refused_without_showing_it(body, post, value):
    async with Gateway(upstream="https://api.anthropic.com", credential=lambda: value) as gateway:
        answer = await post(gateway, body())
        assert answer.status_code == 401
        assert value not in answer.text


async def test_a_credential_source_that_fails_is_told(body, post):
    def broken() -> str:
        raise ConfigError("cannot be read", where="key.txt")

    async with Gateway(upstream="https://api.anthropic.com", credential=broken) as gateway:
        answer = await post(gateway, body())
        assert answer.status_code == 401
        assert "key.txt" in answer.json()["error"]["message"]


async def test_streams_without_buffering(body, client, raw_upstream, read):
    """The first chunk arrives while the upstream still holds the second back."""
    release = asyncio.Event()

    async def handler(reader, writer):
        await read(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nConnection: close\r\n\r\n")
        writer.write(b"event: ping\ndata: {}\n\n")
        await writer.drain()
        await release.wait()
        writer.write(b"event: message_stop\ndata: {}\n\n")
        writer.close()

    async with Gateway(upstream=await raw_upstream(handler)) as gateway:
        headers = {"authorization": f"Bearer {gateway.bearer}"}
        async with client.stream(
            "POST", f"{gateway.url}/v1/messages", json=body(stream=True), headers=headers
        ) as answer:
            assert "connection" not in {key.lower() for key in answer.headers if key == "close"}
            chunks = answer.aiter_raw()
            assert await asyncio.wait_for(anext(chunks), 5) == b"event: ping\ndata: {}\n\n"
            release.set()
            assert b"".join([chunk async for chunk in chunks]) == b"event: message_stop\ndata: {}\n\n"


@pytest.mark.parametrize("status", [400, 401, 403, 429, 529])
async def test_upstream_errors_pass_unchanged(body, post, status):
    rules = [{"error": {"status": status, "message": "as scripted", "retry_after": 7}}]
    with ScriptedModel(rules) as model:
        async with Gateway(upstream=model.url, credential=lambda: KEY) as gateway:
            answer = await post(gateway, body(), **{"X-Right-Invocation": "i"})
            assert answer.status_code == status
            assert answer.headers["retry-after"] == "7"
            assert answer.json()["error"]["message"] == "as scripted"
            record = gateway.requests("i")[0]
            assert (record.status, record.outcome) == (status, "complete")
            assert record.error["message"] == "as scripted"


async def test_an_unreachable_upstream_is_told_quickly(body, post):
    async with Gateway(upstream="http://127.0.0.1:9", credential=lambda: KEY) as gateway:
        started = time.monotonic()
        answer = await post(gateway, body(), **{"X-Right-Invocation": "i"})
        assert time.monotonic() - started < 2
        assert answer.status_code == 502
        error = answer.json()
        assert error["type"] == "error"
        assert error["error"]["type"] == "api_error"
        assert "cannot reach 127.0.0.1:9" in error["error"]["message"]
        assert KEY not in answer.text
        assert gateway.requests("i")[0].outcome == "unreachable"


async def test_an_upstream_that_closes_before_it_answers(body, post, raw_upstream, read):
    async def handler(reader, writer):
        await read(reader)
        writer.close()

    async with Gateway(upstream=await raw_upstream(handler)) as gateway:
        answer = await post(gateway, body())
        assert answer.status_code == 502
        assert "closed the connection" in answer.json()["error"]["message"]


async def test_an_upstream_cut_in_the_middle_is_a_cut_for_the_client(body, client):
    with ScriptedModel([{"reply": "x" * 400, "drop": "middle"}]) as model:
        async with Gateway(upstream=model.url, credential=lambda: KEY) as gateway:
            headers = {"x-api-key": gateway.bearer, "anthropic-version": "1", "X-Right-Invocation": "i"}
            received = b""
            async with client.stream(
                "POST", f"{gateway.url}/v1/messages", json=body(stream=True), headers=headers
            ) as answer:
                chunks = answer.aiter_raw()
                with contextlib.suppress(httpx.RemoteProtocolError):
                    while True:
                        received += await anext(chunks)
            assert b"message_start" in received
            assert b"message_stop" not in received
            record = gateway.requests("i")[0]
            assert record.outcome == "cut"
            assert record.usage["input_tokens"] > 0


async def test_a_client_that_leaves_cancels_the_upstream_request(body, client, raw_upstream, read):
    gone = asyncio.Event()

    async def handler(reader, writer):
        await read(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\nevent: ping\ndata: {}\n\n")
        await writer.drain()
        assert await reader.read(1) == b""
        gone.set()
        writer.close()

    async with Gateway(upstream=await raw_upstream(handler)) as gateway:
        headers = {"x-api-key": gateway.bearer, "X-Right-Invocation": "i"}
        async with client.stream(
            "POST", f"{gateway.url}/v1/messages", json=body(stream=True), headers=headers
        ) as answer:
            await anext(answer.aiter_raw())
        await asyncio.wait_for(gone.wait(), 5)
        assert gateway.requests("i")[0].outcome == "client_gone"


async def test_a_client_that_leaves_before_the_answer_cancels_too(body, client, raw_upstream, read):
    asked, gone = asyncio.Event(), asyncio.Event()

    async def handler(reader, writer):
        await read(reader)
        asked.set()
        assert await reader.read(1) == b""
        gone.set()
        writer.close()

    async with Gateway(upstream=await raw_upstream(handler)) as gateway:
        headers = {"x-api-key": gateway.bearer}
        call = asyncio.create_task(client.post(f"{gateway.url}/v1/messages", json=body(), headers=headers))
        await asyncio.wait_for(asked.wait(), 5)
        call.cancel()
        await asyncio.wait_for(gone.wait(), 5)


async def test_compressed_answers_pass_unchanged_and_are_still_read(body, client, raw_upstream, read):
    document = {"type": "message", "content": [], "usage": {"input_tokens": 12, "output_tokens": 3}}
    packed = gzip.compress(orjson.dumps(document))

    async def handler(reader, writer):
        await read(reader)
        writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-encoding: gzip\r\n"
            b"set-cookie: a=b\r\ncontent-length: %d\r\n\r\n%s" % (len(packed), packed)
        )

    async with Gateway(upstream=await raw_upstream(handler)) as gateway:
        headers = {"x-api-key": gateway.bearer, "X-Right-Invocation": "i"}
        async with client.stream(
            "POST", f"{gateway.url}/v1/messages", json=body(), headers=headers
        ) as answer:
            assert b"".join([chunk async for chunk in answer.aiter_raw()]) == packed
            assert answer.headers["content-encoding"] == "gzip"
            assert "set-cookie" not in answer.headers
        assert gateway.requests("i")[0].usage == {"input_tokens": 12, "output_tokens": 3}


async def test_a_redirect_is_not_followed(body, post, raw_upstream, read):
    async def handler(reader, writer):
        await read(reader)
        writer.write(b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n")

    async with Gateway(upstream=await raw_upstream(handler)) as gateway:
        answer = await post(gateway, body())
        assert answer.status_code == 502
        assert "redirect" in answer.json()["error"]["message"]


async def test_hop_by_hop_headers_stay_here(body, post, raw_upstream, read):
    seen = {}

    async def handler(reader, writer):
        headers, _ = await read(reader)
        seen.update(headers)
        writer.write(
            b"HTTP/1.1 200 OK\r\nConnection: close, x-private\r\nx-private: 1\r\nkeep-alive: timeout=9\r\n"
            b"request-id: req_1\r\ncontent-length: 2\r\ncontent-type: application/json\r\n\r\n{}"
        )
        writer.close()

    async with Gateway(upstream=await raw_upstream(handler)) as gateway:
        answer = await post(gateway, body(), connection="x-mine", **{"x-mine": "1", "te": "trailers"})
        assert answer.headers["request-id"] == "req_1"
        assert "x-private" not in answer.headers
        assert "keep-alive" not in answer.headers
    assert "x-mine" not in seen
    assert "te" not in seen


async def test_fifty_streams_at_once_without_loss(body, client):
    """50 streams at once without loss."""
    rules = [{"match": {"regex": r"number (\d+)"}, "reply": "answer {{1}} " + "y" * 500, "pace": 0.005}]
    with ScriptedModel(rules) as model:
        async with Gateway(upstream=model.url, credential=lambda: KEY) as gateway:

            async def one(number: int) -> None:
                headers = {
                    "x-api-key": gateway.bearer,
                    "anthropic-version": "1",
                    "X-Right-Invocation": f"inv-{number}",
                }
                document = body(f"number {number}.", stream=True)
                async with client.stream(
                    "POST", f"{gateway.url}/v1/messages", json=document, headers=headers
                ) as answer:
                    text = b"".join([chunk async for chunk in answer.aiter_raw()])
                assert text.rstrip().endswith(b'data: {"type":"message_stop"}')
                (record,) = gateway.requests(f"inv-{number}")
                assert record.outcome == "complete"
                content = record.response["content"][0]["text"]
                assert content == f"answer {number} " + "y" * 500

            await asyncio.gather(*(one(number) for number in range(50)))
        assert len(model.requests) == 50


@pytest.mark.parametrize(
    "upstream",
    [
        "http://api.anthropic.com",
        "http://10.0.0.1",
        "ftp://x",
        "anthropic",
        "https://u:p@host",
        "https://h/?q=1",
    ],
)
def test_upstreams_that_are_none(upstream):
    with pytest.raises(ConfigError, match=r"gateway\.upstream"):
        Gateway(upstream=upstream)


def test_upstreams_that_come_later_or_need_no_gateway():
    with pytest.raises(NotAvailable, match="not available yet"):
        Gateway(upstream="replay:folder")
    with pytest.raises(ConfigError, match="no gateway"):
        Gateway(upstream="direct")


def test_loopback_upstreams():
    assert check_upstream("http://127.0.0.1:8080")
    assert check_upstream("http://localhost:8080")
    assert not check_upstream("https://api.anthropic.com")


@pytest.mark.parametrize("status", [401, 500])
async def test_an_error_that_repeats_the_credential_does_not_tell_it_the_guest(
    body, post, raw_upstream, read, status
):
    async def echo(reader, writer):
        headers, _ = await read(reader)
        said = f'{{"error": {{"message": "bad key {headers["x-api-key"]}"}}}}'.encode()
        writer.write(
            f"HTTP/1.1 {status} No\r\ncontent-type: application/json\r\nx-key: {KEY}\r\n"
            f"content-length: {len(said)}\r\nconnection: close\r\n\r\n".encode()
            + said
        )
        await writer.drain()
        writer.close()

    url = await raw_upstream(echo)
    async with Gateway(upstream=url, credential=lambda: KEY) as gateway:
        answer = await post(gateway, body())
    assert answer.status_code == status
    assert KEY not in answer.text
    assert KEY not in str(answer.headers)
    assert "[redacted]" in answer.json()["error"]["message"]
