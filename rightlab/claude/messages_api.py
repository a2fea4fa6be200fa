"""The Messages API's own manners: what a request must be, and how a refusal looks.

Used by the scripted model, which is as strict as the API, and by the gateway for refusals of its own. Texts
follow the API's, so that a client that reads them behaves as it would against the real one.
"""

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from rightlab.claude.request_blocks import iter_blocks

__all__ = ["ApiError", "check_request", "error_type", "message_id"]

_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    502: "api_error",
    503: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_MAX_BREAKPOINTS = 4


def error_type(status: int) -> str:
    """The ``error.type`` that goes with an HTTP status."""
    return _TYPES.get(status, "api_error" if status >= 500 else "invalid_request_error")


def message_id(prefix: str = "msg") -> str:
    """A fresh id in the API's style."""
    return f"{prefix}_{secrets.token_hex(12)}"


@dataclass(frozen=True, slots=True)
class ApiError:
    """A refusal: HTTP status, type, text, and what a retrying client should know.

    ``retry_after`` in seconds; ``should_retry`` False tells the client's library not to try again.
    """

    status: int
    message: str
    type: str = ""
    retry_after: float | None = None
    should_retry: bool | None = None
    headers: Mapping[str, str] | None = None

    @property
    def kind(self) -> str:
        return self.type or error_type(self.status)

    def body(self) -> bytes:
        error = {"type": self.kind, "message": self.message}
        return orjson.dumps({"type": "error", "error": error, "request_id": message_id("req")})

    def http_headers(self) -> list[tuple[bytes, bytes]]:
        headers = [(b"content-type", b"application/json")]
        if self.retry_after is not None:
            headers.append((b"retry-after", f"{self.retry_after:g}".encode()))
        if self.should_retry is not None:
            headers.append((b"x-should-retry", b"true" if self.should_retry else b"false"))
        for name, value in (self.headers or {}).items():
            headers.append((name.lower().encode("latin-1"), value.encode("latin-1")))
        return headers


def check_request(body: Any, *, counting: bool = False) -> ApiError | None:
    """The API's verdict on a request body: None when it would be accepted, else its 400.

    ``counting``: the rules of ``count_tokens``, where ``max_tokens`` is not asked for. Fields we do not know
    are let through: the CLI's betas come and go.
    """
    problem = _problem(body, counting)
    return None if problem is None else ApiError(400, problem)


def _problem(body: Any, counting: bool) -> str | None:
    if not isinstance(body, dict):
        return "The request body is not valid JSON."
    if "model" not in body:
        return "model: Field required"
    if not isinstance(body["model"], str) or not body["model"]:
        return "model: String should have at least 1 character"
    if not counting:
        if "max_tokens" not in body:
            return "max_tokens: Field required"
        limit = body["max_tokens"]
        if not isinstance(limit, int) or isinstance(limit, bool):
            return "max_tokens: Input should be a valid integer"
        if limit < 1:
            return "max_tokens: Input should be greater than or equal to 1"
    if "stream" in body and not isinstance(body["stream"], bool):
        return "stream: Input should be a valid boolean"
    return _tools_problem(body) or _messages_problem(body) or _cache_problem(body)


def _tools_problem(body: Mapping[str, Any]) -> str | None:
    tools = body.get("tools", [])
    if not isinstance(tools, list):
        return "tools: Input should be a valid list"
    names: set[str] = set()
    for index, tool in enumerate(tools):
        if not isinstance(tool, dict) or not isinstance(tool.get("name"), str):
            return f"tools.{index}.name: Field required"
        if not _TOOL_NAME.fullmatch(tool["name"]):
            return f"tools.{index}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"
        if tool["name"] in names:
            return "tools: Tool names must be unique."
        names.add(tool["name"])
        if "type" not in tool and not isinstance(tool.get("input_schema"), dict):
            return f"tools.{index}.input_schema: Field required"
    return None


def _messages_problem(body: Mapping[str, Any]) -> str | None:
    if "messages" not in body:
        return "messages: Field required"
    messages = body["messages"]
    if not isinstance(messages, list):
        return "messages: Input should be a valid list"
    if not messages:
        return "messages: at least one message is required"
    asked: list[str] = []
    for index, message in enumerate(messages):
        where = f"messages.{index}"
        if not isinstance(message, dict):
            return f"{where}: Input should be an object"
        role = message.get("role")
        if role not in ("user", "assistant", "system"):
            return f"{where}.role: Input should be 'user' or 'assistant'"
        if index == 0 and role != "user":
            return 'messages: first message must use the "user" role'
        content = message.get("content")
        if isinstance(content, str):
            if not content and role == "user":
                return f"{where}: user messages must have non-empty content"
            blocks: list[Any] = []
        elif isinstance(content, list):
            blocks = content
            if not blocks and not (role == "assistant" and index == len(messages) - 1):
                return (
                    f"{where}: all messages must have non-empty content except for the optional final "
                    "assistant message"
                )
        else:
            return f"{where}.content: Field required"
        problem, asked = _blocks_problem(where, role, blocks, asked)
        if problem:
            return problem
    return None


def _blocks_problem(
    where: str, role: str, blocks: list[Any], asked: list[str]
) -> tuple[str | None, list[str]]:
    """Checks one message; ``asked`` holds the tool calls the previous assistant message left open."""
    answered: list[str] = []
    calls: list[str] = []
    for number, block in enumerate(blocks):
        if not isinstance(block, dict) or not isinstance(block.get("type"), str):
            return f"{where}.content.{number}.type: Field required", []
        if block["type"] == "text" and not block.get("text"):
            return "messages: text content blocks must be non-empty", []
        if block["type"] == "tool_use":
            calls.append(str(block.get("id")))
        if block["type"] == "tool_result":
            answered.append(str(block.get("tool_use_id")))
    if role == "system":
        return None, asked
    if role == "user":
        stray = [name for name in answered if name not in asked]
        if stray:
            return (
                f"{where}.content: unexpected `tool_use_id` found in `tool_result` blocks: {stray[0]}. Each "
                "`tool_result` block must have a corresponding `tool_use` block in the previous message."
            ), []
        missing = [name for name in asked if name not in answered]
        if missing:
            return (
                f"{where}: `tool_use` ids were found without `tool_result` blocks immediately after: "
                f"{', '.join(missing)}. Each `tool_use` block must have a corresponding `tool_result` block "
                "in the next message."
            ), []
        return None, []
    return None, calls


def _cache_problem(body: Mapping[str, Any]) -> str | None:
    points = [block for block in iter_blocks(body) if block.breakpoint is not None]
    if len(points) > _MAX_BREAKPOINTS:
        return (
            f"A maximum of {_MAX_BREAKPOINTS} blocks with cache_control may be provided. Found {len(points)}."
        )
    short = False
    for point in points:
        if point.breakpoint == "5m":
            short = True
        elif short:
            return (
                f"{point.path}.cache_control.ttl: a ttl='1h' cache_control block must not come after a "
                "ttl='5m' cache_control block. Note that blocks are processed in the following order: "
                "`tools`, `system`, `messages`."
            )
    return None
