"""The skills in an agent's own folder, as plain objects: ``lab.skills`` (spec views 02, agent-runtime 12.2).

The guest writes that folder, so it is read as such: no symlink is followed, every size is bounded, and a package
that cannot be read says why instead of vanishing.
"""

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

from rightlab.clock import SystemClock, iso
from rightlab.errors import UsageError
from rightlab.home import AgentHome
from rightlab.html import (
    Block,
    Code,
    Column,
    Details,
    Empty,
    Footer,
    Note,
    Page,
    Pairs,
    Table,
    ago,
    clip,
    mimebundle,
    plural,
    size,
    when,
)

if TYPE_CHECKING:
    import pandas

__all__ = ["Skill", "Skills", "read_skills"]

Group = Literal["core", "learned", "other"]

FOLDER = ".claude/skills"
MOST = 200
"""Skills shown (spec agent-runtime 12.2); more are counted."""
PREVIEW_BYTES = 64 * 1024
DESCRIPTION_BYTES = 8 * 1024
MOST_FILES = 500
"""Files counted in one package."""

_ORDER: dict[str, int] = {"learned": 0, "core": 1, "other": 2}
_FIELD = re.compile(r"^(name|description):[ \t]*(.*)$")


@dataclass(frozen=True, slots=True)
class Skill:
    """One package ``.claude/skills/<name>/``.

    ``group``: learned (``rightx-*``, the agent taught it itself), core (``right-*``, comes with rightlab) or other.
    ``bytes`` and ``files`` are of the whole package, ``changed`` its newest change, ``problem`` what keeps it from
    being a skill.
    """

    name: str
    group: Group
    description: str
    bytes: int
    files: int
    changed: datetime | None
    preview: str = ""
    problem: str | None = None

    @property
    def title(self) -> str:
        """The name as people read it."""
        words = re.sub(r"^rightx?-", "", self.name).replace("-", " ").replace("_", " ").strip()
        return words[:1].upper() + words[1:] if words else self.name

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "group": self.group,
            "description": self.description,
            "bytes": self.bytes,
            "files": self.files,
            "changed": None if self.changed is None else iso(self.changed),
            "problem": self.problem,
        }

    def page(self) -> Page:
        """Its facts, and SKILL.md folded below them."""
        facts = {
            "folder": f"{FOLDER}/{self.name}",
            "group": self.group,
            "size": f"{size(self.bytes)} in {plural(self.files, 'file')}",
            "changed": when(self.changed, seconds=True),
        }
        body: list[Block] = [Note(self.problem, kind="warning")] if self.problem else []
        body.append(Pairs(facts))
        if self.preview:
            body.append(Details("SKILL.md", Code(self.preview), open=True))
        return Page(f"skill · {self.title}", self.description or "It has no description.", *body)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return mimebundle(self, self.page(), include, exclude)


@dataclass(frozen=True, slots=True)
class Skills:
    """The inventory as the folder was when it was read; learned ones first, each group by name."""

    agent: str
    rows: tuple[Skill, ...]
    total: int
    problem: str | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Skill]:
        return iter(self.rows)

    def __getitem__(self, name: str) -> Skill:
        """The skill of that folder name. Raises UsageError naming those there are."""
        for skill in self.rows:
            if skill.name == name:
                return skill
        known = ", ".join(skill.name for skill in self.rows) or "none yet"
        raise UsageError(f"{self.agent} has no skill {name!r}", fix=f"It has: {known}")

    def group(self, group: Group) -> tuple[Skill, ...]:
        return tuple(skill for skill in self.rows if skill.group == group)

    def to_json(self) -> dict[str, Any]:
        return {"agent": self.agent, "total": self.total, "skills": [skill.to_json() for skill in self.rows]}

    def to_frame(self) -> "pandas.DataFrame":
        """One row per skill: name, group, description, bytes, files, changed (ISO 8601), problem."""
        import pandas as pd

        columns = ["name", "group", "description", "bytes", "files", "changed", "problem"]
        return pd.DataFrame([skill.to_json() for skill in self.rows], columns=columns)

    def page(self) -> Page:
        title = f"{self.agent} · skills"
        if self.problem is not None:
            return Page(title, error=self.problem)
        if not self.rows:
            fill = f"A folder with a SKILL.md in sandbox/{FOLDER} is one; agents that learn write their own there."
            return Page(title, empty=Empty("No skill yet.", fill))
        now = SystemClock().now()
        rows = [
            {
                "skill": skill.title,
                "group": skill.group,
                "does": skill.problem or clip(skill.description, 300),
                "size": skill.bytes,
                "files": skill.files,
                "changed": ago(skill.changed, now),
                "folder": skill.name,
            }
            for skill in self.rows
        ]
        columns: list[Column | str] = [
            "skill",
            "group",
            "does",
            Column("size", format=size),
            "files",
            "changed",
            "folder",
        ]
        counts = [len(self.group(group)) for group in ("learned", "core", "other")]
        sentence = f"{counts[0]} learned, {counts[1]} built in, {counts[2]} other."
        bad = sum(skill.problem is not None for skill in self.rows)
        if bad:
            sentence += f" {plural(bad, 'package')} cannot be used."
        table = Table(rows, columns, caption="Skills", total=self.total, most=MOST)
        return Page(title, sentence, table, footer=Footer(more=(f"read from sandbox/{FOLDER}",)))

    def text(self) -> str:
        return self.page().text()

    def __repr__(self) -> str:
        return f"<Skills of {self.agent!r}: {len(self.rows)}>"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return mimebundle(self, self.page(), include, exclude)


