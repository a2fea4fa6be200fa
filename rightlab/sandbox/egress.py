"""The only way out of a sandbox: an HTTP proxy on a unix socket (design 8).

It speaks CONNECT and absolute-URI HTTP/1, resolves names itself, refuses addresses that are not public or are
this machine's, connects to exactly the address it checked (no second look-up), and logs every connection.
"""

import asyncio
import contextlib
import ipaddress
import re
import socket
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from rightlab.clock import Clock, SystemClock
from rightlab.home.sockets import bind_unix
from rightlab.sandbox.addresses import forbidden, literal_address, split_authority
from rightlab.sandbox.egress_log import EgressLog
from rightlab.sandbox.egress_policy import EgressPolicy

__all__ = ["EgressProxy", "Limits"]

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Resolver = Callable[[str, int], Awaitable[Sequence[str]]]
Connector = Callable[[str, int], Awaitable[Streams]]

_TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HOP = {
    b"proxy-connection",
    b"proxy-authorization",
    b"proxy-authenticate",
    b"connection",
    b"keep-alive",
    b"host",
}
_CHUNK = 256 * 1024


@dataclass(frozen=True)
class Limits:
    """Bounds of one proxy; times in seconds, sizes in bytes."""

    connections: int = 256
    head: int = 32 * 1024
    headers: int = 100
    head_time: float = 10.0
    resolve_time: float = 10.0
    connect_time: float = 10.0
    addresses: int = 4
    idle_time: float = 900.0


class _Refused(Exception):
    def __init__(self, status: str, reason: str, verdict: str = "deny") -> None:
        super().__init__(reason)
        self.status, self.reason, self.verdict = status, reason, verdict


@dataclass
class _Trace:
    """What becomes the connection's log line."""

    started: float
    verdict: str = "deny"
    method: str = ""
    host: str = ""
    port: int | None = None
    addr: str | None = None
    sent: int = 0
    received: int = 0
    reason: str | None = None
    touched: float = field(default=0.0)


async def _resolve(host: str, port: int) -> Sequence[str]:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]


async def _connect(address: str, port: int) -> Streams:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return await asyncio.open_connection(
        address, port, family=family, flags=socket.AI_NUMERICHOST, limit=_CHUNK
    )


