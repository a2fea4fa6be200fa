"""A Messages API on this machine that answers by a script: for your own tests, without an account.

::

    with ScriptedModel([{"match": "hello", "reply": "Hi."}]) as model:
        ...                        # ANTHROPIC_BASE_URL=model.url
    assert model.requests[0].body["messages"]

The script's format is that of :mod:`rightlab.claude.scripted`; ``None`` is the builtin persona.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from starlette.types import Receive, Scope, Send

from rightlab.claude.http_host import HttpHost, LoopThread, read_body
from rightlab.claude.messages_api import ApiError
from rightlab.claude.reply import Reply
from rightlab.claude.scripted import Script, load_script
from rightlab.claude.scripted_engine import ScriptEngine
from rightlab.clock import Clock

__all__ = ["ReceivedRequest", "ScriptedModel"]

_PATHS = ("/v1/messages", "/v1/messages/count_tokens")
_MAX_BODY = 32 * 1024 * 1024


@dataclass(frozen=True)
class ReceivedRequest:
    """A request as it arrived: headers with lower-case names, the raw body and the body as an object.

    ``body`` is empty when the raw body is no JSON object.
    """

    path: str
    query: str
    headers: Mapping[str, str]
    raw: bytes

    @property
    def body(self) -> dict[str, Any]:
        try:
            value = orjson.loads(self.raw)
        except orjson.JSONDecodeError:
            return {}
        return value if isinstance(value, dict) else {}


class ScriptedModel:
    """A strict stand-in for the Messages API on ``127.0.0.1``, in a thread of its own.

    ``script``: None (the builtin persona), a YAML file, a list of rules, or a :class:`Script`. With
    ``credential`` only that API key or token is taken; else any, but one must be there, as with the API.
    ``port`` 0: any free one.
    """

    def __init__(
        self,
        script: str | Path | Sequence[Mapping[str, Any]] | Script | None = None,
        *,
        credential: str | None = None,
        port: int = 0,
        clock: Clock | None = None,
    ) -> None:
        self._engine = ScriptEngine(load_script(script), clock)
        self._credential = credential
        self._port = port
        self._host = HttpHost(self._app, name="scripted model")
        self._thread: LoopThread | None = None
        self.requests: list[ReceivedRequest] = []
        """Everything that came to the two paths of the API, refused or not, in order."""

    @property
    def url(self) -> str:
        """The base URL, ``http://127.0.0.1:PORT``; empty while stopped."""
        return self._host.url or ""

    def start(self) -> "ScriptedModel":
        """Listen. Returns itself.

        Raises:
            GatewayError: the port is taken.
        """
        if self._thread is None:
            self._thread = LoopThread("rightlab-scripted-model")
            try:
                self._thread.call(self._host.start(tcp=True, port=self._port))
            except BaseException:
                self._thread.close()
                self._thread = None
                raise
        return self

    def stop(self) -> None:
        """Stop listening and cut what is still being answered. Safe to call twice."""
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.call(self._host.stop())
            thread.close()

    def __enter__(self) -> "ScriptedModel":
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
        reply = Reply(receive, send)
        if scope["path"] not in _PATHS:
            await reply.error(ApiError(404, "Not Found"))
            return
        if scope["method"] != "POST":
            await reply.error(ApiError(405, "Method Not Allowed"))
            return
        raw = await read_body(receive, _MAX_BODY)
        if raw is None:
            await reply.error(ApiError(413, "Request exceeds the maximum size"))
            return
        headers = {k.decode("latin-1"): v.decode("latin-1") for k, v in scope["headers"]}
        query = scope["query_string"].decode("latin-1")
        self.requests.append(ReceivedRequest(scope["path"], query, headers, raw))
        problem = self._header_problem(headers)
        if problem is not None:
            await reply.error(problem)
            return
        await self._engine.respond(scope["path"], raw, reply)

    def _header_problem(self, headers: Mapping[str, str]) -> ApiError | None:
        authorization = headers.get("authorization", "")
        given = headers.get("x-api-key") or authorization.removeprefix("Bearer ").strip()
        if not given:
            return ApiError(401, "x-api-key header is required")
        if self._credential is not None and given != self._credential:
            bearer = "x-api-key" not in headers
            return ApiError(401, "Invalid bearer token" if bearer else "invalid x-api-key")
        if not headers.get("anthropic-version"):
            return ApiError(400, "anthropic-version: header is required")
        if not headers.get("content-type", "").startswith("application/json"):
            return ApiError(400, "content-type: must be application/json")
        return None
