"""The egress proxy: what passes, what does not, and what is written down."""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from rightlab.errors import ConfigError
from rightlab.home.sockets import open_unix
from rightlab.sandbox.egress import EgressProxy, Limits
from rightlab.sandbox.egress_log import EgressLog
from rightlab.sandbox.egress_policy import EgressPolicy

PUBLIC = "93.184.216.34"


class Net:
    """DNS and the network of a test: names to addresses, and every public address leads to one server."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.names: dict[str, list[str]] = {"example.com": [PUBLIC]}
        self.asked: list[str] = []
        self.connected: list[tuple[str, int]] = []
        self.dead: set[str] = set()
        self.slow = 0.0

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        await asyncio.sleep(self.slow)
        if host not in self.names:
            raise OSError("no such name")
        return self.names[host]

    async def connect(self, address: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        self.connected.append((address, port))
        if address in self.dead:
            raise ConnectionRefusedError("refused")
        return await asyncio.open_connection("127.0.0.1", self.port)


Start = Callable[..., Awaitable[EgressProxy]]
Talk = Callable[..., Awaitable[bytes]]


@pytest.fixture
async def net(echo_server: int) -> Net:
    return Net(echo_server)


@pytest.fixture
async def start(tmp_path: Path, net: Net) -> AsyncIterator[Start]:
    started: list[EgressProxy] = []

    async def make(**options: Any) -> EgressProxy:
        options = {
            "resolver": net.resolve,
            "connector": net.connect,
            "log": tmp_path / "egress.log",
        } | options
        proxy = EgressProxy(tmp_path / "p.sock", agent="alice", **options)
        await proxy.start()
        started.append(proxy)
        return proxy

    yield make
    for proxy in started:
        await proxy.stop()


async def talk(proxy: EgressProxy, data: bytes, *, then: bytes = b"", eof: bool = True) -> bytes:
    reader, writer = await open_unix(proxy.path)
    with contextlib.suppress(OSError):
        writer.write(data)
        await writer.drain()
    if then:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(then)
    if eof:
        with contextlib.suppress(OSError):
            writer.write_eof()
    try:
        return await asyncio.wait_for(reader.read(), 10)
    finally:
        writer.close()


async def settled(read: Callable[[], list[dict[str, Any]]], count: int = 1) -> list[dict[str, Any]]:
    for _ in range(200):
        if len(read()) >= count:
            break
        await asyncio.sleep(0.01)
    return read()


def connect_to(authority: str) -> bytes:
    return f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n".encode()


async def test_connect_tunnels_to_the_checked_address(start: Start, net: Net, log_lines: Any) -> None:
    proxy = await start()
    assert await talk(proxy, connect_to("example.com:443"), then=b"hello\n") == b"echo hello\n"
    assert net.connected == [(PUBLIC, 443)]
    assert net.asked == ["example.com"], "the name is looked up once"
    (line,) = await settled(log_lines)
    assert line["verdict"] == "allow"
    assert (line["agent"], line["host"], line["port"], line["addr"]) == ("alice", "example.com", 443, PUBLIC)
    assert (line["sent"], line["received"], line["bytes"]) == (6, 11, 17)
    assert line["time"].endswith("Z")
    assert line["reason"] is None


async def test_data_that_comes_with_the_head_is_not_lost(start: Start) -> None:
    proxy = await start()
    answer = await talk(proxy, connect_to("example.com:443") + b"early\n")
    assert answer.endswith(b"\r\n\r\necho early\n")


async def test_absolute_form_is_sent_in_origin_form_with_our_host(start: Start, net: Net) -> None:
    proxy = await start()
    answer = await talk(
        proxy,
        b"GET http://Example.com:8080/a/b?c=d HTTP/1.1\r\nHost: evil.example\r\nProxy-Authorization: x\r\n"
        b"Connection: keep-alive\r\nX-Mine: 1\r\n\r\n",
    )
    lines = answer.replace(b"echo ", b"").split(b"\r\n")
    assert lines[0] == b"GET /a/b?c=d HTTP/1.1"
    assert b"Host: Example.com:8080" in lines
    assert b"X-Mine: 1" in lines
    assert b"Connection: close" in lines
    assert not any(b"evil" in line or b"Proxy-" in line or b"keep-alive" in line for line in lines)
    assert net.connected == [(PUBLIC, 8080)]


@pytest.mark.parametrize(
    ("authority", "reason"),
    [
        ("127.0.0.1:80", "loopback"),
        ("localhost:80", "loopback"),
        ("LOCALHOST.:80", "loopback"),
        ("a.localhost:80", "loopback"),
        ("169.254.169.254:80", "metadata"),
        ("[::1]:80", "loopback"),
        ("[::ffff:127.0.0.1]:80", "loopback"),
        ("[::ffff:a9fe:a9fe]:80", "metadata"),
        ("[64:ff9b::7f00:1]:80", "loopback"),
        ("0x7f000001:80", "loopback"),
        ("2130706433:80", "loopback"),
        ("0177.1:80", "loopback"),
        ("0:80", "unspecified"),
        ("10.0.0.7:22", "private"),
        ("[fd12::1]:80", "private"),
        ("100.64.1.1:80", "carrier-grade NAT"),
        ("224.0.0.1:80", "multicast"),
        ("255.255.255.255:80", "broadcast"),
        ("1.2.3.4.5:80", "not an address"),
    ],
)
@pytest.mark.parametrize("form", ["connect", "absolute"])
async def test_literal_addresses_that_are_refused(
    start: Start, net: Net, log_lines: Any, authority: str, reason: str, form: str
) -> None:
    proxy = await start()
    head = (
        connect_to(authority) if form == "connect" else f"GET http://{authority}/ HTTP/1.1\r\n\r\n".encode()
    )
    answer = await talk(proxy, head)
    assert answer.startswith(b"HTTP/1.1 403 Forbidden\r\n")
    assert reason.encode() in answer.split(b"\r\n\r\n", 1)[1]
    assert net.connected == []
    assert net.asked == []
    (line,) = await settled(log_lines)
    assert line["verdict"] == "deny"
    assert reason in line["reason"]


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "10.1.2.3", "169.254.169.254", "::1", "::ffff:10.0.0.1", "fe80::1"]
)
async def test_a_name_that_leads_home_is_refused_after_dns(start: Start, net: Net, address: str) -> None:
    net.names["rebind.example"] = [address]
    proxy = await start()
    answer = await talk(proxy, connect_to("rebind.example:443"))
    assert answer.startswith(b"HTTP/1.1 403")
    assert net.connected == []


async def test_only_the_public_ones_of_several_addresses_are_used(start: Start, net: Net) -> None:
    net.names["mixed.example"] = ["127.0.0.1", "10.0.0.1", PUBLIC]
    proxy = await start()
    assert await talk(proxy, connect_to("mixed.example:443"), then=b"x\n") == b"echo x\n"
    assert net.connected == [(PUBLIC, 443)]


async def test_addresses_of_this_machine_are_refused(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    from rightlab.sandbox import addresses

    monkeypatch.setattr(addresses, "_is_own", lambda address: str(address) == PUBLIC)
    proxy = await start()
    answer = await talk(proxy, connect_to("example.com:443"))
    assert answer.startswith(b"HTTP/1.1 403")
    assert b"an address of this machine" in answer


async def test_the_next_address_is_tried(start: Start, net: Net) -> None:
    net.names["example.com"] = ["93.184.216.1", PUBLIC]
    net.dead.add("93.184.216.1")
    proxy = await start()
    assert await talk(proxy, connect_to("example.com:443"), then=b"x\n") == b"echo x\n"
    assert [address for address, _ in net.connected] == ["93.184.216.1", PUBLIC]


async def test_unreachable_and_unknown_hosts_are_errors(start: Start, net: Net, log_lines: Any) -> None:
    net.dead.add(PUBLIC)
    proxy = await start()
    assert (await talk(proxy, connect_to("example.com:443"))).startswith(b"HTTP/1.1 502")
    assert (await talk(proxy, connect_to("nowhere.example:443"))).startswith(b"HTTP/1.1 502")
    assert [line["verdict"] for line in await settled(log_lines, 2)] == ["error", "error"]


async def test_slow_dns_ends(start: Start, net: Net) -> None:
    net.slow = 5.0
    proxy = await start(limits=Limits(resolve_time=0.05))
    assert (await talk(proxy, connect_to("example.com:443"))).startswith(b"HTTP/1.1 504")


@pytest.mark.parametrize(
    ("authority", "passes"),
    [
        ("api.anthropic.com:443", True),
        ("anthropic.com:443", True),
        ("a.b.claude.ai:443", True),
        ("api.anthropic.com:80", False),
        ("evilanthropic.com:443", False),
        ("anthropic.com.evil.example:443", False),
        ("example.com:443", False),
        ("93.184.216.34:443", False),
    ],
)
async def test_restrictive_lets_only_the_models_hosts_through(
    start: Start, net: Net, authority: str, passes: bool
) -> None:
    net.names = {authority.rsplit(":", 1)[0]: [PUBLIC]}
    proxy = await start(policy=EgressPolicy("restrictive"))
    answer = await talk(proxy, connect_to(authority))
    assert answer.startswith(b"HTTP/1.1 200" if passes else b"HTTP/1.1 403")
    assert bool(net.connected) is passes


async def test_restrictive_still_checks_the_address(start: Start, net: Net) -> None:
    net.names["api.anthropic.com"] = ["127.0.0.1"]
    proxy = await start(policy=EgressPolicy("restrictive", ("api.anthropic.com",)))
    assert (await talk(proxy, connect_to("api.anthropic.com:443"))).startswith(b"HTTP/1.1 403")


def test_policies_are_checked_when_made() -> None:
    with pytest.raises(ConfigError, match="network_policy"):
        EgressPolicy("open")
    with pytest.raises(ConfigError, match="network_policy"):
        EgressPolicy("restrictive", ("not a host",))


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"GET /x HTTP/1.1\r\n\r\n", b"400"),
        (b"GET https://example.com/ HTTP/1.1\r\n\r\n", b"400"),
        (b"GET ftp://example.com/ HTTP/1.1\r\n\r\n", b"400"),
        (b"GET http://user@example.com/ HTTP/1.1\r\n\r\n", b"400"),
        (b"GET http:///x HTTP/1.1\r\n\r\n", b"400"),
        (b"GET http://[::1/ HTTP/1.1\r\n\r\n", b"400"),
        (b"CONNECT example.com HTTP/1.1\r\n\r\n", b"400"),
        (b"CONNECT example.com:99999 HTTP/1.1\r\n\r\n", b"400"),
        (b"PRI * HTTP/2.0\r\n\r\n", b"400"),
        (b"\x16\x03\x01\x02\x00\r\n\r\n", b"400"),
        (b"GET http://example.com/\xc3\xa9 HTTP/1.1\r\n\r\n", b"400"),
        (b"GET http://example.com/ HTTP/1.1\r\nBad Header: x\r\n\r\n", b"400"),
        (b"GET http://example.com/ HTTP/1.1\r\nA: b\n c\r\n\r\n", b"400"),
        (b"GET http://example.com/ HTTP/1.1\r\n" + b"A: b\r\n" * 101 + b"\r\n", b"431"),
        (b"GET http://example.com/ HTTP/1.1\r\nA: " + b"b" * 40_000 + b"\r\n\r\n", b"431"),
    ],
)
async def test_what_is_no_proxy_request_is_refused(
    start: Start, net: Net, head: bytes, status: bytes
) -> None:
    proxy = await start()
    assert (await talk(proxy, head)).startswith(b"HTTP/1.1 " + status)
    assert net.connected == []


async def test_slow_loris_is_cut(start: Start) -> None:
    proxy = await start(limits=Limits(head_time=0.1))
    began = time.monotonic()
    answer = await talk(proxy, b"GET http://exa", eof=False)
    assert answer.startswith(b"HTTP/1.1 408")
    assert time.monotonic() - began < 5


async def test_too_many_connections_are_refused_at_once(start: Start) -> None:
    proxy = await start(limits=Limits(connections=2))
    held = [await open_unix(proxy.path) for _ in range(2)]
    for _ in range(100):
        if proxy.connections == 2:
            break
        await asyncio.sleep(0.01)
    assert (await talk(proxy, connect_to("example.com:443"))).startswith(b"HTTP/1.1 503")
    for _, writer in held:
        writer.close()
    for _ in range(200):
        if proxy.connections == 0:
            break
        await asyncio.sleep(0.01)
    assert (await talk(proxy, connect_to("example.com:443"))).startswith(b"HTTP/1.1 200")


async def test_idle_tunnels_end(start: Start, log_lines: Any) -> None:
    proxy = await start(limits=Limits(idle_time=0.1))
    answer = await talk(proxy, connect_to("example.com:443"), eof=False)
    assert answer.startswith(b"HTTP/1.1 200")
    (line,) = await settled(log_lines)
    assert line["reason"] == "idle for too long"


async def test_a_probe_is_answered_and_not_logged(start: Start, log_lines: Any) -> None:
    proxy = await start()
    assert (await talk(proxy, b"GET / HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 400")
    assert await talk(proxy, b"") == b""
    assert (await talk(proxy, b"GET /other HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 400")
    assert len(await settled(log_lines)) == 1


async def test_large_transfers_pass_whole_both_ways(tmp_path: Path) -> None:
    body = bytes(range(256)) * 40_000

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readexactly(len(body)))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    net = Net(server.sockets[0].getsockname()[1])
    proxy = EgressProxy(tmp_path / "p.sock", agent="a", resolver=net.resolve, connector=net.connect)
    await proxy.start()
    try:
        reader, writer = await open_unix(proxy.path)
        writer.write(connect_to("example.com:443"))
        await reader.readuntil(b"\r\n\r\n")
        sending = asyncio.create_task(_send(writer, body))
        assert await asyncio.wait_for(reader.readexactly(len(body)), 30) == body
        await sending
        writer.close()
    finally:
        await proxy.stop()
        server.close()


async def _send(writer: asyncio.StreamWriter, body: bytes) -> None:
    writer.write(body)
    await writer.drain()


async def test_stop_cuts_and_logs_what_is_open(start: Start, log_lines: Any) -> None:
    proxy = await start()
    reader, writer = await open_unix(proxy.path)
    writer.write(connect_to("example.com:443"))
    await reader.readuntil(b"\r\n\r\n")
    began = time.monotonic()
    await proxy.stop()
    assert time.monotonic() - began < 1
    assert not proxy.path.exists()
    (line,) = log_lines()
    assert (line["verdict"], line["reason"]) == ("allow", "the proxy stopped")
    writer.close()


async def test_a_stale_socket_is_replaced(start: Start, tmp_path: Path) -> None:
    import socket

    stale = socket.socket(socket.AF_UNIX)
    stale.bind(str(tmp_path / "p.sock"))
    stale.close()
    proxy = await start()
    assert (await talk(proxy, connect_to("example.com:443"))).startswith(b"HTTP/1.1 200")


def test_the_log_rotates(tmp_path: Path) -> None:
    from rightlab.clock import SystemClock
    from rightlab.sandbox.egress import _Trace

    log = EgressLog(tmp_path / "e.log", "alice", SystemClock(), max_bytes=1000, keep=2)
    for number in range(40):
        log.write(_Trace(time.monotonic(), host=f"h{number}"))
    files = sorted(tmp_path.iterdir())
    assert [path.name for path in files] == ["e.log", "e.log.1", "e.log.2"]
    assert all(path.stat().st_size < 1500 for path in files)
    last = json.loads((tmp_path / "e.log").read_text().splitlines()[-1])
    assert last["host"] == "h39"
    assert (tmp_path / "e.log").stat().st_mode & 0o777 == 0o600


async def test_a_log_that_cannot_be_written_does_not_stop_the_traffic(
    start: Start, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    proxy = await start(log=blocked / "egress.log")
    for _ in range(2):
        assert await talk(proxy, connect_to("example.com:443"), then=b"x\n") == b"echo x\n"
    for _ in range(100):
        if caplog.records:
            break
        await asyncio.sleep(0.01)
    assert len([record for record in caplog.records if "egress log" in record.message]) == 1