def read_skills(agent: AgentHome) -> Skills:
    """What ``sandbox/.claude/skills`` holds now. A folder that cannot be read is a ``problem``, not "no skills"."""
    try:
        top = _open_folder(agent.guest_dir, FOLDER)
    except FileNotFoundError:
        return Skills(agent.name, (), 0)
    except OSError as error:
        return Skills(agent.name, (), 0, f"{FOLDER} cannot be read: {error.strerror}")
    try:
        names = sorted(entry.name for entry in os.scandir(top) if entry.is_dir(follow_symlinks=False))
        names = [name for name in names if not name.startswith(".")]
        found = [_skill(top, name) for name in names[:MOST]]
    finally:
        os.close(top)
    found.sort(key=lambda skill: (_ORDER[skill.group], skill.name))
    return Skills(agent.name, tuple(found), len(names))


def _open_folder(root: "os.PathLike[str]", path: str) -> int:
    """A descriptor of ``root/path``; no component below ``root`` may be a symlink."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    descriptor = os.open(root, flags)
    for part in path.split("/"):
        try:
            inner = os.open(part, flags | os.O_NOFOLLOW, dir_fd=descriptor)
        finally:
            os.close(descriptor)
        descriptor = inner
    return descriptor


def _skill(top: int, name: str) -> Skill:
    group: Group = (
        "learned" if name.startswith("rightx-") else "core" if name.startswith("right-") else "other"
    )
    shown = name.encode("utf-8", "replace").decode("utf-8")
    try:
        folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=top)
    except OSError as error:
        return Skill(shown, group, "", 0, 0, None, problem=f"cannot be read: {error.strerror}")
    try:
        total, files, changed = _measure(folder)
        preview = _preview(folder)
    finally:
        os.close(folder)
    if preview is None:
        return Skill(shown, group, "", total, files, changed, problem="has no SKILL.md that can be read")
    fields = _frontmatter(preview)
    missing = [key for key in ("name", "description") if not fields.get(key)]
    problem = f"SKILL.md names no {' and no '.join(missing)}" if missing else None
    description = clip(fields.get("description", ""), DESCRIPTION_BYTES)
    return Skill(shown, group, description, total, files, changed, preview, problem)


def _measure(folder: int) -> tuple[int, int, datetime | None]:
    """Bytes, files and newest change of a package; counting stops at :data:`MOST_FILES`."""
    total = files = 0
    newest: float | None = None
    for _, _, names, inner in os.fwalk(".", dir_fd=folder, follow_symlinks=False):
        for name in names:
            try:
                found = os.stat(name, dir_fd=inner, follow_symlinks=False)
            except OSError:
                continue
            if not stat.S_ISREG(found.st_mode):
                continue
            total += found.st_size
            files += 1
            newest = found.st_mtime if newest is None else max(newest, found.st_mtime)
            if files >= MOST_FILES:
                return total, files, datetime.fromtimestamp(newest, UTC)
    return total, files, None if newest is None else datetime.fromtimestamp(newest, UTC)


def _preview(folder: int) -> str | None:
    """The first 64 KiB of SKILL.md, or None when it is missing or no regular file."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        file = os.open("SKILL.md", flags, dir_fd=folder)
    except OSError:
        return None
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            return None
        return os.read(file, PREVIEW_BYTES).decode("utf-8", "replace")
    except OSError:
        return None
    finally:
        os.close(file)


def _frontmatter(text: str) -> dict[str, str]:
    """``name`` and ``description`` of the block between the two ``---`` lines, folded lines joined."""
    lines = text.splitlines()
    if not lines or lines[0].strip() != "---":
        return {}
    fields: dict[str, str] = {}
    current: str | None = None
    for line in lines[1:]:
        if line.strip() == "---":
            return {key: _unquoted(value) for key, value in fields.items()}
        found = _FIELD.match(line)
        if found is not None:
            current = found[1]
            fields[current] = "" if found[2].strip() in {">", "|", ">-", "|-"} else found[2]
        elif line[:1].isspace() and current is not None:
            fields[current] = f"{fields[current]} {line.strip()}".strip()
        else:
            current = None
    return {}


def _unquoted(value: str) -> str:
    value = value.strip()
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"" else value
