"""Variants: a person's trial edits of a prompt, shadowing sections and variables without touching the agent.

A variant lives in this process under its agent and name until it is closed. Each assembly that asks for it gets
its edits in a scope of a registry of its own, so nothing of it can reach the running agent.
"""

import difflib
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import RLock
from types import TracebackType
from typing import TYPE_CHECKING, Any

from rightlab.errors import PromptError, UsageError
from rightlab.home import AgentHome
from rightlab.home.writers import file_lock, write_agent_owned
from rightlab.html import Block, Bullets, Diff, Note, Page, mimebundle, plural
from rightlab.prompt import Assembly, PromptRegistry, wrap_untrusted
from rightlab.prompt.files import first_lines, read_guest_file
from rightlab.prompt.handle import Handle
from rightlab.prompt.layers import Registration, SectionEntry

if TYPE_CHECKING:
    from rightlab.prompt.diff import AssemblyDiff
    from rightlab.prompt.inspect import Lint, WhatIf
    from rightlab.runtime.requests import Requests

__all__ = ["Variant", "WriteBack", "find_variant", "open_variant", "open_variants"]

_open: dict[tuple[Path, str], "Variant"] = {}
_lock = RLock()


@dataclass(frozen=True)
class WriteBack:
    """What writing a section back does to its file, as a diff; ``written`` once it was done.

    ``backup`` is the copy of the old file, ``None`` when there was none.
    """

    section: str
    path: Path
    before: str
    after: str
    written: bool = False
    backup: Path | None = None

    @property
    def changed(self) -> bool:
        return self.before != self.after

    def page(self) -> Page:
        if not self.changed:
            sentence = f"{self.path.name} says this already; there is nothing to write."
        elif self.written:
            kept = f"; the old text is in {self.backup.name}" if self.backup is not None else ""
            sentence = f"Written to {self.path.name}{kept}."
        else:
            sentence = f"Nothing is written yet. This would replace {self.path.name}."
        body: list[Block] = [Diff(self.before, self.after, names=(f"{self.path.name} now", "variant"))]
        if self.changed and not self.written:
            body.append(
                Note("Look at the diff.", fix=f"write_back({self.section!r}, confirm=True) writes it.")
            )
        return Page(f"Write back {self.section}", sentence, *body)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return mimebundle(self, self.page(), include, exclude)

    def _repr_html_(self) -> str:
        return self.page().html()

    def __str__(self) -> str:
        return self.page().text()


