"""Who gets in, where it listens, how it stops (design 6, pains 10)."""

import asyncio
import os
import stat
import threading
import time

import httpx
import pytest

from rightlab.claude.gateway import Gateway
from rightlab.errors import GatewayError
from rightlab.home.sockets import open_unix


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/messages"),
        ("PUT", "/v1/messages"),
        ("POST", "/v1/messages/"),
        ("POST", "/v1/messages/batches"),
        ("POST", "/v1/complete"),
        ("POST", "/v1/models"),
        ("GET", "/"),
        ("POST", "//v1/messages"),
        ("POST", "/V1/messages"),
    ],
)
async def test_everything_else_is_403(client, method, path):
    async with Gateway(upstream="scripted:builtin") as gateway:
        headers = {"x-api-key": gateway.bearer}
        request = client.build_request(method, gateway.url, headers=headers, json={})
        request.url = request.url.copy_with(raw_path=path.encode())
        answer = await client.send(request)
        assert answer.status_code == 403
        assert answer.json()["error"]["type"] == "permission_error"
        assert not gateway.recent()


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"x-api-key": ""},
        {"x-api-key": "wrong"},
        {"authorization": "Bearer wrong"},
        {"authorization": "Bearer"},
        {"authorization": "Basic {bearer}"},
        {"x-api-key": "ä"},
    ],
)
async def test_the_wrong_bearer_is_403(client, body, headers):
    async with Gateway(upstream="scripted:builtin") as gateway:
        given = {key: value.format(bearer=gateway.bearer).encode() for key, value in headers.items()}
        answer = await client.post(f"{gateway.url}/v1/messages", json=body(), headers=given)
        assert answer.status_code == 403
        assert not gateway.recent()


@pytest.mark.parametrize("form", ["x-api-key", "authorization"])
async def test_both_forms_of_the_bearer_open(client, body, form):
    async with Gateway(upstream="scripted:builtin") as gateway:
        value = gateway.bearer if form == "x-api-key" else f"Bearer {gateway.bearer}"
        answer = await client.post(f"{gateway.url}/v1/messages", json=body(), headers={form: value})
        assert answer.status_code == 200


def test_each_gateway_has_a_bearer_of_its_own():
    assert Gateway(upstream="scripted:builtin").bearer != Gateway(upstream="scripted:builtin").bearer


async def test_answers_on_a_unix_socket_with_a_long_path(tmp_path, body):
    path = tmp_path / ("d" * 60) / ("e" * 60) / "gateway.sock"
    gateway = Gateway(upstream="scripted:builtin")
    await gateway.start(unix=path)
    try:
        assert gateway.url is None
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        reader, writer = await open_unix(path)
        content = httpx.Request("POST", "http://x", json=body()).content
        writer.write(
            b"POST /v1/messages HTTP/1.1\r\nHost: gateway\r\nConnection: close\r\nx-api-key: "
            + gateway.bearer.encode()
            + b"\r\ncontent-length: %d\r\n\r\n" % len(content)
            + content
        )
        answer = await asyncio.wait_for(reader.read(), 5)
        writer.close()
        assert answer.startswith(b"HTTP/1.1 200")
    finally:
        await gateway.stop()
    assert not path.exists()


async def test_listens_on_both_at_once(tmp_path, post, body):
    gateway = Gateway(upstream="scripted:builtin")
    await gateway.start(unix=tmp_path / "g.sock", tcp=True)
    try:
        assert (await post(gateway, body())).status_code == 200
        assert (tmp_path / "g.sock").is_socket()
    finally:
        await gateway.stop()
    assert gateway.url is None


async def test_needs_something_to_listen_on_and_starts_once():
    gateway = Gateway(upstream="scripted:builtin")
    with pytest.raises(GatewayError, match="nothing to listen on"):
        await gateway.start()
    async with gateway:
        with pytest.raises(GatewayError, match="already running"):
            await gateway.start(tcp=True)
    await gateway.stop()


async def test_can_be_started_again(post, body):
    gateway = Gateway(upstream="scripted:builtin")
    for _ in range(2):
        async with gateway:
            assert (await post(gateway, body())).status_code == 200


async def test_stops_fast_while_a_client_waits(body, client):
    gateway = Gateway(upstream="scripted:builtin")
    await gateway.start(tcp=True)
    headers = {"x-api-key": gateway.bearer, "X-Right-Invocation": "i"}
    call = asyncio.create_task(
        client.post(f"{gateway.url}/v1/messages", json=body("slow 30"), headers=headers)
    )
    async with asyncio.timeout(5):
        while not gateway.requests("i"):
            await asyncio.sleep(0.01)
    started = time.monotonic()
    await gateway.stop()
    assert time.monotonic() - started < 1.0
    with pytest.raises(httpx.HTTPError):
        await call
    assert gateway.requests("i")[0].outcome in ("cut", "client_gone")


def test_runs_in_a_thread_that_is_not_the_main_one_and_prints_nothing(body, capfd):
    """It must live on a kernel's host thread (design 7)."""
    status: list[int] = []

    async def work() -> None:
        async with Gateway(upstream="scripted:builtin") as gateway:
            headers = {"x-api-key": gateway.bearer}
            async with httpx.AsyncClient(trust_env=False) as http:
                for text in ("hello", "drop connection"):
                    try:
                        answer = await http.post(
                            f"{gateway.url}/v1/messages", json=body(text), headers=headers
                        )
                        status.append(answer.status_code)
                    except httpx.RemoteProtocolError:
                        status.append(0)

    thread = threading.Thread(target=lambda: asyncio.run(work()))
    thread.start()
    thread.join(20)
    assert status == [200, 0]
    assert capfd.readouterr() == ("", "")


async def test_a_body_that_is_too_large(monkeypatch, client, body):
    monkeypatch.setattr("rightlab.claude.gateway._MAX_BODY", 1000)
    async with Gateway(upstream="scripted:builtin") as gateway:
        headers = {"x-api-key": gateway.bearer}
        answer = await client.post(f"{gateway.url}/v1/messages", json=body("x" * 2000), headers=headers)
        assert answer.status_code == 413
        assert answer.json()["error"]["type"] == "request_too_large"


def test_says_that_it_is_scripted():
    gateway = Gateway(upstream="scripted:builtin")
    assert gateway.scripted
    assert "scripted" in gateway.describe()
    real = Gateway(upstream="https://api.anthropic.com")
    assert not real.scripted
    assert real.describe() == "forwards to https://api.anthropic.com"
