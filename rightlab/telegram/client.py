"""The Bot API client: python-telegram-bot's ``Bot`` without its updater, which acknowledges before
anyone stored.
"""

import ipaddress
import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from telegram import Bot
from telegram.request import HTTPXRequest

from rightlab.errors import ChannelError
from rightlab.telegram.failures import LONGEST_WAIT, hide_token

__all__ = ["Client"]

_TOKEN = re.compile(r"\d+:[A-Za-z0-9_-]+")


class _Request(HTTPXRequest):
    """Requests whose ``retry_after`` is a wait: the library breaks on one that no timedelta can hold."""

    @staticmethod
    def parse_json_payload(payload: bytes) -> dict[str, Any]:
        answer: dict[str, Any] = HTTPXRequest.parse_json_payload(payload)
        parameters = answer.get("parameters") if isinstance(answer, dict) else None
        if isinstance(parameters, dict) and parameters.get("retry_after") is not None:
            parameters["retry_after"] = _wait(parameters["retry_after"])
        return answer


def _wait(asked: object) -> float:
    if not isinstance(asked, int | float) or asked != asked:
        return 1
    return min(max(asked, 1), LONGEST_WAIT)


class Client(Bot):
    """A ``Bot`` that can fetch updates as the server sent them, and be closed whether or not it ever
    connected.

    Raises :class:`ChannelError` for a token or API root that cannot be one.
    """

    def __init__(self, token: str, api_base: str) -> None:
        if not _TOKEN.fullmatch(token):
            raise ChannelError(
                "this is not a Telegram bot token",
                fix="It looks like 123456:ABC-def; @BotFather shows it. Put it into secrets.json.",
            )
        root = urlsplit(api_base)
        if root.scheme not in ("http", "https") or not root.hostname:
            raise ChannelError(
                f"telegram.api_base is not a URL: {api_base}", fix="Use https://api.telegram.org."
            )
        hide_token(token)
        # Proxies of the environment are for the way out, not for a server on this machine.
        options = {"trust_env": not _is_local(root.hostname)}
        polls = _Request(connection_pool_size=2, connect_timeout=10, read_timeout=20, httpx_kwargs=options)
        calls = _Request(
            connection_pool_size=64,
            connect_timeout=10,
            read_timeout=30,
            write_timeout=30,
            pool_timeout=10,
            httpx_kwargs=options,
        )
        base = api_base.rstrip("/")
        super().__init__(
            token,
            base_url=f"{base}/bot",
            base_file_url=f"{base}/file/bot",
            request=calls,
            get_updates_request=polls,
        )
        self._clients = (polls, calls)

    async def raw_updates(
        self, *, offset: int | None, timeout: int, allowed: Sequence[str], limit: int = 100
    ) -> list[dict[str, Any]]:
        """One long poll of at most ``timeout`` seconds; the updates as JSON objects.

        Raw, because one update that the library cannot read must not hide the others of its batch.
        """
        data: dict[str, Any] = {"timeout": timeout, "limit": limit, "allowed_updates": list(allowed)}
        if offset is not None:
            data["offset"] = offset
        result: list[dict[str, Any]] = await self._post("getUpdates", data, read_timeout=timeout + 10)
        return result

    def __repr__(self) -> str:
        return "Client(<bot token>)"

    async def open_connections(self) -> None:
        """Make ready to call again after :meth:`close_connections`."""
        for client in self._clients:
            await client.initialize()

    async def close_connections(self) -> None:
        for client in self._clients:
            await client.shutdown()


def _is_local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
