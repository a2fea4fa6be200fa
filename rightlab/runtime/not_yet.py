"""Settings of agent.yaml whose work comes in a later version: said when the agent starts, never ignored."""

from rightlab.home import AgentConfig

__all__ = ["not_yet"]


def not_yet(config: AgentConfig) -> list[str]:
    """The settings of ``config`` that this version cannot honour, as ``key: value``."""
    upstream = config.gateway.upstream
    asked = {
        f"gateway.upstream: {upstream}": upstream == "direct" or upstream.startswith("replay:"),
        f"sandbox.mode: {config.sandbox.mode}": config.sandbox.mode in {"landlock", "openshell"},
        f"memory.provider: {config.memory.provider}": config.memory.provider != "file",
        f"cron.executor: {config.cron.executor}": config.cron.executor != "local",
        "claude.warm: true": config.claude.warm is True,
        "stt.enabled: true": config.stt.enabled,
    }
    return [setting for setting, wanted in asked.items() if wanted]
