"""What the CLI says, as typed events (spec agent-runtime 3.3)."""

from dataclasses import dataclass, field
from typing import Any

__all__ = [
    "ApiRetry",
    "AssistantText",
    "Event",
    "Init",
    "McpServer",
    "Other",
    "PermissionDenied",
    "Progress",
    "Result",
    "Thinking",
    "ToolResult",
    "ToolUse",
]

Json = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Event:
    """Anything the CLI said. ``raw`` is its JSON object ({} for a line that is none)."""

    session_id: str | None = None
    raw: Json = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True)
class McpServer:
    """An MCP server as the CLI saw it at its start: connected, failed, pending, needs-auth, ..."""

    name: str
    status: str


@dataclass(frozen=True, kw_only=True)
class Init(Event):
    """The CLI is up; nothing was asked of the model yet. ``model`` is the full id an alias stands for."""

    model: str | None = None
    tools: tuple[str, ...] = ()
    mcp_servers: tuple[McpServer, ...] = ()
    api_key_source: str | None = None
    version: str | None = None
    cwd: str | None = None

    def mcp_status(self, name: str = "right") -> str | None:
        """The status of one server; None when it is not listed. The CLI says nothing else of a failure."""
        return next((server.status for server in self.mcp_servers if server.name == name), None)


@dataclass(frozen=True, kw_only=True)
class AssistantText(Event):
    """One text block. ``api_error``: written by the CLI itself about a failed request, not by the model."""

    text: str
    message_id: str | None = None
    parent_tool_use_id: str | None = None
    api_error: bool = False


@dataclass(frozen=True, kw_only=True)
class Thinking(Event):
    """One thinking block; its text may be empty."""

    text: str = ""
    message_id: str | None = None
    parent_tool_use_id: str | None = None


@dataclass(frozen=True, kw_only=True)
class ToolUse(Event):
    """The model calls a tool. ``parent_tool_use_id`` is set inside a subagent."""

    tool_use_id: str
    name: str
    input: Json = field(default_factory=dict)
    message_id: str | None = None
    parent_tool_use_id: str | None = None


@dataclass(frozen=True, kw_only=True)
class ToolResult(Event):
    """What a tool gave back, as text."""

    tool_use_id: str
    text: str = ""
    is_error: bool = False
    parent_tool_use_id: str | None = None

    @property
    def schema_rejected(self) -> bool:
        """Whether the CLI refused a structured reply; three in a row are a loop (spec 3.5)."""
        return self.is_error and "does not match required schema" in self.text


@dataclass(frozen=True, kw_only=True)
class Progress(Event):
    """A sign of life from the model without content (thinking_tokens, status, partial messages)."""

    subtype: str


@dataclass(frozen=True, kw_only=True)
class ApiRetry(Event):
    """A failed request that the CLI will make again after ``delay_ms``."""

    attempt: int = 0
    max_retries: int = 0
    delay_ms: float = 0.0
    status: int | None = None
    error: str | None = None


@dataclass(frozen=True, kw_only=True)
class PermissionDenied(Event):
    """The CLI refused a tool call; the turn goes on."""

    tool: str | None = None


@dataclass(frozen=True, kw_only=True)
class Other(Event):
    """Anything else: ``kind`` is its type (and subtype), or ``unparsed`` with the line in ``text``."""

    kind: str
    text: str = ""


@dataclass(frozen=True, kw_only=True)
class Result(Event):
    """The one terminal event of a run.

    ``is_error`` alone says whether it failed: ``subtype`` may be ``success`` all the same. A turn that went
    well may have ``structured_output`` None.

    ``usage`` is this turn's, in the API's own words (input_tokens, output_tokens, cache_read_input_tokens,
    cache_creation_input_tokens, cache_creation, server_tool_use). Taken from ``model_usage`` where the CLI
    gives it, as only that counts a last request that was cut off, and subagents.
    ``model_usage`` is per model since the last result; None when the CLI did not say.
    ``cost_usd`` is this turn's, in US dollars, by the CLI's own prices; None when it gave none or does not
    know the model. ``session_cost_usd`` is the running total of the session and never to be summed.
    """

    subtype: str = ""
    is_error: bool = False
    text: str = ""
    structured_output: Any = None
    num_turns: int = 0
    usage: Json = field(default_factory=dict)
    model_usage: dict[str, Json] | None = None
    cost_usd: float | None = None
    session_cost_usd: float | None = None
    duration_ms: float | None = None
    duration_api_ms: float | None = None
    ttft_ms: float | None = None
    time_to_request_ms: float | None = None
    api_error_status: int | None = None
    terminal_reason: str | None = None
    stop_reason: str | None = None
    errors: tuple[str, ...] = ()
    permission_denials: tuple[Json, ...] = ()
    subagents: Json = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return not self.is_error

    @property
    def exit_code(self) -> int:
        """What the run counts as (spec 3.3): from ``is_error``, not from the process, which may be killed."""
        return int(self.is_error)
