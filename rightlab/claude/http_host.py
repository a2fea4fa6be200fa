"""One way to serve an ASGI app on the caller's own loop, in any thread (design 6, 7).

The model gateway, the MCP aggregator and the scripted model are hosted here: on a unix socket, on 127.0.0.1,
or both; without signal handlers, access logs or lines on the terminal, and stopped within half a second even
while a client keeps its stream open.
"""

import asyncio
import contextlib
import logging
import os
import socket
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any, TypeVar

import uvicorn
from starlette.types import ASGIApp, Receive, Scope
from uvicorn.protocols.http.h11_impl import H11Protocol

from rightlab.errors import GatewayError
from rightlab.home.sockets import bind_unix

__all__ = [
    "HttpHost",
    "LoopThread",
    "drop_connection",
    "header",
    "read_body",
    "until_disconnect",
]

T = TypeVar("T")

_TRANSPORT: ContextVar[asyncio.Transport | None] = ContextVar("rightlab_http_transport", default=None)
# Without any handler, Python's last resort would print uvicorn's errors into somebody's notebook cell.
logging.getLogger("uvicorn.error").addHandler(logging.NullHandler())
_STOP_GRACE = 0.3
"""Seconds that running answers get when the host stops."""


class _Protocol(H11Protocol):
    """uvicorn's own protocol; tells the app which connection it answers on."""

    def data_received(self, data: bytes) -> None:
        _TRANSPORT.set(self.transport)
        super().data_received(data)


class _Server(uvicorn.Server):
    """A uvicorn server that leaves the process's signals alone and is told to stop, not polled."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.stop = asyncio.Event()
        self.ready = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()

    async def main_loop(self) -> None:
        await self.stop.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        for sock in sockets or []:
            sock.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        if self.server_state.tasks:
            await asyncio.wait(list(self.server_state.tasks), timeout=_STOP_GRACE)
        for task in list(self.server_state.tasks):
            task.cancel()
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        if self.server_state.tasks:
            await asyncio.wait(list(self.server_state.tasks), timeout=_STOP_GRACE)


class HttpHost:
    """Serves ``app`` from :meth:`start` to :meth:`stop` on the loop that calls them.

    ``lifespan`` is a factory of an async context that is entered before the first request and left after the
    last, in one task (anyio task groups need that).
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        name: str,
        lifespan: Callable[[], contextlib.AbstractAsyncContextManager[Any]] | None = None,
    ) -> None:
        self._app = app
        self._name = name
        self._lifespan = lifespan
        self._server: _Server | None = None
        self._task: asyncio.Task[None] | None = None
        self._unix: Path | None = None
        self.port: int | None = None

    @property
    def running(self) -> bool:
        return self._task is not None and not self._task.done()

    @property
    def url(self) -> str | None:
        """``http://127.0.0.1:PORT`` when listening on TCP."""
        return None if self.port is None else f"http://127.0.0.1:{self.port}"

    async def start(self, *, unix: Path | None = None, tcp: bool = False, port: int = 0) -> None:
        """Listen on ``unix`` (0600) and/or 127.0.0.1 (``port`` 0: any free one); returns when it answers.

        Raises:
            GatewayError: already running, nothing to listen on, or the port is taken.
            RightlabError: the socket's path cannot be used.
        """
        if self.running:
            raise GatewayError("already running", where=self._name)
        if unix is None and not tcp:
            raise GatewayError(
                "nothing to listen on", where=self._name, fix="Give a socket path or tcp=True."
            )
        sockets: list[socket.socket] = []
        try:
            if unix is not None:
                sockets.append(bind_unix(unix))
                self._unix = unix
            if tcp:
                sockets.append(self._bind_tcp(port))
            config = uvicorn.Config(
                self._app,
                http=_Protocol,
                interface="asgi3",
                ws="none",
                lifespan="off",
                loop="none",
                log_config=None,
                access_log=False,
                server_header=False,
                date_header=False,
                proxy_headers=False,
                timeout_keep_alive=75,
                backlog=256,
            )
            self._server = _Server(config)
            self._task = asyncio.create_task(
                self._serve(self._server, sockets), name=f"rightlab {self._name}"
            )
            ready = asyncio.create_task(self._server.ready.wait())
            await asyncio.wait({ready, self._task}, return_when=asyncio.FIRST_COMPLETED)
            ready.cancel()
            if self._task.done():
                self._task.result()
                raise GatewayError("did not start", where=self._name)
        except BaseException:
            for sock in sockets:
                sock.close()
            raise

    def _bind_tcp(self, port: int) -> socket.socket:
        # With the protocol named, asyncio turns Nagle's algorithm off for what is accepted: 40 ms per answer.
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(("127.0.0.1", port))
            sock.listen(256)
            sock.setblocking(False)
        except OSError as error:
            sock.close()
            raise GatewayError(
                f"cannot listen on 127.0.0.1:{port}: {error.strerror}",
                where=self._name,
                fix="Stop what uses the port, or let a free one be chosen.",
            ) from error
        self.port = int(sock.getsockname()[1])
        return sock

    async def _serve(self, server: _Server, sockets: list[socket.socket]) -> None:
        context = self._lifespan() if self._lifespan else contextlib.nullcontext()
        async with context:
            await server.serve(sockets=sockets)

    async def stop(self) -> None:
        """Stop listening, give running answers 0.3 s, cut the rest, remove the socket. Safe to call twice."""
        task, self._task = self._task, None
        if task is None or self._server is None:
            return
        self._server.stop.set()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        self.port = None
        if self._unix is not None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._unix)
            self._unix = None


async def until_disconnect(receive: Receive) -> None:
    """Returns when the client has gone. Use only after the request's body has been read."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def drop_connection(receive: Receive) -> None:
    """Cut the connection of the request being answered, as a failing network would; nothing is sent any more.

    What has been sent already is still delivered, so the client sees a body that ends too early.
    """
    transport = _TRANSPORT.get()
    if transport is not None:
        transport.close()
    await until_disconnect(receive)


async def read_body(receive: Receive, limit: int) -> bytes | None:
    """The request's body; None when it is longer than ``limit`` bytes or the client went away."""
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        part = message.get("body", b"")
        size += len(part)
        if size > limit:
            return None
        parts.append(part)
        if not message.get("more_body", False):
            return b"".join(parts)


def header(scope: Scope, name: bytes) -> str | None:
    """The first header ``name`` (lower case) of a request, or None."""
    for key, value in scope["headers"]:
        if key == name:
            return str(value.decode("latin-1"))
    return None


class LoopThread:
    """A daemon thread with an event loop of its own, for servers that must live beside blocking code."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        self._loop.close()

    def call(self, work: Coroutine[Any, Any, T], timeout: float = 10.0) -> T:
        """Run ``work`` there and wait for its result (seconds)."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout)

    def close(self, timeout: float = 5.0) -> None:
        """Stop the loop and join the thread. Safe to call twice."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(timeout)
