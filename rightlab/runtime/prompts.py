"""An agent's prompt registry: the same for the running agent and for somebody who only looks."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from rightlab.errors import StoreError, UsageError
from rightlab.home import AgentConfig, AgentHome
from rightlab.html import zone
from rightlab.mcp import builtin_tools
from rightlab.prompt import Assembly, PromptRegistry, PromptSettings, right_agent_registry
from rightlab.runtime.platform_files import installed_skills
from rightlab.store import Store

if TYPE_CHECKING:
    from rightlab.prompt.inspect import Lint
    from rightlab.runtime.variants import Variant

__all__ = [
    "MODES",
    "Origin",
    "agent_registry",
    "assemble_now",
    "lint_now",
    "origin_of",
    "prompt_context",
    "stored_registry",
]

MODES = ("normal", "cron", "bootstrap_question", "bootstrap_final")


@dataclass(frozen=True)
class Origin:
    """Of which agent an assembly is, in which mode, with the edits of which variant."""

    agent: AgentHome
    mode: str
    variant: "Variant | None"


_origins: "WeakKeyDictionary[Assembly, Origin]" = WeakKeyDictionary()


def origin_of(assembly: Assembly) -> Origin | None:
    """Where an assembly of :func:`assemble_now` comes from; None for one made otherwise."""
    return _origins.get(assembly)


def agent_registry(agent: AgentHome, config: AgentConfig, token: str | None) -> PromptRegistry:
    """The registry of ``agent`` as configured; ``token`` is its notice token.

    It names the tools the aggregator has, whoever asks: what is shown and what the model gets cannot differ.
    """
    bare = config.sandbox.mode == "none"
    return right_agent_registry(
        PromptSettings(
            agent_name=agent.name,
            sandbox_mode="none" if bare else "bwrap",
            guest_root=str(agent.guest_dir) if bare else "/sandbox",
            notice_token=token,
            memory_provider=config.memory.provider,
            timezone=config.timezone,
            skills=installed_skills(agent),
            tools=frozenset(tool.name for tool in builtin_tools()),
        )
    )


def stored_registry(agent: AgentHome) -> PromptRegistry:
    """:func:`agent_registry` from the files and the database as they are now."""
    return agent_registry(agent, agent.config(), _stored_token(agent))


def prompt_context(agent: AgentHome) -> Mapping[str, Any]:
    """The part of an assembly context that is the agent's own."""
    return {"root": Path(agent.guest_dir)}


def assemble_now(
    agent: AgentHome,
    mode: str,
    *,
    variant: "Variant | None" = None,
    measured: bool = True,
    registry: PromptRegistry | None = None,
) -> Assembly:
    """What the model would be told in ``mode``, from the files as they are. Raises UsageError, PromptError.

    ``variant`` shadows sections and variables of this one assembly. ``measured``: with each section's stability
    and calibrated token counts, where recordings tell. ``registry`` is the agent's when the caller has it already.
    """
    if mode not in MODES:
        raise UsageError(f"no prompt mode {mode!r}", fix=f"Use one of {', '.join(MODES)}.")
    registry = stored_registry(agent) if registry is None else registry
    caller = "cron" if mode == "cron" else "worker"
    context: dict[str, Any] = {"mode": mode, "caller": caller, **prompt_context(agent)}
    if variant is None:
        assembly = registry.assemble_now(context)
    else:
        with variant.shadow(registry) as scope:
            assembly = registry.assemble_now({**context, "scope": scope})
    _origins[assembly] = Origin(agent, mode, variant)
    return _measured(agent, assembly, mode) if measured else assembly


def lint_now(agent: AgentHome, mode: str, *, variant: "Variant | None" = None, **options: Any) -> "Lint":
    """The findings of the linter for the prompt as it is now; recordings tell what really changes."""
    from rightlab.prompt.inspect import lint
    from rightlab.runtime.requests import read_stability

    today = datetime.now(zone(agent.config().timezone)).date()
    assembly = assemble_now(agent, mode, variant=variant)
    options = {
        "history": read_stability(agent, mode),
        "today": today,
        "method": assembly.token_method,
        **options,
    }
    return lint(assembly, **options)


def _measured(agent: AgentHome, assembly: Assembly, mode: str) -> Assembly:
    from rightlab.prompt.inspect import fill_stability
    from rightlab.runtime.requests import read_stability, recent_calibration

    if not agent.recordings_dir.is_dir():
        return assembly
    fill_stability(assembly, read_stability(agent, mode))
    calibration = recent_calibration(agent)
    assembly.token_factor = calibration.factor
    assembly.token_method = calibration.method
    return assembly


def _stored_token(agent: AgentHome) -> str | None:
    try:
        with Store.open(agent.db_path, role="reader") as store:
            found = store.value("SELECT token FROM notice_token WHERE id = 1")
    except StoreError:
        return None
    return None if found is None else str(found)
