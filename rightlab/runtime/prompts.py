"""An agent's prompt registry: the same for the running agent and for somebody who only looks."""

import asyncio
import concurrent.futures
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rightlab.errors import PromptError, StoreError, UsageError
from rightlab.home import AgentConfig, AgentHome
from rightlab.mcp import builtin_tools
from rightlab.prompt import Assembly, PromptRegistry, PromptSettings, right_agent_registry
from rightlab.store import Store

__all__ = ["MODES", "agent_registry", "assemble_now", "prompt_context"]

MODES = ("normal", "cron", "bootstrap_question", "bootstrap_final")


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
            tools=frozenset(tool.name for tool in builtin_tools()),
        )
    )


def prompt_context(agent: AgentHome) -> Mapping[str, Any]:
    """The part of an assembly context that is the agent's own."""
    return {"root": Path(agent.guest_dir)}


def assemble_now(agent: AgentHome, mode: str) -> Assembly:
    """What the model would be told in ``mode``, from the files as they are. Raises UsageError, PromptError."""
    if mode not in MODES:
        raise UsageError(f"no prompt mode {mode!r}", fix=f"Use one of {', '.join(MODES)}.")
    registry = agent_registry(agent, agent.config(), _stored_token(agent))
    caller = "cron" if mode == "cron" else "worker"
    work = registry.assemble({"mode": mode, "caller": caller, **prompt_context(agent)})
    # A kernel's own loop is running in this thread; the assembly gets a loop of its own.
    with concurrent.futures.ThreadPoolExecutor(1, "rightlab-prompt") as pool:
        assembly = pool.submit(asyncio.run, _as_coroutine(work)).result()
    if not isinstance(assembly, Assembly):
        raise PromptError("an assembly listener returned no assembly", code="listener")
    return assembly


async def _as_coroutine(work: Any) -> Any:
    return await work


def _stored_token(agent: AgentHome) -> str | None:
    try:
        with Store.open(agent.db_path, role="reader") as store:
            found = store.value("SELECT token FROM notice_token WHERE id = 1")
    except StoreError:
        return None
    return None if found is None else str(found)