class Variant:
    """Trial edits under a name. Usable at once or in ``with``, which closes it at the end.

    ``lab.prompt(variant=name)`` shows the prompt with the edits; the agent itself never sees them.
    """

    def __init__(self, agent: AgentHome, name: str) -> None:
        self._agent = agent
        self._name = name
        self._sections: dict[str, tuple[str, float | None]] = {}
        self._variables: dict[str, str | None] = {}
        self._shown: dict[str, str] = {}
        self._heard: dict[int, Callable[[], object]] = {}
        self._closed = False

    @property
    def agent(self) -> AgentHome:
        return self._agent

    @property
    def name(self) -> str:
        return self._name

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def sections(self) -> Mapping[str, str]:
        """The edited sections and their texts."""
        return {name: text for name, (text, _) in self._sections.items()}

    @property
    def variables(self) -> Mapping[str, str | None]:
        """The edited variables and their values."""
        return dict(self._variables)

    def section(self, name: str, text: str, *, order: float | None = None) -> "Variant":
        """Let section ``name`` read ``text``; again replaces the edit. An empty text takes the section out.

        Of a section that shows a file ``text`` is the file's content, taken as it is, under the same heading and
        in the same frame; of any other it is the whole section, a template. A new section needs an ``order``.

        Raises UsageError: no such section and no order, or the variant is closed.
        """
        self._usable()
        if not isinstance(text, str):
            raise UsageError(f"the text of section {name!r} must be text, not {type(text).__name__}")
        if order is None and name not in self._sections:
            registry = self._registry()
            if registry.registered(name) is None:
                raise _no_such("section", name, registry.section_names(), "Give an order to add a new one.")
        if order is None and name in self._sections:
            order = self._sections[name][1]
        self._sections[name] = (text, order)
        self._shown.pop(name, None)
        self._tell()
        return self

    def variable(self, name: str, value: str | None) -> "Variant":
        """Let variable ``name`` be ``value`` (``None``: no value now). A new name is for new section texts.

        Raises UsageError: a value that is no text, or the variant is closed.
        """
        self._usable()
        if value is not None and not isinstance(value, str):
            raise UsageError(f"variable {name!r} must be text, not {type(value).__name__}")
        # A name that cannot be one is refused here, where the person is looking, not at the next preview.
        try:
            PromptRegistry().variable(name, value)
        except PromptError as error:
            raise UsageError(str(error)) from error
        self._variables[name] = value
        self._tell()
        return self

    def revert(self, *names: str) -> "Variant":
        """Drop the edits of these sections and variables; all of them without names."""
        for name in names or [*self._sections, *self._variables]:
            self._sections.pop(name, None)
            self._variables.pop(name, None)
            self._shown.pop(name, None)
        self._tell()
        return self

    def on_change(self, call: Callable[[], object]) -> Registration:
        """Call ``call()`` after every edit, and once the variant is closed, in the thread of who did it."""
        key = id(call)
        self._heard[key] = call

        def forget() -> None:
            self._heard.pop(key, None)

        return Registration(forget, f"a listener of variant {self._name!r}")

    def text(self, name: str) -> str:
        """What section ``name`` reads in this variant: the edit, else the file's content or the rendered section."""
        self._usable()
        if name in self._sections:
            return self._sections[name][0]
        registry = self._registry()
        entry = registry.registered(name)
        if entry is None:
            raise _no_such("section", name, registry.section_names())
        if entry.file is not None:
            return _decoded(read_guest_file(self._agent.guest_dir, entry.file))
        for mode in ("normal", "cron", "bootstrap_question"):
            for one in self._assemble(mode).sections:
                if one.name == name:
                    return one.rendered
        return ""

    def prompt(self, mode: str = "normal") -> Assembly:
        """The prompt with the edits."""
        self._usable()
        return self._assemble(mode, measured=True)

    def diff(self, mode: str = "normal") -> "AssemblyDiff":
        """What the edits change in the prompt."""
        from rightlab.runtime.prompts import assemble_now

        self._usable()
        return assemble_now(self._agent, mode, measured=False).diff(self._assemble(mode))

    def lint(self, mode: str = "normal", **options: Any) -> "Lint":
        """The linter's findings for the prompt with the edits."""
        from rightlab.runtime.prompts import lint_now

        self._usable()
        return lint_now(self._agent, mode, variant=self, **options)

    def what_if(self, mode: str = "normal", requests: "Requests | None" = None) -> "WhatIf":
        """The edits tried on recorded traffic, before a single call."""
        from rightlab.runtime.prompts import assemble_now
        from rightlab.runtime.requests import read_requests

        self._usable()
        traffic = requests if requests is not None else read_requests(self._agent)
        base = assemble_now(self._agent, mode, measured=False)
        return traffic.what_if().like(self._assemble(mode), base)

    def write_back(self, section: str, *, confirm: bool = False) -> WriteBack:
        """Show what writing ``section`` to its file would change; with ``confirm=True`` write it, keeping a backup.

        When the diff was shown before and the file has changed since, nothing is written. The edit leaves the
        variant once it is written.

        Raises UsageError: not edited, shows no file, or the file changed since the diff was shown.
        """
        self._usable()
        if section not in self._sections:
            raise _no_such("edited section", section, list(self._sections))
        entry = self._registry().registered(section)
        if entry is None or entry.file is None:
            raise UsageError(
                f"section {section!r} shows no file, so there is nothing to write it to",
                fix="Only sections of agent-owned files can be written back.",
            )
        path = self._agent.guest_dir / entry.file
        text = self._sections[section][0]
        if not confirm:
            now = _state(self._agent, entry.file)
            self._shown[section] = now
            return WriteBack(
                section, path, _decoded(read_guest_file(self._agent.guest_dir, entry.file)), text
            )
        with file_lock(path):
            if self._shown.get(section, "") not in ("", _state(self._agent, entry.file)):
                del self._shown[section]
                raise UsageError(
                    f"{entry.file} was changed since its diff was shown",
                    where=path,
                    fix=f"Look again: write_back({section!r}).",
                )
            before = _decoded(read_guest_file(self._agent.guest_dir, entry.file))
            existing = set(path.parent.glob(f"{path.name}.*.bak"))
            written = write_agent_owned(path, text, backup=True)
            backups = sorted(set(path.parent.glob(f"{path.name}.*.bak")) - existing)
        self.revert(section)
        return WriteBack(section, path, before, text, written, backups[-1] if backups else None)

    def shadow(self, registry: PromptRegistry) -> Handle:
        """Put the edits into a scope of ``registry``, to assemble with; closing it takes them out again."""
        self._usable()
        scope = registry.scope(("variant", self._name))
        for name, value in self._variables.items():
            scope.variable(name, value)
        for name, (text, order) in self._sections.items():
            entry = registry.registered(name)
            if entry is None:
                scope.section(name, order or 0, text, owner=f"variant {self._name}")
                continue
            scope.section(
                name,
                entry.order if order is None else order,
                _shadowed(entry, text),
                literal=entry.literal or entry.file is not None,
                required=entry.required,
                complete=entry.complete,
                before=entry.before if order is None else None,
                after=entry.after if order is None else None,
                when=entry.when,
                owner=entry.owner,
            )
        return scope

    def close(self) -> None:
        """The edits are gone. Closing twice does nothing."""
        self._closed = True
        with _lock:
            if _open.get((self._agent.root, self._name)) is self:
                del _open[self._agent.root, self._name]
        self._tell()
        self._heard.clear()

    def __enter__(self) -> "Variant":
        self._usable()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _usable(self) -> None:
        if self._closed:
            raise UsageError(
                f"variant {self._name!r} is closed", fix=f"Open it anew: lab.variant({self._name!r})."
            )

    def _tell(self) -> None:
        for call in list(self._heard.values()):
            call()

    def _registry(self) -> PromptRegistry:
        from rightlab.runtime.prompts import stored_registry

        return stored_registry(self._agent)

    def _assemble(self, mode: str, *, measured: bool = False) -> Assembly:
        from rightlab.runtime.prompts import assemble_now

        return assemble_now(self._agent, mode, variant=self, measured=measured)

    def page(self) -> Page:
        title = f"{self._agent.name} · variant {self._name}"
        if self._closed:
            return Page(title, "Closed; its edits are gone.")
        edits = [f"section {name}" for name in self._sections]
        edits += [f"variable {name} = {value!r}" for name, value in self._variables.items()]
        sentence = (
            f"{plural(len(edits), 'edit')}, seen only in previews and experiments; the agent is untouched."
        )
        if not edits:
            return Page(title, "No edits yet: the prompt is the agent's own.")
        return Page(title, sentence, Bullets(edits), self.diff().page())

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return mimebundle(self, self.page(), include, exclude)

    def __repr__(self) -> str:
        state = "closed" if self._closed else plural(len(self._sections) + len(self._variables), "edit")
        return f"<Variant {self._name!r} of {self._agent.name!r}: {state}>"


