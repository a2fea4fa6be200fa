"""The prompt: registry, templates, Right Agent's sections, stdin message, untrusted frame, guest script."""

from rightlab.prompt.assembly import (
    AssembledContext,
    AssembledSection,
    Assembly,
    Part,
    Problem,
    estimate_tokens,
)
from rightlab.prompt.conversation_block import ConversationInfo, conversation_block
from rightlab.prompt.guard import Sanitized, sanitize_external, wrap_untrusted
from rightlab.prompt.layers import Registration
from rightlab.prompt.memory_status import MemoryState, MemoryStatus, MemoryStatusMarker, PendingMarker
from rightlab.prompt.message import (
    Attachment,
    Author,
    Recalled,
    ReplyTarget,
    UserMessage,
    focus_block,
    notification_block,
    recall_block,
    render_messages,
    render_reply_target,
    volatile_prefix,
)
from rightlab.prompt.registry import PromptRegistry
from rightlab.prompt.script import ASSEMBLY_FAILED, build_assembly_script
from rightlab.prompt.sections import (
    BOOTSTRAP_STAGES,
    MODES,
    BootstrapState,
    PromptSettings,
    operating_instructions,
    right_agent_registry,
)
from rightlab.prompt.skills import BUILTIN_SKILLS, builtin_skill
from rightlab.prompt.template import join_sections, render_template
from rightlab.prompt.tools import TOOL_ORDER_REST, ToolProviderResult, ToolSchema

__all__ = [
    "ASSEMBLY_FAILED",
    "BOOTSTRAP_STAGES",
    "BUILTIN_SKILLS",
    "MODES",
    "TOOL_ORDER_REST",
    "AssembledContext",
    "AssembledSection",
    "Assembly",
    "Attachment",
    "Author",
    "BootstrapState",
    "ConversationInfo",
    "MemoryState",
    "MemoryStatus",
    "MemoryStatusMarker",
    "Part",
    "PendingMarker",
    "Problem",
    "PromptRegistry",
    "PromptSettings",
    "Recalled",
    "Registration",
    "ReplyTarget",
    "Sanitized",
    "ToolProviderResult",
    "ToolSchema",
    "UserMessage",
    "build_assembly_script",
    "builtin_skill",
    "conversation_block",
    "estimate_tokens",
    "focus_block",
    "join_sections",
    "notification_block",
    "operating_instructions",
    "recall_block",
    "render_messages",
    "render_reply_target",
    "render_template",
    "right_agent_registry",
    "sanitize_external",
    "volatile_prefix",
    "wrap_untrusted",
]
