"""Right Agent's composite prompt: which sections there are, in which order, for which mode and caller.

Source: spec agent-runtime 1.2-1.7. Needed by onboarding too: base text. Otherwise: operating instructions.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rightlab.prompt.build import look
from rightlab.prompt.conversation_block import ConversationInfo, conversation_block
from rightlab.prompt.registry import PromptRegistry
from rightlab.prompt.template import join_sections
from rightlab.prompt.texts import text

__all__ = [
    "BOOTSTRAP_STAGES",
    "MODES",
    "BootstrapState",
    "PromptSettings",
    "operating_instructions",
    "right_agent_registry",
]

MODES = ("normal", "cron", "bootstrap_question", "bootstrap_final")
BOOTSTRAP_STAGES = ("user_name", "agent_name", "nature", "vibe", "emoji")
MEMORY_LINES = 200
_OWNER = "rightlab"


@dataclass(frozen=True)
class PromptSettings:
    """What about an agent shapes its prompt.

    ``sandbox_mode``: bwrap, landlock, openshell or none. ``guest_root`` is the home folder as the agent sees
    it. ``notice_token`` authenticates the platform's notices. ``memory_provider``: file or hindsight.
    ``skills``: names of installed built-in skills. ``tools``: names of the platform tools that exist
    (``None``: all); a topic whose tools do not exist is left out.
    """

    agent_name: str
    sandbox_mode: str = "bwrap"
    guest_root: str = "/sandbox"
    notice_token: str | None = None
    memory_provider: str = "file"
    skills: tuple[str, ...] = ()
    timezone: str = "UTC"
    tools: frozenset[str] | None = None


@dataclass(frozen=True)
class BootstrapState:
    """How far onboarding has come: the five answers, ``None`` where there is none yet."""

    user_name: str | None = None
    agent_name: str | None = None
    nature: str | None = None
    vibe: str | None = None
    emoji: str | None = None

    @property
    def first_missing_stage(self) -> str:
        """The stage to ask for; ``final`` when all answers are there."""
        return next((stage for stage in BOOTSTRAP_STAGES if getattr(self, stage) is None), "final")

    def to_json(self) -> str:
        """The state as one line of JSON in ASCII, with ``<``, ``>``, ``&`` and backticks escaped as well."""
        answers = {stage: getattr(self, stage) for stage in BOOTSTRAP_STAGES}
        state = {"first_missing_stage": self.first_missing_stage, "recorded_answers": answers}
        line = json.dumps(state, ensure_ascii=True, separators=(",", ":"))
        return re.sub("[<>&`]", lambda hit: f"\\u{ord(hit[0]):04x}", line)


@dataclass(frozen=True)
class _Topic:
    """One topic of the operating instructions and when it applies."""

    name: str
    tools: tuple[str, ...] = ()
    skill: str | None = None
    without_skill: str | None = None
    memory: str | None = None


_TOPICS = (
    _Topic("files"),
    _Topic("memory-file", memory="file"),
    _Topic("memory-hindsight", memory="hindsight"),
    _Topic("remember-skill", skill="right-memory"),
    _Topic("remember-plain", without_skill="right-memory"),
    _Topic("search", tools=("thread_search", "chat_search")),
    _Topic("mcp"),
    _Topic("mcp-skill", skill="right-mcp"),
    _Topic("providers", tools=("provider_capabilities",)),
    _Topic("mcp-errors"),
    _Topic("debug"),
    _Topic("communication"),
    _Topic("subagents"),
    _Topic("progress", tools=("send_progress",)),
    _Topic("send", tools=("send_message",)),
    _Topic("formatting"),
    _Topic("input"),
    _Topic("attachments"),
    _Topic("cron", tools=("cron_create",)),
    _Topic("cron-skill", tools=("cron_create",), skill="right-cron"),
    _Topic("forum", tools=("forum_topic_create",)),
    _Topic("channels", tools=("channel_list",)),
    _Topic("skills"),
    _Topic("skills-learn", skill="right-learn-skill"),
    _Topic("notices"),
)


def operating_instructions(settings: PromptSettings) -> str:
    """The operating instructions (a template) for an agent: the topics of spec 1.6 that apply to it."""
    return join_sections([text(f"operating/{topic.name}") for topic in _TOPICS if _applies(topic, settings)])


def _applies(topic: _Topic, settings: PromptSettings) -> bool:
    return (
        (settings.tools is None or not topic.tools or not settings.tools.isdisjoint(topic.tools))
        and (topic.skill is None or topic.skill in settings.skills)
        and (topic.without_skill is None or topic.without_skill not in settings.skills)
        and (topic.memory is None or topic.memory == settings.memory_provider)
    )


def right_agent_registry(
    settings: PromptSettings, *, tool_order: tuple[str, ...] | None = None
) -> PromptRegistry:
    """A registry holding Right Agent's sections for one agent; the caller may add scopes and listeners.

    Keys of the assemble context: ``mode`` (see :data:`MODES`, default normal), ``caller`` (worker, cron,
    background, delivery, reflection; default worker, in cron mode cron), ``root`` (host folder of the guest
    root), ``conversation`` (:class:`ConversationInfo`), ``mcp_instructions``, ``operator_focus``,
    ``bootstrap`` (:class:`BootstrapState` or a mapping of answers), ``scope``. All may be absent.
    """
    registry = PromptRegistry(identity=text("base"), tool_order=tool_order)
    for name, value in (
        ("agent_name", settings.agent_name),
        ("guest_root", settings.guest_root),
        ("sandbox", _SANDBOXES.get(settings.sandbox_mode, settings.sandbox_mode)),
        ("timezone", settings.timezone),
    ):
        registry.variable(name, value, owner=_OWNER)

    def compiled(name: str, order: int, heading: str, body: str, when: Callable[[Any], bool]) -> None:
        registry.section(name, order, f"## {heading}\n\n{body}", when=when, owner=_OWNER)

    def data(
        name: str, order: int, body: Callable[[Any], str], when: Callable[[Any], bool], owner: str
    ) -> None:
        registry.section(name, order, body, literal=True, when=when, owner=owner)

    def file(
        name: str, order: int, heading: str, path: str, when: Callable[[Any], bool], **frame: Any
    ) -> None:
        registry.section(name, order, f"## {heading}", literal=True, file=path, when=when, **frame)

    compiled("right:operating", 100, "Operating Instructions", operating_instructions(settings), _working)
    compiled("right:cron-contract", 200, "Cron Delivery Contract", text("cron"), _scheduled)
    compiled("right:bootstrap", 300, "Bootstrap Instructions", text("bootstrap"), _onboarding)
    data("right:bootstrap-state", 310, _bootstrap_state, _onboarding, _OWNER)
    file("identity:identity", 400, "Your Identity", "IDENTITY.md", _working)
    file("identity:soul", 410, "Your Personality and Values", "SOUL.md", _working)
    file("identity:user", 420, "Your User", "USER.md", _working)
    file("identity:tools", 430, "Environment and Tools", "TOOLS.md", _working)
    if settings.notice_token:
        token = f"## Platform Notice Token\n\n{settings.notice_token}"
        data("right:notice-token", 500, lambda context: token, _noticed, _OWNER)
    data("right:conversation", 600, _conversation, _live, "conversation")
    data("mcp:instructions", 700, _mcp_instructions, _connected, "mcp")
    data("right:focus", 800, _operator_focus, _live, "operator")
    if settings.memory_provider == "file":
        frame = {"head": MEMORY_LINES, "wrap": "memory"}
        file("memory:long-term", 900, "Long-Term Memory", "MEMORY.md", _live, **frame)
    return registry


_SANDBOXES = {
    "bwrap": "bubblewrap; the system is read-only, only your home folder can be written",
    "landlock": "Landlock; only your home folder can be written",
    "openshell": "OpenShell container",
    "none": "none; you run on the person's own computer, so touch nothing outside your home folder unasked",
}


def _mode(context: Any) -> str:
    return str(look(context, "mode") or "normal")


def _caller(context: Any) -> str:
    return str(look(context, "caller") or ("cron" if _mode(context) == "cron" else "worker"))


def _onboarding(context: Any) -> bool:
    return _mode(context).startswith("bootstrap")


def _working(context: Any) -> bool:
    return not _onboarding(context)


def _scheduled(context: Any) -> bool:
    return _mode(context) == "cron"


def _live(context: Any) -> bool:
    """A person is talking: the foreground worker in normal mode."""
    return _mode(context) == "normal" and _caller(context) == "worker"


def _noticed(context: Any) -> bool:
    return _working(context) and _caller(context) != "delivery"


def _connected(context: Any) -> bool:
    return _working(context) and _caller(context) != "reflection"


def _conversation(context: Any) -> str:
    info = look(context, "conversation")
    if not isinstance(info, ConversationInfo):
        return ""
    return f"## Current Conversation\n\n{conversation_block(info)}"


def _mcp_instructions(context: Any) -> str:
    instructions = str(look(context, "mcp_instructions") or "").strip()
    return f"## MCP Server Instructions\n\n{instructions}" if instructions else ""


def _operator_focus(context: Any) -> str:
    focus = str(look(context, "operator_focus") or "").strip()
    if not focus:
        return ""
    info = look(context, "conversation")
    kind = "Chat"
    if isinstance(info, ConversationInfo) and info.kind != "dm":
        kind = "Topic" if info.topic_id else "Group"
    return f"## {kind} Focus\n\n{text('focus')}\n\n{focus}"


def _bootstrap_state(context: Any) -> str:
    state = look(context, "bootstrap")
    if isinstance(state, Mapping):
        state = BootstrapState(**{stage: state.get(stage) for stage in BOOTSTRAP_STAGES})
    if not isinstance(state, BootstrapState):
        state = BootstrapState()
    return f"## Authoritative Bootstrap State (JSON)\n\n```json\n{state.to_json()}\n```"
