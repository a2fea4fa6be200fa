"""The engine's way to Claude Code: the invocation, its schemas, its stream, its transport, the model gateway.

Names are loaded on first use, so that importing the room costs nothing (design 12).
"""

from typing import TYPE_CHECKING

from rightlab.lazy import lazy_exports

if TYPE_CHECKING:
    from rightlab.claude.cli import MINIMUM_VERSION, Cli, claude_env, find_cli
    from rightlab.claude.events import (
        ApiRetry,
        AssistantText,
        Event,
        Init,
        McpServer,
        Other,
        PermissionDenied,
        Progress,
        Result,
        Thinking,
        ToolResult,
        ToolUse,
    )
    from rightlab.claude.failures import failure_of
    from rightlab.claude.gateway import Gateway
    from rightlab.claude.invocation import Invocation
    from rightlab.claude.policy import (
        BASE_DENIES,
        CALLERS,
        MCP_PREFIX,
        NON_FOREGROUND_DENIES,
        CallerPolicy,
        caller_policy,
        denied_tools,
    )
    from rightlab.claude.redaction import redact_secrets
    from rightlab.claude.schemas import (
        Attachment,
        BackgroundReply,
        BootstrapReply,
        CronReply,
        Notify,
        Receipt,
        Reply,
        Silent,
        parse_background,
        parse_bootstrap,
        parse_cron,
        parse_reply,
        reply_with_receipts,
        schema_for,
    )
    from rightlab.claude.stream import parse_line, parse_stream
    from rightlab.claude.transport import ClaudeTransport, CliTransport, Launcher

__all__ = [
    "BASE_DENIES",
    "CALLERS",
    "MCP_PREFIX",
    "MINIMUM_VERSION",
    "NON_FOREGROUND_DENIES",
    "ApiRetry",
    "AssistantText",
    "Attachment",
    "BackgroundReply",
    "BootstrapReply",
    "CallerPolicy",
    "ClaudeTransport",
    "Cli",
    "CliTransport",
    "CronReply",
    "Event",
    "Gateway",
    "Init",
    "Invocation",
    "Launcher",
    "McpServer",
    "Notify",
    "Other",
    "PermissionDenied",
    "Progress",
    "Receipt",
    "Reply",
    "Result",
    "Silent",
    "Thinking",
    "ToolResult",
    "ToolUse",
    "caller_policy",
    "claude_env",
    "denied_tools",
    "failure_of",
    "find_cli",
    "parse_background",
    "parse_bootstrap",
    "parse_cron",
    "parse_line",
    "parse_reply",
    "parse_stream",
    "redact_secrets",
    "reply_with_receipts",
    "schema_for",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "cli": ("MINIMUM_VERSION", "Cli", "claude_env", "find_cli"),
        "events": (
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
        ),
        "failures": ("failure_of",),
        "gateway": ("Gateway",),
        "invocation": ("Invocation",),
        "policy": (
            "BASE_DENIES",
            "CALLERS",
            "MCP_PREFIX",
            "NON_FOREGROUND_DENIES",
            "CallerPolicy",
            "caller_policy",
            "denied_tools",
        ),
        "redaction": ("redact_secrets",),
        "schemas": (
            "Attachment",
            "BackgroundReply",
            "BootstrapReply",
            "CronReply",
            "Notify",
            "Receipt",
            "Reply",
            "Silent",
            "parse_background",
            "parse_bootstrap",
            "parse_cron",
            "parse_reply",
            "reply_with_receipts",
            "schema_for",
        ),
        "stream": ("parse_line", "parse_stream"),
        "transport": ("ClaudeTransport", "CliTransport", "Launcher"),
    },
)