def open_variant(agent: AgentHome, name: str) -> Variant:
    """The variant ``name`` of ``agent``: the open one of that name, else a new one. Raises UsageError."""
    if not isinstance(name, str) or not name.strip():
        raise UsageError("a variant needs a name", fix='Give one: lab.variant("terse").')
    with _lock:
        return _open.setdefault((agent.root, name), Variant(agent, name))


def open_variants(agent: AgentHome) -> list["Variant"]:
    """The open variants of ``agent``, oldest first."""
    with _lock:
        return [one for (root, _), one in _open.items() if root == agent.root]


def find_variant(agent: AgentHome, variant: "str | Variant") -> Variant:
    """An open variant by its name. Raises UsageError naming those that are open."""
    if isinstance(variant, Variant):
        return variant
    with _lock:
        known = [name for root, name in _open if root == agent.root]
        found = _open.get((agent.root, variant))
    if found is None:
        raise _no_such("open variant", variant, known, f"Open it: lab.variant({variant!r}).")
    return found


def _shadowed(entry: SectionEntry, text: str) -> Any:
    """What the scope's section says: of a file its heading, frame and first lines around the new content."""
    if entry.file is None:
        return text
    content = first_lines(text.encode("utf-8", "replace"), entry.head).decode("utf-8", "replace")
    if not content.strip(" \t\n\v\f\r"):
        return ""
    body = content if entry.wrap is None else wrap_untrusted(entry.wrap, content)
    heading = entry.text
    if isinstance(heading, str):
        return f"{heading}\n{body}" if heading else body
    return lambda context: f"{heading(context)}\n{body}"


def _state(agent: AgentHome, file: str) -> str:
    return hashlib.sha256(read_guest_file(agent.guest_dir, file) or b"").hexdigest()


def _decoded(data: bytes | None) -> str:
    return (data or b"").decode("utf-8", "replace")


def _no_such(what: str, name: str, known: list[str], more: str = "") -> UsageError:
    near = difflib.get_close_matches(str(name), known, 1, 0.5)
    there = f"Did you mean {near[0]!r}?" if near else f"There are: {', '.join(known) or 'none'}."
    return UsageError(f"no {what} {name!r}", fix=f"{there} {more}".strip())
