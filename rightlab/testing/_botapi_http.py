"""Just enough HTTP/1.1 for a local server on its own thread and loop."""

import asyncio
import contextlib
import json
import socket
import threading
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from email.parser import BytesParser
from email.policy import HTTP as HTTP_POLICY
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

__all__ = ["Answer", "DropConnection", "Request", "ServerThread"]

_REASONS = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    409: "Conflict",
    429: "Too Many Requests",
}
_BODY_MAX = 64 * 1024 * 1024


class DropConnection(Exception):
    """Close the connection without an answer."""


@dataclass(frozen=True)
class Request:
    """``params`` of query, form or JSON body, as they were sent."""

    method: str
    path: str
    headers: dict[str, str]
    params: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Answer:
    status: int
    body: bytes
    content_type: str = "application/json"


Handler = Callable[[Request], Awaitable[Answer]]


class ServerThread:
    """A listener on 127.0.0.1 whose loop lives on a daemon thread. The port stays the same after
    :meth:`pause`.
    """

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._work, name="rightlab-botapi", daemon=True)
        # Bound once and kept: a port that is given up while the server is "down" could go to somebody else.
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port: int = self._socket.getsockname()[1]

    def start(self) -> None:
        self._thread.start()
        self.call(self._listen())

    def stop(self) -> None:
        self.call(self._close())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(timeout=5)
        self._socket.close()

    def pause(self) -> None:
        """Stop listening and cut every connection: connecting is refused until :meth:`resume`."""
        self.call(self._close())
        self._socket.close()

    def resume(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", self.port), backlog=128)
        self.call(self._listen())

    def call(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine on the server's loop and wait for it."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(timeout=10)

    def _work(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
        self.loop.close()

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, sock=self._socket.dup(), limit=1 << 20)

    async def _close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in list(self._writers):
            writer.transport.abort()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers.add(writer)
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                while (request := await _read(reader)) is not None:
                    gone = asyncio.ensure_future(reader.read(1)) if _waits(request) else None
                    answer = await _until_gone(self._handler(request), gone)
                    if gone is not None:
                        # Before the answer goes out: the next request's first byte must stay in the reader.
                        gone.cancel()
                        await asyncio.gather(gone, return_exceptions=True)
                    if answer is None:
                        break
                    _write(writer, answer)
                    await writer.drain()
        except DropConnection:
            writer.transport.abort()
        except asyncio.CancelledError:
            # Only the server itself cancels, when it goes down; the streams would report it as an error.
            writer.transport.abort()
        finally:
            self._writers.discard(writer)
            self._tasks.discard(task)
            with contextlib.suppress(ConnectionError):
                writer.close()


def _waits(request: Request) -> bool:
    return request.path.lower().endswith("/getupdates")


async def _until_gone(work: Awaitable[Answer], gone: "asyncio.Future[bytes] | None") -> Answer | None:
    """The answer, or None when the client hangs up first: a long poll ends with its connection."""
    if gone is None:
        return await work
    answering = asyncio.ensure_future(work)
    either: set[asyncio.Future[Any]] = {answering, gone}
    try:
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        return answering.result() if answering.done() else None
    finally:
        if not answering.done():
            answering.cancel()
            await asyncio.gather(answering, return_exceptions=True)


async def _read(reader: asyncio.StreamReader) -> Request | None:
    line = (await reader.readline()).decode("latin-1").strip()
    if not line:
        return None
    method, target, _ = line.split(" ", 2)
    headers: dict[str, str] = {}
    while (header := (await reader.readline()).decode("latin-1").strip()) != "":
        name, _, value = header.partition(":")
        headers[name.strip().lower()] = value.strip()
    length = int(headers.get("content-length") or 0)
    if length > _BODY_MAX:
        raise DropConnection
    body = await reader.readexactly(length)
    url = urlsplit(target)
    params: dict[str, Any] = dict(parse_qsl(url.query, keep_blank_values=True))
    params.update(_body(headers.get("content-type", ""), body))
    return Request(method, unquote(url.path), headers, params)


def _body(content_type: str, body: bytes) -> dict[str, Any]:
    if not body:
        return {}
    if content_type.startswith("application/json"):
        data = json.loads(body)
        return data if isinstance(data, dict) else {}
    if content_type.startswith("multipart/form-data"):
        message = BytesParser(policy=HTTP_POLICY).parsebytes(
            f"Content-Type: {content_type}\r\n\r\n".encode() + body
        )
        fields: dict[str, Any] = {}
        for part in message.iter_parts():
            name = part.get_param("name", header="content-disposition")
            payload = part.get_payload(decode=True)
            if isinstance(name, str) and isinstance(payload, bytes):
                fields[name] = payload if part.get_filename() else payload.decode()
        return fields
    return dict(parse_qsl(body.decode(), keep_blank_values=True))


def _write(writer: asyncio.StreamWriter, answer: Answer) -> None:
    reason = _REASONS.get(answer.status, "Error")
    head = (
        f"HTTP/1.1 {answer.status} {reason}\r\nContent-Type: {answer.content_type}\r\n"
        f"Content-Length: {len(answer.body)}\r\n\r\n"
    )
    writer.write(head.encode() + answer.body)
