"""Who owns each file of a home: one table, path patterns to categories (spec agent-runtime 1.12, 11.2).

Existing homes take every change by restart alone, which only works when it is known for each path whether we
may overwrite it (regenerated), must merge into it (merged), may only seed it (agent_owned), or keep our own
state in it (runtime).
"""

import re
from enum import StrEnum
from functools import cache
from pathlib import Path, PurePosixPath

from rightlab.errors import OwnershipError

__all__ = ["MARK", "TABLE", "Category", "category_of", "find_home_root", "guest_root_of", "require"]

MARK = "rightlab.json"
"""The file that marks a folder as a home of ours."""


class Category(StrEnum):
    """What a writer may do with a path.

    ``REGENERATED``: ours alone, overwritten at any start. ``MERGED``: people (or the CLI) edit it too, so we
    read, change our part and write back. ``AGENT_OWNED``: the agent's or the person's; we only seed it, or
    replace it with a backup. ``RUNTIME``: state that only running code writes (database, logs, runs,
    recordings, sockets).
    """

    REGENERATED = "regenerated"
    MERGED = "merged"
    AGENT_OWNED = "agent_owned"
    RUNTIME = "runtime"


_R, _M, _A, _S = Category.REGENERATED, Category.MERGED, Category.AGENT_OWNED, Category.RUNTIME

TABLE: tuple[tuple[str, Category], ...] = (
    # of the home
    (MARK, _R),
    (f"demo/{MARK}", _R),
    ("config.yaml", _M),
    ("notebooks/**", _A),
    ("run/**", _S),
    ("logs/**", _S),
    ("cache/**", _S),
    ("backups/**", _S),
    ("baselines/**", _S),
    ("usage/**", _S),
    # of one agent
    ("agents/*/agent.yaml", _M),
    ("agents/*/allowlist.yaml", _M),
    ("agents/*/secrets.json", _M),
    ("agents/*/BOOTSTRAP.md", _R),
    ("agents/*/.bootstrap-finalization.json", _S),
    ("agents/*/data.db*", _S),
    ("agents/*/recordings/**", _S),
    ("agents/*/runs/**", _S),
    ("agents/*/logs/**", _S),
    ("agents/*/baselines/**", _S),
    ("agents/*/notebooks/**", _A),
    ("agents/*/crons/**", _A),
    # what the guest sees as /sandbox; the last line makes the agent the owner of all the rest
    ("agents/*/sandbox/inbox/**", _S),
    ("agents/*/sandbox/outbox/**", _S),
    ("agents/*/sandbox/.right/**", _R),
    ("agents/*/sandbox/.platform/**", _R),
    ("agents/*/sandbox/.claude.json", _M),
    ("agents/*/sandbox/.claude/.claude.json", _M),
    ("agents/*/sandbox/.claude/settings.json", _R),
    ("agents/*/sandbox/.claude/mcp.json", _R),
    ("agents/*/sandbox/.claude/*-schema.json", _R),
    ("agents/*/sandbox/.claude/system-prompt.md", _R),
    ("agents/*/sandbox/.claude/skills/right-*/**", _R),
    ("agents/*/sandbox/**", _A),
)
"""Pattern (relative to the home; ``*`` within one name, ``**`` the rest of the path) to category; the first
match wins."""


@cache
def _compiled() -> tuple[tuple[re.Pattern[str], Category], ...]:
    return tuple((_to_regex(pattern), category) for pattern, category in TABLE)


def _to_regex(pattern: str) -> re.Pattern[str]:
    parts = []
    for piece in re.split(r"(\*\*|\*)", pattern):
        parts.append({"**": ".+", "*": "[^/]*"}.get(piece) or re.escape(piece))
    return re.compile("".join(parts))


def category_of(relative: str | PurePosixPath) -> Category | None:
    """The category of a path given relative to its home; None when it is registered with none."""
    text = PurePosixPath(relative).as_posix()
    return next((category for regex, category in _compiled() if regex.fullmatch(text)), None)


def find_home_root(path: Path) -> Path | None:
    """The marked home that holds ``path`` (absolute), or None when it lies in none.

    The innermost mark counts (the demo is a home inside a home), except one inside a guest's folder, where an
    agent could plant it.
    """
    root: Path | None = None
    for ancestor in reversed(path.parents):
        if root is not None and _in_guest(ancestor.relative_to(root).parts):
            break
        if (ancestor / MARK).is_file():
            root = ancestor
    return root


def guest_root_of(path: Path, root: Path) -> Path | None:
    """The guest folder (``agents/<name>/sandbox``) of ``root`` that holds ``path``, or None."""
    parts = path.relative_to(root).parts
    return root.joinpath(*parts[:3]) if _in_guest(parts) and len(parts) > 3 else None


def _in_guest(parts: tuple[str, ...]) -> bool:
    return len(parts) >= 3 and parts[0] == "agents" and parts[2] == "sandbox"


def require(path: Path, category: Category) -> Path | None:
    """Check that ``path`` (absolute) may be written by the writer of ``category``; returns its home's root.

    Paths outside every home belong to whoever asked for them and always pass (returns None).

    Raises:
        OwnershipError: the path is registered with another category, or with none.
    """
    root = find_home_root(path)
    if root is None:
        return None
    relative = path.relative_to(root).as_posix()
    found = category_of(relative)
    if found is None:
        raise OwnershipError(
            f"{relative} is registered with no ownership category",
            where=root,
            fix="Add it to home/ownership.py.",
        )
    if found is not category:
        raise OwnershipError(f"{relative} is {found.value}, not {category.value}", where=root)
    return root
