"""The built-in skills this room ships: what the operating instructions may name, when it is installed."""

from rightlab.prompt.texts import text

__all__ = ["BUILTIN_SKILLS", "builtin_skill"]

BUILTIN_SKILLS = ("right-cron", "right-mcp", "right-memory")


def builtin_skill(name: str, *, memory_provider: str = "file") -> str:
    """The ``SKILL.md`` of a built-in skill, as it goes to ``.claude/skills/<name>/``.

    ``right-memory`` differs with the memory provider (file or hindsight). Raises ``KeyError`` for a name that
    is not in :data:`BUILTIN_SKILLS`.
    """
    if name not in BUILTIN_SKILLS:
        raise KeyError(name)
    file = f"{name}-{memory_provider}" if name == "right-memory" else name
    return text(f"skills/{file}") + "\n"