class EgressProxy:
    """One agent's proxy. ``await start()`` listens, ``await stop()`` ends every connection.

    ``resolver`` and ``connector`` are the ways to DNS and to the network; tests give their own, so that a
    public address can stand for a loopback server. One JSON line per connection goes to ``log``,
    which is rotated.
    """

    def __init__(
        self,
        socket_path: Path,
        *,
        agent: str,
        policy: EgressPolicy | None = None,
        log: Path | None = None,
        resolver: Resolver | None = None,
        connector: Connector | None = None,
        clock: Clock | None = None,
        limits: Limits | None = None,
    ) -> None:
        self.path = socket_path
        self.policy = policy or EgressPolicy()
        self.limits = limits or Limits()
        self._resolver = resolver or _resolve
        self._connector = connector or _connect
        self._log = EgressLog(log, agent, clock or SystemClock())
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Listen on the socket (0600). Raises RightlabError: the path cannot be used."""
        listener = bind_unix(self.path, 0o600)
        try:
            self._server = await asyncio.start_unix_server(
                self._accept, sock=listener, limit=self.limits.head
            )
        except BaseException:
            listener.close()
            raise

    async def stop(self) -> None:
        """Stop listening, cut what is open (each still gets its log line), remove the socket."""
        server, self._server = self._server, None
        if server is None:
            return
        server.close()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        with contextlib.suppress(OSError):
            self.path.unlink()

    @property
    def connections(self) -> int:
        """How many are open now."""
        return len(self._tasks)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer, len(self._tasks) >= self.limits.connections))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, full: bool) -> None:
        trace = _Trace(time.monotonic())
        try:
            if full:
                raise _Refused("503 Service Unavailable", "too many connections", "error")
            await self._handle(reader, writer, trace)
        except _Refused as refused:
            trace.verdict, trace.reason = refused.verdict, refused.reason
            await _answer(writer, refused.status, refused.reason)
        except asyncio.CancelledError:
            trace.reason = trace.reason or "the proxy stopped"
        except (OSError, EOFError, TimeoutError) as error:
            trace.verdict = "allow" if trace.verdict == "allow" else "error"
            trace.reason = trace.reason or f"cut: {error or type(error).__name__}"
        finally:
            if trace.verdict != "probe":
                self._log.write(trace)
            await _close(writer)

    async def _handle(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, trace: _Trace
    ) -> None:
        try:
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), self.limits.head_time)
        except asyncio.LimitOverrunError:
            raise _Refused(
                "431 Request Header Fields Too Large", "the request head is too large", "error"
            ) from None
        except TimeoutError:
            raise _Refused("408 Request Timeout", "the request head did not come in time", "error") from None
        except asyncio.IncompleteReadError as error:
            trace.verdict = "probe" if not error.partial else "error"
            trace.reason = "closed before a request"
            return
        method, target, headers = self._parse(head)
        trace.method = method
        if method == "CONNECT":
            trace.host, trace.port = _authority(target, None)
            far_reader, far_writer = await self._open(trace)
            first, reply = b"", b"HTTP/1.1 200 Connection established\r\n\r\n"
        else:
            host, path = _origin_form(target)
            trace.host, trace.port = _authority(host, 80)
            far_reader, far_writer = await self._open(trace)
            first, reply = _request(method, path, host, headers), b""
        try:
            if reply:
                writer.write(reply)
            far_writer.write(first)
            trace.sent += len(first)
            await self._relay(reader, writer, far_reader, far_writer, trace)
        finally:
            far_writer.transport.abort()

    def _parse(self, head: bytes) -> tuple[str, str, list[tuple[bytes, bytes]]]:
        first, *lines = head[:-4].split(b"\r\n")
        words = first.split(b" ")
        if len(words) != 3 or words[2] not in (b"HTTP/1.1", b"HTTP/1.0") or not _TOKEN.fullmatch(words[0]):
            raise _Refused("400 Bad Request", "not an HTTP/1 request", "error")
        if not words[1].isascii() or any(byte <= 32 or byte == 127 for byte in words[1]):
            raise _Refused("400 Bad Request", "not an address in ASCII", "error")
        if len(lines) > self.limits.headers:
            raise _Refused("431 Request Header Fields Too Large", "too many headers", "error")
        headers = []
        for line in lines:
            name, colon, value = line.partition(b":")
            if not colon or not _TOKEN.fullmatch(name) or b"\r" in value or b"\n" in value or b"\0" in value:
                raise _Refused("400 Bad Request", "a header that is none", "error")
            headers.append((name, value.strip(b" \t")))
        return words[0].decode(), words[1].decode(), headers

    async def _open(self, trace: _Trace) -> Streams:
        """Judge host and addresses, then connect to one that passed; sets the trace's addr and verdict."""
        host, port = trace.host, trace.port or 0
        reason = self.policy.refusal(host, port)
        if reason:
            raise _Refused("403 Forbidden", f"{host}:{port} is refused: {reason}")
        addresses = await self._addresses(host, port)
        allowed = []
        for address in addresses:
            why = forbidden(address)
            if why is None:
                allowed.append(address)
            else:
                reason = reason or why
                trace.addr = trace.addr or address
        if not allowed:
            raise _Refused("403 Forbidden", f"{host}:{port} is refused: {reason or 'it has no address'}")
        error: Exception = TimeoutError()
        for address in allowed[: self.limits.addresses]:
            trace.addr = address
            try:
                streams = await asyncio.wait_for(self._connector(address, port), self.limits.connect_time)
            except (OSError, TimeoutError) as failure:
                error = failure
                continue
            trace.verdict = "allow"
            return streams
        late = isinstance(error, TimeoutError)
        raise _Refused(
            "504 Gateway Timeout" if late else "502 Bad Gateway",
            f"{host}:{port} cannot be reached: {'no answer in time' if late else error}",
            "error",
        )

    async def _addresses(self, host: str, port: int) -> list[str]:
        try:
            literal = literal_address(host)
        except ValueError as error:
            raise _Refused("403 Forbidden", f"{host}:{port} is refused: {error}") from None
        if literal is not None:
            return [literal]
        try:
            found = await asyncio.wait_for(self._resolver(host, port), self.limits.resolve_time)
        except TimeoutError:
            raise _Refused("504 Gateway Timeout", f"{host} was not resolved in time", "error") from None
        except (OSError, UnicodeError) as error:
            raise _Refused("502 Bad Gateway", f"{host} cannot be resolved: {error}", "error") from None
        normal = []
        for text in found:
            try:
                normal.append(str(ipaddress.ip_address(text)))
            except ValueError:
                normal.append(text)
        return list(dict.fromkeys(normal))

    async def _relay(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        far_reader: asyncio.StreamReader,
        far_writer: asyncio.StreamWriter,
        trace: _Trace,
    ) -> None:
        trace.touched = time.monotonic()

        async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter, up: bool) -> None:
            while data := await source.read(_CHUNK):
                trace.touched = time.monotonic()
                if up:
                    trace.sent += len(data)
                else:
                    trace.received += len(data)
                sink.write(data)
                await sink.drain()
            if sink.can_write_eof():
                sink.write_eof()

        up = asyncio.create_task(pump(reader, far_writer, True))
        down = asyncio.create_task(pump(far_reader, writer, False))
        try:
            await self._watch(up, down, trace)
        finally:
            await _cancel(up, down)

    async def _watch(self, up: "asyncio.Task[None]", down: "asyncio.Task[None]", trace: _Trace) -> None:
        """Until the far side has said all, either side broke, or neither said a byte for ``idle_time``."""
        waiting = {up, down}
        while waiting:
            left = trace.touched + self.limits.idle_time - time.monotonic()
            if left <= 0:
                trace.reason = "idle for too long"
                return
            done, waiting = await asyncio.wait(waiting, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
            if down in done:
                return


def _authority(text: str, default_port: int | None) -> tuple[str, int]:
    try:
        return split_authority(text, default_port)
    except ValueError as error:
        raise _Refused("400 Bad Request", f"{text[:200]!r} names no host and port: {error}") from None


def _origin_form(target: str) -> tuple[str, str]:
    """Authority and path of an absolute URI."""
    if target == "/":
        raise _Refused("400 Bad Request", "rightlab egress proxy", "probe")
    if not target.lower().startswith("http://"):
        raise _Refused(
            "400 Bad Request",
            "rightlab egress proxy: CONNECT host:port, or an absolute http:// address",
            "error",
        )
    try:
        parts = urlsplit(target)
    except ValueError as error:
        raise _Refused("400 Bad Request", f"not an address: {error}", "error") from None
    return parts.netloc, (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def _request(method: str, path: str, host: str, headers: list[tuple[bytes, bytes]]) -> bytes:
    """The head in origin form: our Host (the one that was judged), one request per connection."""
    lines = [f"{method} {path} HTTP/1.1".encode(), f"Host: {host}".encode()]
    upgrade = any(name.lower() == b"connection" and b"upgrade" in value.lower() for name, value in headers)
    lines += [name + b": " + value for name, value in headers if name.lower() not in _HOP]
    lines.append(b"Connection: upgrade" if upgrade else b"Connection: close")
    return b"\r\n".join(lines) + b"\r\n\r\n"


async def _answer(writer: asyncio.StreamWriter, status: str, reason: str) -> None:
    body = reason.encode("utf-8", "replace") + b"\n"
    plain = re.sub(r"[^\x20-\x7e]", "?", reason)[:300]
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
        f"X-Right-Egress: {plain}\r\nConnection: close\r\n\r\n"
    )
    with contextlib.suppress(OSError, TimeoutError):
        writer.write(head.encode("latin-1") + body)
        await asyncio.wait_for(writer.drain(), 2.0)
        if writer.can_write_eof():
            writer.write_eof()


async def _close(writer: asyncio.StreamWriter) -> None:
    """Flush what is left to the guest, but do not wait for one that does not read."""
    writer.close()
    try:
        await asyncio.wait_for(writer.wait_closed(), 5.0)
    except (OSError, TimeoutError, asyncio.CancelledError):
        writer.transport.abort()


async def _cancel(*tasks: "asyncio.Task[None]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
