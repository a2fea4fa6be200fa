"""Forwarding to a real Messages API: streamed, unchanged, the credential put in on the way (design 6)."""

import asyncio
import ipaddress
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.types import Scope

from rightlab.claude.messages_api import ApiError
from rightlab.claude.reply import Reply
from rightlab.errors import ConfigError, RightlabError

if TYPE_CHECKING:
    import httpx

__all__ = ["Forwarder", "check_upstream", "credential_headers"]

_HOP = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer "
    b"transfer-encoding upgrade".split()
)
_NOT_SENT = _HOP | frozenset(
    b"host content-length authorization x-api-key cookie accept-encoding x-right-invocation expect".split()
)
_NOT_RETURNED = _HOP | frozenset((b"set-cookie",))
_OAUTH_BETA = "oauth-2025-04-20"
"""The API takes OAuth tokens only with this beta (the CLI sends it only when it holds one itself)."""


def check_upstream(url: str) -> bool:
    """Checks ``gateway.upstream``; True when it is on this machine.

    Raises:
        ConfigError: not ``https://...`` and not ``http://`` on loopback.
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    try:
        loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = host == "localhost"
    if parts.query or parts.fragment or parts.username or parts.password:
        raise ConfigError(
            "the address may hold no user, query or fragment",
            where="gateway.upstream",
            fix="Put the credential into secrets.json.",
        )
    if host and (parts.scheme == "https" or (parts.scheme == "http" and loopback)):
        return loopback
    raise ConfigError(
        f"{url!r} is no upstream",
        where="gateway.upstream",
        fix="Use https://..., http://127.0.0.1:PORT, scripted:builtin or scripted:FILE.",
    )


_MAX_ERROR = 1024 * 1024
_HIDDEN = b"[redacted]"


class Forwarder:
    """Sends requests on to ``upstream``. ``credential`` is asked for every request."""

    def __init__(self, upstream: str, credential: Callable[[], str | None]) -> None:
        self.upstream = upstream.rstrip("/")
        self.loopback = check_upstream(upstream)
        self._credential = credential
        self._client: httpx.AsyncClient | None = None

    async def start(self) -> None:
        import httpx

        # A proxy of the host's environment is for the world outside, never for this machine.
        self._client = httpx.AsyncClient(
            timeout=httpx.Timeout(connect=5.0, read=600.0, write=60.0, pool=10.0),
            limits=httpx.Limits(max_connections=256, max_keepalive_connections=32, keepalive_expiry=30.0),
            follow_redirects=False,
            trust_env=not self.loopback,
        )

    async def stop(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    def headers(self, scope: Scope, credential: str | None) -> list[tuple[bytes, bytes]]:
        """The request's headers as they go upstream."""
        named = _connection_names(scope["headers"])
        kept = [(k, v) for k, v in scope["headers"] if k not in _NOT_SENT and k not in named]
        # Plain bytes come back, so usage can be read while they pass unchanged.
        kept.append((b"accept-encoding", b"identity"))
        if credential is None:
            return kept
        if not credential.startswith("sk-ant-oat"):
            return [*kept, (b"x-api-key", credential.encode())]
        betas = b",".join(value for key, value in kept if key == b"anthropic-beta")
        if _OAUTH_BETA.encode() not in betas:
            kept = [(k, v) for k, v in kept if k != b"anthropic-beta"]
            kept.append((b"anthropic-beta", b",".join(filter(None, (betas, _OAUTH_BETA.encode())))))
        return [*kept, (b"authorization", b"Bearer " + credential.encode())]

    def _credential_or_refusal(self) -> str | ApiError | None:
        try:
            value = self._credential()
        except RightlabError as error:
            return ApiError(401, f"rightlab gateway: {error}", should_retry=False)
        value = (value or "").strip()
        if not value:
            if self.loopback:
                return None
            return ApiError(
                401,
                "rightlab gateway: this agent has no credential for the model. Put one into its secrets.json "
                "(claude_credential), or name one under gateway.credential in agent.yaml.",
                should_retry=False,
            )
        if not value.isascii() or not value.isprintable() or " " in value:
            return ApiError(
                401, "rightlab gateway: the stored credential is not one line of text.", should_retry=False
            )
        return value

    async def forward(self, scope: Scope, body: bytes, reply: Reply) -> None:
        """Forward one request and stream its answer back."""
        import httpx

        credential = self._credential_or_refusal()
        if isinstance(credential, ApiError):
            await reply.error(credential, outcome="refused")
            return
        client = self._client
        if client is None:
            await reply.error(ApiError(503, "rightlab gateway: stopped"), outcome="refused")
            return
        query = scope["query_string"].decode("ascii", "replace")
        request = httpx.Request(
            "POST",
            f"{self.upstream}{scope['path']}{'?' + query if query else ''}",
            headers=self.headers(scope, credential),
            content=body,
            extensions={"timeout": client.timeout.as_dict()},
        )
        try:
            response = await client.send(request, stream=True)
        except httpx.HTTPError as error:
            await reply.error(self._unreachable(error), outcome="unreachable")
            return
        try:
            if 300 <= response.status_code < 400:
                text = f"rightlab gateway: {self.upstream} answers with a redirect, which is not followed"
                await reply.error(ApiError(502, text), outcome="refused")
                return
            if response.status_code >= 400 and credential:
                await self._error(response, credential, reply)
            else:
                await self._stream(response, reply)
        finally:
            # Shielded: a client that went away must not leave the upstream request running.
            await asyncio.shield(response.aclose())

    async def _error(self, response: "httpx.Response", credential: str, reply: Reply) -> None:
        """An error, without the credential: a server that repeats what it was sent must not tell it the guest."""
        import httpx

        body = bytearray()
        try:
            async for chunk in response.aiter_raw():
                body += chunk[: _MAX_ERROR - len(body)]
        except httpx.HTTPError:
            await reply.drop()
            return
        secret = credential.encode()
        raw = [(key.lower(), value.replace(secret, _HIDDEN)) for key, value in response.headers.raw]
        named = _connection_names(raw) | {b"content-length"}
        await reply.start(
            response.status_code, [(k, v) for k, v in raw if k not in _NOT_RETURNED and k not in named]
        )
        await reply.chunk(bytes(body).replace(secret, _HIDDEN))
        await reply.end()

    async def _stream(self, response: "httpx.Response", reply: Reply) -> None:
        import httpx

        raw = [(key.lower(), value) for key, value in response.headers.raw]
        named = _connection_names(raw)
        headers = [(k, v) for k, v in raw if k not in _NOT_RETURNED and k not in named]
        await reply.start(response.status_code, headers)
        try:
            async for chunk in response.aiter_raw():
                await reply.chunk(chunk)
        except httpx.HTTPError:
            await reply.drop()
            return
        await reply.end()

    def _unreachable(self, error: "httpx.HTTPError") -> ApiError:
        import httpx

        host = urlsplit(self.upstream).netloc
        if isinstance(error, httpx.ConnectTimeout | httpx.PoolTimeout):
            what = f"{host} does not answer"
        elif isinstance(error, httpx.ConnectError):
            what = f"cannot reach {host} ({error})"
        elif isinstance(error, httpx.TimeoutException):
            what = f"{host} took the request and then stayed silent"
        else:
            what = f"{host} closed the connection before it answered ({error})"
        return ApiError(502, f"rightlab gateway: {what}. Check the network and gateway.upstream.")


def _connection_names(headers: list[tuple[bytes, bytes]]) -> set[bytes]:
    """The headers that ``Connection`` names as hop-by-hop."""
    values = (value for key, value in headers if key == b"connection")
    return {name.strip().lower() for value in values for name in value.split(b",")}


def credential_headers(credential: str | None) -> dict[str, str]:
    """How a credential goes to the API: a login token as Bearer, anything else as ``x-api-key``."""
    if not credential:
        return {}
    if credential.startswith("sk-ant-oat"):
        return {"authorization": f"Bearer {credential}", "anthropic-beta": _OAUTH_BETA}
    return {"x-api-key": credential}
