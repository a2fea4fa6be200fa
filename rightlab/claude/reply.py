"""The answer to one HTTP request of the Messages API, as the gateway and the scripted model give it."""

from collections.abc import Mapping
from typing import Literal, Protocol

from starlette.types import Receive, Send

from rightlab.claude.http_host import drop_connection
from rightlab.claude.messages_api import ApiError

__all__ = ["Headers", "Outcome", "Reply", "Watcher"]

Headers = list[tuple[bytes, bytes]]
Outcome = Literal["running", "complete", "cut", "client_gone", "refused", "unreachable"]
"""How an exchange ended: whole (with any status), cut by whoever answers, left by the client, refused by the
gateway itself, or with no upstream to be reached."""


class Watcher(Protocol):
    """Sees an answer pass by. Called after the bytes are on their way, the end before them."""

    def start(self, status: int, headers: Mapping[str, str]) -> None: ...

    def feed(self, chunk: bytes) -> None: ...

    def finish(self, outcome: Outcome) -> None: ...


class Reply:
    """Writes one response. The request's body must have been read before."""

    def __init__(self, receive: Receive, send: Send, watcher: Watcher | None = None) -> None:
        self._receive = receive
        self._send = send
        self._watcher = watcher

    async def start(self, status: int, headers: Headers) -> None:
        await self._send({"type": "http.response.start", "status": status, "headers": headers})
        if self._watcher is not None:
            names = {key.decode("latin-1").lower(): value.decode("latin-1") for key, value in headers}
            self._watcher.start(status, names)

    async def chunk(self, data: bytes) -> None:
        await self._send({"type": "http.response.body", "body": data, "more_body": True})
        if self._watcher is not None:
            self._watcher.feed(data)

    async def end(self, outcome: Outcome = "complete") -> None:
        # The record is complete before the client can act on the end.
        if self._watcher is not None:
            self._watcher.finish(outcome)
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def whole(
        self, status: int, headers: Headers, body: bytes, *, outcome: Outcome = "complete"
    ) -> None:
        await self.start(status, [*headers, (b"content-length", str(len(body)).encode())])
        await self.chunk(body)
        await self.end(outcome)

    async def error(self, error: ApiError, *, outcome: Outcome = "complete") -> None:
        await self.whole(error.status, error.http_headers(), error.body(), outcome=outcome)

    async def drop(self) -> None:
        """Cut the connection as a failing network would; what was sent is still delivered."""
        if self._watcher is not None:
            self._watcher.finish("cut")
        await drop_connection(self._receive)
