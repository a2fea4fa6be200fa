"""The control socket: how other kernels, the command line and cron runs talk to an agent's owner (design 7).

One request per connection, JSON lines: ``{"token", "op", "args"}`` in; any number of ``{"event": ...}`` out and then
one ``{"ok": true, "result": ...}`` or ``{"ok": false, "error": {...}}``. The socket is 0600 and the token stands in
``state.json`` (0600 too): who can read the one may use the other.
"""

import asyncio
import contextlib
import hmac
import json
import logging
import socket
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any

from rightlab import errors
from rightlab.errors import RightlabError
from rightlab.home import AgentHome
from rightlab.home.sockets import bind_unix, connect_unix
from rightlab.runtime.state import OwnerState

__all__ = ["ControlClient", "ControlServer", "Handler"]

log = logging.getLogger(__name__)

LIMIT = 16 * 1024 * 1024

Handler = Callable[[Mapping[str, Any]], Awaitable[Any]]


class ControlServer:
    """Serves ``handlers`` (op name -> coroutine function of the arguments) on one agent's control socket."""

    def __init__(self, agent: AgentHome, token: str, handlers: Mapping[str, Handler]) -> None:
        self._agent = agent
        self._token = token
        self._handlers = dict(handlers)
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        sock = bind_unix(self._agent.control_socket, mode=0o600)
        self._server = await asyncio.start_unix_server(self._connected, sock=sock, limit=LIMIT)

    async def stop(self, seconds: float = 0.5, *, unlink: bool = True) -> None:
        """Close the socket; requests under way get ``seconds`` to send their answer."""
        if self._server is None:
            return
        self._server.close()
        mine = asyncio.current_task()
        waiting = {task for task in self._open if task is not mine}
        if waiting:
            _, late = await asyncio.wait(waiting, timeout=seconds)
            for task in late:
                task.cancel()
        if unlink:
            self._agent.control_socket.unlink(missing_ok=True)
        self._server = None

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            answer = await self._serve(reader)
            writer.write(json.dumps(answer).encode() + b"\n")
            with contextlib.suppress(ConnectionError):
                await writer.drain()
        finally:
            self._open.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader) -> dict[str, Any]:
        try:
            request = json.loads(await asyncio.wait_for(reader.readline(), 10))
            token, op, args = str(request["token"]), str(request["op"]), dict(request.get("args") or {})
        except (ValueError, KeyError, TypeError, TimeoutError):
            return _failure(RightlabError("a request to the control socket was not understood"))
        if not hmac.compare_digest(token.encode(), self._token.encode()):
            return _failure(RightlabError("the control socket refused the token", fix="Try again."))
        handler = self._handlers.get(op)
        if handler is None:
            return _failure(
                RightlabError(f"the owner does not know {op!r}", fix="Restart it: rightlab restart.")
            )
        try:
            return {"ok": True, "result": await handler(args)}
        except RightlabError as error:
            return _failure(error)
        except Exception as error:
            log.exception("control request %s", op)
            return _failure(RightlabError(f"the owner failed on {op!r} ({type(error).__name__}: {error})"))


def _failure(error: RightlabError) -> dict[str, Any]:
    return {
        "ok": False,
        "error": {
            "type": type(error).__name__,
            "message": error.message,
            "where": error.where,
            "fix": error.fix,
            "kind": getattr(error, "kind", None),
        },
    }


class ControlClient:
    """A blocking client of one owner; safe to use from any thread and from cells."""

    def __init__(self, agent: AgentHome, state: OwnerState) -> None:
        self._agent = agent
        self._state = state

    def request(self, op: str, timeout: float | None = None, **args: Any) -> Any:
        """Send ``op`` and return its result, or raise the error the owner raised."""
        line = json.dumps({"token": self._state.token, "op": op, "args": args}).encode() + b"\n"
        try:
            with connect_unix(self._agent.control_socket, timeout=5) as sock:
                sock.settimeout(timeout)
                sock.sendall(line)
                answer = json.loads(b"".join(_read_line(sock)))
        except TimeoutError:
            waited = 5 if timeout is None else timeout
            raise TimeoutError(
                f"process {self._state.pid}, which runs {self._agent.name!r}, gave no answer within {waited:g} s;"
                " what it was asked goes on"
            ) from None
        except (OSError, ValueError) as error:
            raise RightlabError(
                f"the owner of {self._agent.name!r} (process {self._state.pid}) does not answer ({error})",
                fix=f"See `rightlab logs {self._agent.name}`, then `rightlab restart {self._agent.name}`.",
            ) from error
        if answer.get("ok"):
            return answer.get("result")
        raise _revive(answer.get("error") or {})


def _read_line(sock: socket.socket) -> Iterator[bytes]:
    while chunk := sock.recv(1 << 16):
        yield chunk
        if chunk.endswith(b"\n"):
            return
    raise ConnectionError("the connection was closed before an answer came")


def _revive(data: Mapping[str, Any]) -> RightlabError:
    kind = getattr(errors, str(data.get("type")), RightlabError)
    message = str(data.get("message") or "the owner refused")
    where, fix = data.get("where"), data.get("fix")
    if kind in (errors.TurnFailed, errors.ContentError):
        return kind(str(data.get("kind") or "failed"), message, where=where, fix=fix)  # type: ignore[no-any-return]
    if not (isinstance(kind, type) and issubclass(kind, RightlabError)) or kind is errors.TemplateError:
        kind = RightlabError
    if kind is errors.NotAvailable:
        return kind(message.removesuffix(": not available yet"))
    return kind(message, where=where, fix=fix)
