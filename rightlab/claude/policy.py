"""Who calls the CLI, and with what: the per-caller table as data (spec agent-runtime 3.1, 3.2)."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

from rightlab.errors import UsageError

__all__ = [
    "BASE_DENIES",
    "CALLERS",
    "LEARNING_TOOLS",
    "MCP_PREFIX",
    "NON_FOREGROUND_DENIES",
    "CallerPolicy",
    "OutputFormat",
    "SchemaName",
    "SessionUse",
    "caller_policy",
    "denied_tools",
]

OutputFormat = Literal["stream-json", "json", "text"]
SchemaName = Literal["reply", "bootstrap", "cron", "background", "prefilter", "curator_plan"]
SessionUse = Literal["resume_or_new", "resume_or_none", "resume", "new", "fork", "none"]

MCP_PREFIX = "mcp__right__"
"""What the CLI puts before the names of the aggregator's tools: its server is called ``right``."""

BASE_DENIES = (
    "CronCreate",
    "CronList",
    "CronDelete",
    "TaskCreate",
    "TaskUpdate",
    "TaskList",
    "TaskGet",
    "TaskOutput",
    "TaskStop",
    "EnterPlanMode",
    "ExitPlanMode",
    "RemoteTrigger",
    "ScheduleWakeup",
    "EnterWorktree",
    "ExitWorktree",
    "Monitor",
    "PushNotification",
    "TeamCreate",
    "TeamDelete",
    "AskUserQuestion",
)
"""Tools of the CLI that would start work nobody owns, or wait for a person who is not there."""

LEARNING_TOOLS = (f"{MCP_PREFIX}skill_learning_start", f"{MCP_PREFIX}skill_learning_finish")

NON_FOREGROUND_DENIES = (
    *(
        MCP_PREFIX + name
        for name in (
            "send_progress",
            "thread_search",
            "chat_search",
            "get_messages_by_id",
            "forum_topic_create",
            "forum_topic_edit",
            "forum_topic_close",
            "forum_topic_reopen",
            "forum_topic_list",
            "thread_focus_set",
        )
    ),
    *LEARNING_TOOLS,
)
"""Tools that only a turn with a person at the other end may use."""

_CHANNEL_POST = f"{MCP_PREFIX}channel_post"
_NO_BACKGROUND: Mapping[str, Any] = MappingProxyType({"env": {"CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1"}})


@dataclass(frozen=True)
class CallerPolicy:
    """One row of spec 3.2. Times in seconds, money in US dollars, None = no limit.

    ``tools`` None leaves the CLI's own set, () switches every one of them off. ``allowed`` restricts nothing
    while permissions are skipped, so a caller that may use few tools has them in ``tools`` as well.
    """

    name: str
    session: SessionUse
    output_format: OutputFormat = "stream-json"
    schema: SchemaName | None = None
    mcp: bool = True
    foreground: bool = False
    tools: tuple[str, ...] | None = None
    allowed: tuple[str, ...] = ()
    denied: tuple[str, ...] = ()
    keeps_learning_tools: Literal["never", "if_learning", "always"] = "never"
    model: str | None = None
    max_turns: int | None = None
    max_budget_usd: float | None = None
    settings: Mapping[str, Any] | None = None
    timeout_s: float | None = None
    first_progress_s: float | None = None
    persist: bool = True


_REFLECTION_DENIES = (_CHANNEL_POST, "Agent")
_WRITER_TOOLS = ("Write", "Read", "Bash")
_CURATOR_TOOLS = ("Read", "Bash")

_ROWS = (
    CallerPolicy(
        "worker",
        "resume_or_new",
        schema="reply",
        foreground=True,
        keeps_learning_tools="always",
        timeout_s=600,
        first_progress_s=20,
    ),
    CallerPolicy(
        "bootstrap_question",
        "none",
        output_format="json",
        schema="bootstrap",
        mcp=False,
        foreground=True,
        tools=(),
        max_turns=1,
        timeout_s=120,
        persist=False,
    ),
    CallerPolicy(
        "cron",
        "new",
        schema="cron",
        keeps_learning_tools="if_learning",
        settings=_NO_BACKGROUND,
        timeout_s=1800,
    ),
    CallerPolicy(
        "background", "fork", schema="background", keeps_learning_tools="if_learning", settings=_NO_BACKGROUND
    ),
    CallerPolicy(
        "delivery",
        "resume_or_none",
        output_format="json",
        schema="reply",
        denied=(_CHANNEL_POST,),
        timeout_s=120,
    ),
    CallerPolicy(
        "reflection",
        "resume",
        schema="reply",
        denied=_REFLECTION_DENIES,
        max_turns=3,
        max_budget_usd=0.20,
        timeout_s=90,
    ),
    CallerPolicy(
        "reflection_cron",
        "resume",
        schema="cron",
        denied=_REFLECTION_DENIES,
        max_turns=5,
        max_budget_usd=0.40,
        timeout_s=180,
    ),
    CallerPolicy(
        "repair",
        "resume",
        schema="reply",
        denied=_REFLECTION_DENIES,
        max_turns=3,
        max_budget_usd=0.20,
        timeout_s=90,
    ),
    CallerPolicy(
        "prefilter",
        "none",
        output_format="json",
        schema="prefilter",
        mcp=False,
        tools=(),
        max_turns=1,
        timeout_s=30,
        persist=False,
    ),
    CallerPolicy(
        "probe_writer",
        "fork",
        tools=_WRITER_TOOLS,
        allowed=(*_WRITER_TOOLS, *LEARNING_TOOLS),
        keeps_learning_tools="always",
        max_turns=16,
        timeout_s=300,
        first_progress_s=30,
    ),
    CallerPolicy(
        "curator_apply",
        "new",
        tools=_CURATOR_TOOLS,
        allowed=(*_CURATOR_TOOLS, *LEARNING_TOOLS),
        keeps_learning_tools="always",
        max_turns=9999,
        timeout_s=900,
    ),
    CallerPolicy(
        "curator_report", "new", schema="curator_plan", tools=("Read",), allowed=("Read",), timeout_s=900
    ),
    CallerPolicy("compaction", "resume", output_format="json", mcp=False, tools=(), timeout_s=120),
    CallerPolicy(
        "health_probe",
        "none",
        output_format="text",
        model="haiku",
        max_turns=1,
        timeout_s=60,
        persist=False,
    ),
)

CALLERS: Mapping[str, CallerPolicy] = MappingProxyType({row.name: row for row in _ROWS})
"""Every caller of the CLI by name."""


def caller_policy(caller: str) -> CallerPolicy:
    """The row of ``caller``. Raises UsageError for a caller that is not in the table."""
    try:
        return CALLERS[caller]
    except KeyError:
        raise UsageError(
            f"{caller!r} is no caller of Claude Code", fix=f"Use one of {', '.join(CALLERS)}."
        ) from None


def denied_tools(caller: str, *, learning: bool = True) -> tuple[str, ...]:
    """The deny list of ``caller``; ``learning`` is the agent's ``learning.prefilter_enabled``.

    A call that has no tools at all needs none.
    """
    policy = caller_policy(caller)
    if policy.tools == () and not policy.mcp:
        return ()
    kept = policy.keeps_learning_tools
    keeps = kept == "always" or (kept == "if_learning" and learning)
    others = () if policy.foreground else NON_FOREGROUND_DENIES
    return (
        *BASE_DENIES,
        *(name for name in others if not (keeps and name in LEARNING_TOOLS)),
        *policy.denied,
    )
