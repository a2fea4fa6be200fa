"""The model gateway (design 6): every model request of an agent passes here, and only those.

It forwards to ``gateway.upstream``, or answers from a script. It answers only callers that hold its random
bearer, on two paths; the real credential is put in here and never reaches the guest. Each request is recorded
under the invocation that the CLI names in ``X-Right-Invocation``.
"""

import asyncio
import secrets
from collections.abc import Callable, Iterable
from pathlib import Path

from starlette.types import Receive, Scope, Send

from rightlab.claude.gateway_forward import Forwarder
from rightlab.claude.http_host import HttpHost, header, read_body, until_disconnect
from rightlab.claude.messages_api import ApiError
from rightlab.claude.recordings import RecordedRequest, Recorder
from rightlab.claude.reply import Reply
from rightlab.claude.scripted import load_script
from rightlab.claude.scripted_engine import ScriptEngine
from rightlab.clock import Clock, SystemClock
from rightlab.errors import ConfigError, NotAvailable

__all__ = ["INVOCATION_HEADER", "Gateway"]

INVOCATION_HEADER = "X-Right-Invocation"
"""Names the invocation a request belongs to; set by ``ANTHROPIC_CUSTOM_HEADERS``, never sent upstream."""

_PATHS = ("/v1/messages", "/v1/messages/count_tokens")
_MAX_BODY = 64 * 1024 * 1024
_MAX_RECORDINGS = 200 * 1024 * 1024


class Gateway:
    """One agent's gateway.

    ``upstream``: ``https://...``, ``http://127.0.0.1:PORT``, ``scripted:builtin`` or ``scripted:FILE``.
    ``credential`` is called for every forwarded request: a value that starts with ``sk-ant-oat`` goes as
    Bearer, another as ``x-api-key``; None is a 401 in the API's shape, or no credential at all for an
    upstream on this machine. ``recordings``: the folder for request files (None: kept in memory only), at
    most ``max_recording_bytes`` of them.

    Raises:
        ConfigError: an upstream that is none, or a script that breaks the format.
        NotAvailable: ``replay:``.
    """

    def __init__(
        self,
        *,
        upstream: str,
        credential: Callable[[], str | None] = lambda: None,
        recordings: Path | None = None,
        clock: Clock | None = None,
        max_recording_bytes: int = _MAX_RECORDINGS,
    ) -> None:
        self.upstream = upstream
        self.bearer = "rightlab-" + secrets.token_urlsafe(32)
        """The placeholder credential the guest holds; new for every gateway."""
        self._clock: Clock = clock or SystemClock()
        self._credential = credential
        self._engine: ScriptEngine | None = None
        self._forwarder: Forwarder | None = None
        if upstream.startswith("scripted:"):
            self._engine = ScriptEngine(load_script(upstream.removeprefix("scripted:")), self._clock)
        elif upstream.startswith("replay:"):
            raise NotAvailable("gateway.upstream: replay")
        elif upstream == "direct":
            raise ConfigError("with upstream direct there is no gateway", where="gateway.upstream")
        else:
            self._forwarder = Forwarder(upstream, credential)
        self._recorder = Recorder(
            recordings, clock=self._clock, secrets=self._secrets, max_bytes=max_recording_bytes
        )
        self._host = HttpHost(self._app, name="model gateway")

    @property
    def scripted(self) -> bool:
        """True when no model answers; every screen says so."""
        return self._engine is not None

    @property
    def url(self) -> str | None:
        """``http://127.0.0.1:PORT`` when it listens on TCP, else None."""
        return self._host.url

    async def start(self, *, unix: Path | None = None, tcp: bool = False) -> None:
        """Listen on a unix socket (0600) and/or a free port of 127.0.0.1.

        Raises:
            GatewayError: running already, or nothing to listen on.
            RightlabError: the socket's path cannot be used.
        """
        if self._forwarder is not None:
            await self._forwarder.start()
        await self._host.start(unix=unix, tcp=tcp)

    async def stop(self) -> None:
        """Stop within about a second: running answers are cut, recordings flushed. Safe to call twice."""
        await self._host.stop()
        if self._forwarder is not None:
            await self._forwarder.stop()
        await self._recorder.flush()

    async def __aenter__(self) -> "Gateway":
        await self.start(tcp=True)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def describe(self) -> str:
        """One line for status and screens."""
        if self._engine is not None:
            text = (
                f"scripted model ({self._engine.script.name}): every answer is scripted, no account is used"
            )
        else:
            text = f"forwards to {self.upstream}"
        problem = self._recorder.problem
        return f"{text}; recording stopped: {problem}" if problem else text

    def requests(self, invocation_id: str) -> list[RecordedRequest]:
        """The model requests of an invocation, in order. From any thread."""
        return self._recorder.requests(invocation_id)

    def recent(self, limit: int = 50) -> list[RecordedRequest]:
        """The last requests of all invocations, oldest first. From any thread."""
        return self._recorder.recent(limit)

    async def flush(self) -> None:
        """Wait until the requests finished so far are on disk."""
        await self._recorder.flush()

    def _secrets(self) -> Iterable[str]:
        try:
            value = self._credential()
        except Exception:  # whatever is wrong with it is reported where it is needed
            value = None
        return [self.bearer, value] if value else [self.bearer]

    def _allowed(self, scope: Scope) -> bool:
        if scope["method"] != "POST" or scope["path"] not in _PATHS:
            return False
        given = (header(scope, b"authorization") or "").removeprefix("Bearer ").strip()
        return any(
            secrets.compare_digest(value.encode("latin-1"), self.bearer.encode())
            for value in (given, header(scope, b"x-api-key") or "")
        )

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self._allowed(scope):
            await Reply(receive, send).error(ApiError(403, "rightlab gateway: refused", should_retry=False))
            return
        body = await read_body(receive, _MAX_BODY)
        if body is None:
            await Reply(receive, send).error(ApiError(413, "rightlab gateway: the request is too large"))
            return
        exchange = self._recorder.begin(
            body,
            path=scope["path"],
            invocation_id=header(scope, INVOCATION_HEADER.lower().encode()),
            session_id=header(scope, b"x-claude-code-session-id"),
            upstream=self.upstream,
            scripted=self.scripted,
        )
        work = asyncio.create_task(self._answer(scope, body, Reply(receive, send, exchange)))
        gone = asyncio.create_task(until_disconnect(receive))
        try:
            await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
            # The end of the response also counts as a disconnect; then the work only tidies up.
            if not work.done() and not exchange.finished:
                exchange.finish("client_gone")
                work.cancel()
            await asyncio.wait({work})
            if not work.cancelled():
                work.result()
        finally:
            exchange.finish("cut")
            gone.cancel()
            work.cancel()
            await asyncio.gather(gone, work, return_exceptions=True)

    async def _answer(self, scope: Scope, body: bytes, reply: Reply) -> None:
        if self._forwarder is not None:
            await self._forwarder.forward(scope, body, reply)
        elif self._engine is not None:
            await self._engine.respond(scope["path"], body, reply)
