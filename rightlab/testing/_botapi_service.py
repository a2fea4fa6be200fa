"""The stand-in server's answers: tokens, faults, long polling, files."""

import asyncio
import contextlib
import json
import time
from typing import Any

from rightlab.testing._botapi_http import Answer, DropConnection, Request
from rightlab.testing._botapi_methods import METHODS, number
from rightlab.testing._botapi_state import Call, State, Trouble, loaded

__all__ = ["Service"]

_TERMINATED = (
    "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running"
)
_WEBHOOK_ACTIVE = (
    "Conflict: can't use getUpdates method while webhook is active;"
    " use deleteWebhook to delete the webhook first"
)


class Service:
    """Answers one request after another from a :class:`State`; lives on the server's loop."""

    def __init__(self, state: State) -> None:
        self.state = state
        self._poller: asyncio.Event | None = None
        self._wake: asyncio.Event | None = None
        self._terminated_by = _TERMINATED

    def wake(self) -> None:
        """An update came: let the waiting poll look. On the server's loop."""
        if self._wake is not None:
            self._wake.set()

    async def answer(self, request: Request) -> Answer:
        root, _, method = request.path.removeprefix("/").partition("/")
        if root == "file":
            return self._file(method)
        if not root.startswith("bot") or not method:
            return _refusal(Trouble(404, "Not Found"))
        token = root.removeprefix("bot")
        if ":" not in token or not token.partition(":")[0].isdigit():
            return _refusal(Trouble(404, "Not Found"))
        if token != self.state.token:
            return _refusal(Trouble(401, "Unauthorized"))
        call = Call(method, request.params, time.monotonic())
        with self.state.changed:
            self.state.calls.append(call)
        try:
            answer = await self._call(method, request.params)
            call.status = answer.status
            return answer
        finally:
            with self.state.changed:
                self.state.changed.notify_all()

    async def _call(self, method: str, params: dict[str, Any]) -> Answer:
        name = method.lower()
        with self.state.lock:
            fault = self.state.take_fault(name, number(params, "chat_id"))
        if fault is not None and fault.kind == "drop_before":
            raise DropConnection
        try:
            if fault is not None and fault.trouble is not None:
                raise fault.trouble
            if name == "getupdates":
                body = _body(await self._updates(params))
            elif name in METHODS:
                with self.state.lock:
                    body = _body(METHODS[name](self.state, params))
                if name == "setwebhook" and params.get("url"):
                    self._terminate("Conflict: terminated by setWebhook request")
            else:
                raise Trouble(404, "Not Found: method not found")
        except Trouble as trouble:
            return _refusal(trouble)
        if fault is not None and fault.kind == "delay":
            await asyncio.sleep(fault.seconds)
        if fault is not None and fault.kind == "drop_after":
            raise DropConnection
        return Answer(200, body)

    async def _updates(self, params: dict[str, Any]) -> list[dict[str, Any]]:
        if self.state.webhook["url"]:
            raise Trouble(409, _WEBHOOK_ACTIVE)
        self._terminate(_TERMINATED)
        mine = self._poller = asyncio.Event()
        self._wake = wake = asyncio.Event()
        deadline = time.monotonic() + min(max(number(params, "timeout", 0) or 0, 0), 50)
        try:
            with self.state.lock:
                if params.get("allowed_updates") is not None:
                    with contextlib.suppress(ValueError):
                        self.state.allowed_updates = list(loaded(params["allowed_updates"]))
                self._acknowledge(number(params, "offset"))
            while True:
                wake.clear()
                with self.state.lock:
                    ready = self._ready(number(params, "limit", 100) or 100)
                left = deadline - time.monotonic()
                if ready or left <= 0:
                    return ready
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(left):
                        await wake.wait()
                if mine.is_set():
                    raise Trouble(409, self._terminated_by)
        finally:
            if self._poller is mine:
                self._poller = None
                self._wake = None

    def _terminate(self, why: str) -> None:
        """End the poll that is waiting, if any: the new one wins, as on the server."""
        if self._poller is not None and self._wake is not None:
            self._terminated_by = why
            self._poller.set()
            self._wake.set()

    def _acknowledge(self, offset: int | None) -> None:
        updates = self.state.updates
        if offset is None:
            return
        if offset < 0:
            del updates[: max(0, len(updates) + offset)]
        else:
            updates[:] = [update for update in updates if update["update_id"] >= offset]
        self.state.changed.notify_all()

    def _ready(self, limit: int) -> list[dict[str, Any]]:
        updates = self.state.updates
        updates[:] = [update for update in updates if self.state.wanted(update)]
        return [dict(update) for update in updates[: min(max(limit, 1), 100)]]

    def _file(self, rest: str) -> Answer:
        root, _, path = rest.partition("/")
        if root != f"bot{self.state.token}":
            return _refusal(Trouble(401, "Unauthorized"))
        with self.state.lock:
            for known, data in self.state.files.values():
                if known == path:
                    return Answer(200, data, "application/octet-stream")
        return _refusal(Trouble(404, "Not Found"))


def _body(result: Any) -> bytes:
    return json.dumps({"ok": True, "result": result}).encode()


def _refusal(trouble: Trouble) -> Answer:
    data: dict[str, Any] = {"ok": False, "error_code": trouble.status, "description": trouble.description}
    if trouble.parameters:
        data["parameters"] = trouble.parameters
    return Answer(trouble.status, json.dumps(data).encode())
