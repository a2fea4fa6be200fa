"""What the platform puts into the guest's folder: the built-in skills whose tools exist (spec agent-runtime 1.12).

Ours alone: written again whenever they differ, when an agent is made and at each start, so that a restart adopts a
new version. A skill whose tools are not there yet is not installed, and so not named in the prompt.
"""

import logging
import re

from rightlab.errors import RightlabError
from rightlab.home import AgentHome, remove, write_regenerated
from rightlab.mcp import builtin_tools
from rightlab.prompt import BUILTIN_SKILLS, builtin_skill

__all__ = ["deploy_skills", "installed_skills"]

log = logging.getLogger(__name__)

_TOOL = re.compile(r"`mcp__right__([a-z_]+)")


def deploy_skills(agent: AgentHome, memory_provider: str) -> tuple[str, ...]:
    """Write the built-in skills that this version can serve and take out those it cannot; the names installed."""
    tools = {tool.name for tool in builtin_tools()}
    installed = []
    for name in BUILTIN_SKILLS:
        text = builtin_skill(name, memory_provider=memory_provider)
        path = agent.guest_dir / ".claude" / "skills" / name / "SKILL.md"
        try:
            if set(_TOOL.findall(text)) <= tools:
                write_regenerated(path, text)
                installed.append(name)
            else:
                remove(path)
        except RightlabError as error:
            # The guest can put what it likes in the way; it then goes without the skill, but not without a start.
            log.warning("skill %s is not installed: %s", name, error)
    return tuple(installed)


def installed_skills(agent: AgentHome) -> tuple[str, ...]:
    """The built-in skills that are there, as the prompt names them."""
    folder = agent.guest_dir / ".claude" / "skills"
    return tuple(name for name in BUILTIN_SKILLS if (folder / name / "SKILL.md").is_file())
