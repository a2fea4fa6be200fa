"""What the prompt view shows, as plain data: the sections, the edits, what they differ from, what they do to the
cache (spec views 01). No widget in here; an edit is answered in some milliseconds, what takes longer is asked apart.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any

from rightlab.errors import PromptError, UsageError
from rightlab.html import Block, Code, Diff, Note, plural
from rightlab.html.format import size
from rightlab.prompt import Assembly
from rightlab.prompt.assembly import TOKEN_METHOD, estimate_tokens
from rightlab.prompt.files import read_guest_file
from rightlab.runtime.prompts import MODES, assemble_now, stored_registry
from rightlab.runtime.variants import open_variant, open_variants
from rightlab.views.prompt_rows import LINES, OWN, SMALL, Against, Row, quick
from rightlab.views.prompt_traffic import NO_EFFECT, Effect, Traffic, sections_of_turn

if TYPE_CHECKING:
    from rightlab.lab import Lab
    from rightlab.prompt import PromptRegistry
    from rightlab.prompt.inspect import Lint
    from rightlab.runtime.variants import Variant

__all__ = ["PromptDesk"]

DRAFT = "draft"


@dataclass
class PromptDesk:
    """One agent's prompt on the desk, in one mode, with the edits of one variant (or none yet)."""

    lab: "Lab"
    mode: str = "normal"
    variant: "Variant | None" = None
    against: Against = OWN
    selected: str = ""
    error: PromptError | None = None
    own: Assembly = field(default_factory=Assembly)
    assembly: Assembly = field(default_factory=Assembly)
    rows: tuple[Row, ...] = ()
    traffic: Traffic = field(default_factory=Traffic)
    effect: Effect = NO_EFFECT
    lint: "Lint | None" = None
    version: int = 0
    """Counts what was read and edited: an answer worked out for an earlier one is thrown away."""

    def __post_init__(self) -> None:
        self._registry: PromptRegistry | None = None
        self._base: dict[str, bytes] = {}
        self._stable: dict[str, float | None] = {}
        self._files: dict[str, str] = {}
        self._compared: tuple[object, Diff] | None = None

    # -- reading ----------------------------------------------------------------------------------------------

    def read(self) -> None:
        """Everything that an edit does not change, from the files as they are now; then :meth:`assemble`."""
        if self.variant is not None and self.variant.closed:
            self.variant = None
        self._registry = stored_registry(self.lab.agent)
        self._files.clear()
        try:
            self.own = assemble_now(self.lab.agent, self.mode, registry=self._registry)
        except PromptError as error:
            self.own, self.error = Assembly(mode=self.mode), error
        self._stable = {one.name: one.stability for one in self.own.sections}
        self._base = self._read_base()
        self.assemble()

    def assemble(self) -> None:
        """The prompt with the edits as they are now, its rows, and which of them is selected."""
        self.version += 1
        self.error = None
        try:
            made = self._assembled(self.mode)
        except PromptError as error:
            # What could be shown before stays: the one who typed a slip wants to see where.
            self.error = error
            made = self.assembly if self.assembly.mode == self.mode else Assembly(mode=self.mode)
        made.token_factor, made.token_method = self.own.token_factor, self.own.token_method
        for one in made.sections:
            one.stability = self._stable.get(one.name)
        self.assembly = made
        self.rows = tuple(self._read_rows())
        names = [row.name for row in self.rows]
        if self.selected not in names:
            mine = [row.name for row in self.rows if row.edited] or [n for n in names if self.file(n)]
            self.selected = next(iter(mine or names), "")

    def _assembled(self, mode: str) -> Assembly:
        return assemble_now(
            self.lab.agent, mode, variant=self.variant, measured=False, registry=self._registry
        )

    def _read_base(self) -> dict[str, bytes]:
        agent, key = self.lab.agent, self.against.key
        try:
            if self.against.kind == "turn":
                return sections_of_turn(agent, int(key))
            if self.against.kind == "own":
                return _rendered(self.own)
            other = next((one for one in open_variants(agent) if one.name == key), None)
            if self.against.kind == "variant" and other is None:
                self.against = OWN
                return _rendered(self.own)
            mode = key if self.against.kind == "mode" else self.mode
            return _rendered(
                assemble_now(agent, mode, variant=other, measured=False, registry=self._registry)
            )
        except (PromptError, UsageError):
            return {}

    def _read_rows(self) -> list[Row]:
        edits = self.variant.sections if self.variant is not None else {}
        absent = {one.name for one in self.assembly.absent}
        known = {row.name: row for row in self.rows}
        found: dict[str, Row] = {}
        for one in self.assembly.planned():
            note, about = "", None
            data: bytes | None = None
            try:
                data = one.render_bytes()
                about = round(estimate_tokens(data) * self.assembly.token_factor)
            except PromptError as error:
                note = error.message
                self.error = self.error or error
            if data == b"" and one.name in absent:
                note = f"no {one.file}"
            elif data == b"" and one.name not in edits and one.name not in self._base:
                continue
            edited = one.name in edits
            found[one.name] = Row(one.name, one.owner, data, about, one.stability, edited, "", note)
        names = list(found)
        self._keep_places(names, [*self._base])
        # An edit that leaves a section out, or breaks one that may be left out, keeps its row: else it were gone.
        order = [row.name for row in self.rows]
        self._keep_places(names, [one for one in order if one in edits or one in names])
        self._keep_places(names, [*names, *edits])
        moved = self._moved(names)
        faults = {one.section: one.message for one in self.assembly.problems if one.severity == "error"}
        rows = []
        for name in names:
            row = found.get(name)
            if row is None:
                owner = known[name].owner if name in known else self.owner(name)
                fault = faults.get(name)
                note = fault or ("left out" if name in edits else "")
                row = Row(name, owner, None if fault else b"", None, None, name in edits, "", note)
            rows.append(replace(row, change=self._change(row, moved)))
        return rows

    @staticmethod
    def _keep_places(names: list[str], order: Sequence[str]) -> None:
        """Put what ``order`` has and ``names`` has not behind its neighbour there."""
        previous: str | None = None
        for name in order:
            if name not in names:
                names.insert(0 if previous is None else names.index(previous) + 1, name)
            previous = name

    def _moved(self, names: Sequence[str]) -> set[str]:
        before = [name for name in self._base if name in names]
        after = [name for name in names if name in self._base]
        if before == after:
            return set()
        moved = set(after)
        for block in SequenceMatcher(None, before, after, autojunk=False).get_matching_blocks():
            moved -= set(after[block.b : block.b + block.size])
        return moved

    def _change(self, row: Row, moved: set[str]) -> str:
        before = self._base.get(row.name)
        if not before:
            return "added" if row.data else ""
        if row.data is None or before == row.data:
            return "moved" if row.name in moved else ""
        return "changed" if row.data else "removed"

    # -- one section ------------------------------------------------------------------------------------------

    def row(self, name: str) -> Row | None:
        return next((row for row in self.rows if row.name == name), None)

    def file(self, name: str) -> str | None:
        """The file that section ``name`` shows."""
        entry = self._registry.registered(name) if self._registry is not None else None
        return entry.file if entry is not None else None

    def owner(self, name: str) -> str:
        entry = self._registry.registered(name) if self._registry is not None else None
        return entry.owner if entry is not None else ""

    def text(self, name: str) -> str:
        """What the editor holds of a section: its edit, else its file's content, else its own text (a template
        with the variables unfilled)."""
        if self.variant is not None and name in self.variant.sections:
            return self.variant.sections[name]
        file = self.file(name)
        if file is not None:
            if name not in self._files:
                data = read_guest_file(self.lab.agent.guest_dir, file) or b""
                self._files[name] = data.decode("utf-8", "replace")
            return self._files[name]
        try:
            return self.assembly[name].text
        except KeyError:
            return self._base.get(name, b"").decode("utf-8", "replace")

    def locked(self, name: str, room: int) -> str:
        """Why the section cannot be edited here; empty when it can. ``room``: bytes its text may take."""
        entry = self._registry.registered(name) if self._registry is not None else None
        if entry is None and (self.variant is None or name not in self.variant.sections):
            return f"not in this prompt, only in {self.against.label}" if name else "no section"
        if entry is not None and entry.file is None and not isinstance(entry.text, str):
            try:
                self.assembly[name]
            except KeyError:
                return "says nothing in this mode"
        if (taken := len(json.dumps(self.text(name)))) > room:
            return f"too long to edit here ({size(taken)}); lab.variant(...).section({name!r}, text) takes any length"
        return ""

    def edit(self, name: str, text: str) -> bool:
        """Let ``name`` read ``text`` in the variant, opened as "draft" when none is chosen. False when it does
        already."""
        if text == self.text(name):
            return False
        if self.variant is None or self.variant.closed:
            self.variant = self.draft()
        self.variant.section(name, text)
        self.assemble()
        return True

    def draft(self) -> "Variant":
        """A variant for edits nobody named: the first draft without edits of its own."""
        used = {one.name for one in open_variants(self.lab.agent) if one.sections or one.variables}
        name, number = DRAFT, 2
        while name in used:
            name, number = f"{DRAFT}-{number}", number + 1
        return open_variant(self.lab.agent, name)

    def preview(self, *, patient: bool = False) -> tuple[Block, bool]:
        """(what the model reads of the selected section, marked against what it is compared with; whether that is
        final). A comparison that takes long is only made when ``patient``."""
        row = self.row(self.selected)
        if row is None:
            return Note("No section is selected."), True
        if row.data is None:
            return Note(row.note, kind="error", fix="Mend it in the editor; nothing else is lost."), True
        before, after = self._base.get(row.name, b""), row.data
        if before == after or (not before and self.against is OWN and not row.edited):
            if not after:
                return Note("Nothing: the model is not told this section.", fix=None), True
            return Code(after.decode("utf-8", "replace")), True
        names = (self.against.label, self._label())
        if self._compared is None or self._compared[0] != (before, after, names):
            old, new = before.decode("utf-8", "replace"), after.decode("utf-8", "replace")
            if not patient and not quick(old, new):
                return Code(new, title="Comparing…"), False
            lines = old.count("\n") + new.count("\n") + 2
            whole = len(old) + len(new) <= 2 * SMALL and lines <= LINES
            diff = Diff(old, new, names=names, context=lines if whole else 3)
            self._compared = ((before, after, names), diff)
            return diff, True
        return self._compared[1], True

    def _label(self) -> str:
        return f"variant {self.variant.name}" if self.variant is not None else f"{self.mode} mode now"

    # -- figures ----------------------------------------------------------------------------------------------

    @property
    def bytes(self) -> int:
        """Of the whole prompt, the blank lines between sections included."""
        sizes = [len(row.data) for row in self.rows if row.data]
        return sum(sizes) + 2 * max(0, len(sizes) - 1)

    @property
    def tokens(self) -> int:
        return sum(row.tokens or 0 for row in self.rows)

    @property
    def tokens_before(self) -> int:
        factor = self.assembly.token_factor
        return sum(round(estimate_tokens(data) * factor) for data in self._base.values())

    @property
    def token_method(self) -> str:
        return self.assembly.token_method or TOKEN_METHOD

    @property
    def differing(self) -> list[Row]:
        return [row for row in self.rows if row.change]

    def diffs(self) -> list[Block]:
        """Every section that differs from what it is compared with."""
        found: list[Block] = []
        for row in self.differing:
            if row.change != "moved" and row.data is not None:
                before = self._base.get(row.name, b"").decode("utf-8", "replace")
                after = row.data.decode("utf-8", "replace")
                names = (f"{row.name}, {self.against.label}", self._label())
                found.append(Diff(before, after, names=names))
        return found

    # -- what takes longer ------------------------------------------------------------------------------------

    def inspect(self) -> Mapping[str, Any]:
        """Lint and cache effect of the prompt as it is now; give the answer to :meth:`take`.

        Reads recordings when there are new ones. May run beside an edit, in another thread.
        """
        version, mode, assembly = self.version, self.mode, self.assembly
        rows, own = self.rows, _rendered(self.own)
        files = {row.name for row in rows if self.file(row.name)}
        traffic = self.traffic.again(self.lab.agent, mode)
        effect, lint = NO_EFFECT, None
        now = {row.name: row.data for row in rows if row.data is not None}
        if len(now) == len(rows):
            effect = traffic.effect(now, own, files)
            lint = traffic.lint(self.lab.agent, assembly)
        return {"version": version, "traffic": traffic, "effect": effect, "lint": lint}

    def take(self, found: Mapping[str, Any]) -> bool:
        """Keep the answer of :meth:`inspect`, unless something was edited meanwhile."""
        self.traffic = found["traffic"]
        if found["version"] != self.version:
            return False
        self.effect, self.lint = found["effect"], found["lint"]
        return True

    # -- choices ----------------------------------------------------------------------------------------------

    def variants(self) -> list[str]:
        return [one.name for one in open_variants(self.lab.agent)]

    def choices(self) -> list[Against]:
        """Everything the prompt can be compared with."""
        others = [name for name in self.variants() if self.variant is None or name != self.variant.name]
        return [
            OWN,
            *(Against("mode", mode) for mode in MODES if mode != self.mode),
            *(Against("variant", name) for name in others),
            *(Against("turn", str(turn)) for turn in reversed(self.traffic.turns)),
        ]

    @property
    def summary(self) -> str:
        """One line about the edits and what they do."""
        edits = len(self.variant.sections) + len(self.variant.variables) if self.variant is not None else 0
        if not edits or self.variant is None:
            return "No edits: this is what the next turn is told."
        return f"{plural(edits, 'edit')} in variant {self.variant.name}; the agent does not see it."


def _rendered(assembly: Assembly) -> dict[str, bytes]:
    found = {}
    for one in assembly.sections:
        try:
            data = one.render_bytes()
        except PromptError:
            continue
        if data:
            found[one.name] = data
    return found
