"""The MCP server of one agent (design 3, spec agent-runtime 8.1): the official SDK over streamable HTTP.

Every request names its invocation in ``X-Right-Invocation`` and must carry the bearer of exactly that
invocation (401 otherwise), so knowing another one's id is worth nothing. Each exchange stands alone (no MCP
session to lose), so a restart of the runtime breaks no client.
"""

import asyncio
import hashlib
import hmac
import logging
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
from starlette.types import Receive, Send
from starlette.types import Scope as HttpScope

from rightlab.claude.http_host import HttpHost, header
from rightlab.errors import RightlabError
from rightlab.mcp.registry import InvocationRegistry
from rightlab.mcp.tools import Failure, Tool, ToolContext, input_schema, instructions, sorted_tools

if TYPE_CHECKING:
    from mcp.server.lowlevel.server import Server
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

__all__ = ["MCP_PATH", "SERVER_NAME", "Aggregator"]

SERVER_NAME = "right"
"""The name in the CLI's configuration; its tools are then ``mcp__right__<tool>``."""
MCP_PATH = "/mcp"
INVOCATION_HEADER = "X-Right-Invocation"

log = logging.getLogger(__name__)


class Aggregator:
    """Serves ``tools`` to one agent's invocations.

    ``registry`` decides what a call acts for; ``tools`` is the table (:func:`rightlab.mcp.builtin_tools`).
    ``bearer`` is the agent's own, made new unless given. It never leaves the host: it is taken without an
    invocation only, and each invocation's bearer is derived from it.
    """

    def __init__(
        self, registry: InvocationRegistry, tools: Sequence[Tool], *, bearer: str | None = None
    ) -> None:
        self.registry = registry
        self.tools = sorted_tools(tools)
        self.bearer = bearer or "right-" + secrets.token_urlsafe(32)
        self._by_name = {tool.name: tool for tool in self.tools}
        self._manager: StreamableHTTPSessionManager | None = None
        self._host = HttpHost(self._app, name="MCP server", lifespan=self._lifespan)

    @property
    def url(self) -> str | None:
        """``http://127.0.0.1:PORT`` when it listens on TCP, else None; the MCP endpoint is ``/mcp`` below."""
        return self._host.url

    def instructions(self) -> str:
        """The words for the model that go with the tools, generated from the table."""
        return instructions(self.tools)

    def bearer_of(self, invocation_id: str | None) -> str:
        """The bearer of one invocation; of None the agent's own, for callers on the host without a scope."""
        if invocation_id is None:
            return self.bearer
        digest = hmac.new(self.bearer.encode(), invocation_id.encode(), hashlib.sha256)
        return f"right-{digest.hexdigest()}"

    def client_config(self, invocation_id: str, base_url: str) -> dict[str, Any]:
        """The ``--mcp-config`` document for one invocation that reaches this server at ``base_url``.

        It holds what lets its reader act for this invocation: show it to that invocation alone.
        """
        server = {
            "type": "http",
            "url": base_url.rstrip("/") + MCP_PATH,
            "headers": {
                "Authorization": f"Bearer {self.bearer_of(invocation_id)}",
                INVOCATION_HEADER: invocation_id,
            },
        }
        return {"mcpServers": {SERVER_NAME: server}}

    async def start(self, *, unix: Path | None = None, tcp: bool = False) -> None:
        """Listen on a unix socket (0600) and/or a free port of 127.0.0.1.

        Raises:
            GatewayError: running already, or nothing to listen on.
            RightlabError: the socket's path cannot be used.
        """
        await self._host.start(unix=unix, tcp=tcp)

    async def stop(self) -> None:
        """Stop; calls that run are cut after a moment. Safe to call twice."""
        await self._host.stop()

    def _lifespan(self) -> Any:
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
        from mcp.server.transport_security import TransportSecuritySettings

        # Whoever holds the bearer may come by any name; the guest reaches us under a name of the sandbox.
        security = TransportSecuritySettings(enable_dns_rebinding_protection=False)
        self._manager = StreamableHTTPSessionManager(
            self._server(), json_response=True, stateless=True, security_settings=security
        )
        return self._manager.run()

    def _server(self) -> "Server[Any]":
        import mcp_types as types
        from mcp.server.lowlevel.server import Server

        listed = types.ListToolsResult(
            tools=[
                types.Tool(name=tool.name, description=tool.summary, input_schema=input_schema(tool))
                for tool in self.tools
            ]
        )

        async def list_tools(context: Any, params: Any) -> types.ListToolsResult:
            return listed

        async def call_tool(context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
            tool = self._by_name.get(params.name)
            if tool is None:
                from mcp.shared.exceptions import MCPError

                raise MCPError(code=types.INVALID_PARAMS, message=f"Unknown tool: {params.name}")
            request = getattr(context, "request", None)
            invocation = _invocation(request.scope) if request is not None else None
            answer = await self.call(tool, params.arguments or {}, invocation)
            failed = isinstance(answer, Failure)
            document = answer.to_json() if isinstance(answer, Failure) else dict(answer)
            text = types.TextContent(type="text", text=orjson.dumps(document).decode())
            return types.CallToolResult(content=[text], is_error=failed)

        return Server(
            SERVER_NAME,
            version="1",
            instructions=self.instructions(),
            on_list_tools=list_tools,
            on_call_tool=call_tool,
        )

    async def call(
        self, tool: Tool, arguments: Mapping[str, Any], invocation_id: str | None
    ) -> Mapping[str, Any] | Failure:
        """One call: scope, kind, parameters, then the tool's port under its time limit."""
        scope = self.registry.lookup(invocation_id)
        if tool.kinds is not None:
            if scope is None:
                return Failure(
                    "conversation_scope_unavailable",
                    "This call belongs to no running turn, so there is no chat it could act for.",
                )
            if scope.kind not in tool.kinds:
                return Failure(tool.forbidden, f"{tool.name} cannot be used in a {scope.kind} turn.")
        params = tool.parse(arguments)
        if isinstance(params, Failure):
            return params
        try:
            async with asyncio.timeout(tool.timeout):
                return await tool.handler(ToolContext(scope), params)
        except TimeoutError:
            note = " It may have had its effect all the same: do not repeat it." if tool.uncertain else ""
            details = {"delivery_uncertain": True} if tool.uncertain else None
            return Failure(tool.failed, f"No answer within {tool.timeout:g} s.{note}", details)
        except RightlabError as error:
            return Failure(tool.failed, str(error))
        except Exception:
            log.exception("tool %s failed", tool.name)
            return Failure(tool.failed, f"{tool.name} failed inside the platform; the log has the reason.")

    async def _app(self, scope: HttpScope, receive: Receive, send: Send) -> None:
        if scope["path"] != MCP_PATH:
            await _plain(send, 404, b"Not Found")
            return
        given = (header(scope, b"authorization") or "").removeprefix("Bearer ").strip()
        wanted = self.bearer_of(_invocation(scope))
        if not secrets.compare_digest(given.encode("latin-1"), wanted.encode()):
            await _plain(send, 401, b"Unauthorized", (b"www-authenticate", b"Bearer"))
            return
        assert self._manager is not None
        await self._manager.handle_request(scope, receive, send)


def _invocation(scope: HttpScope) -> str | None:
    """The invocation a request names: the one reading for the door and for the tools behind it."""
    return header(scope, INVOCATION_HEADER.lower().encode())


async def _plain(send: Send, status: int, body: bytes, *headers: tuple[bytes, bytes]) -> None:
    start = [(b"content-type", b"text/plain"), (b"content-length", str(len(body)).encode()), *headers]
    await send({"type": "http.response.start", "status": status, "headers": start})
    await send({"type": "http.response.body", "body": body})
