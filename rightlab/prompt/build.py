"""One assembly being made: merge the layers, call the providers, order everything, settle the result."""

import contextlib
import time
from collections.abc import Callable, Hashable, Mapping
from typing import Any

from rightlab.errors import PromptError
from rightlab.prompt.assembly import AssembledContext, AssembledSection, Assembly, Problem, detached
from rightlab.prompt.files import read_guest_file
from rightlab.prompt.handle import Handle
from rightlab.prompt.layers import ContextEntry, Layers, SectionEntry, ToolEntry, VariableEntry
from rightlab.prompt.ordering import order_sections
from rightlab.prompt.tools import ToolSchema, collect_tools, order_tools

__all__ = ["BLOCKED_SECONDS", "Build", "look"]

SLOW_SECONDS = 1.0
"""A provider is synchronous and cannot be interrupted; one that took longer is named in the problems."""


BLOCKED_SECONDS = 10.0
"""Providers that have not come back by then are given up (see :mod:`rightlab.prompt.offloop`)."""


HUGE_BYTES = 400_000
"""A file section larger than this (some 100,000 tokens) is named in the problems."""


def look(context: Any, name: str, default: Any = None) -> Any:
    """``name`` of an assemble context, which may be a mapping or an object."""
    if isinstance(context, Mapping):
        return context.get(name, default)
    return getattr(context, name, default)


class Build:
    """The steps of one assembly (spec prompt-registry 1.4). ``lenient`` records every failure and goes on.

    ``stuck`` holds the ``id`` of providers that block and are not to be called; ``calling`` is that of the one
    being called now.
    """

    def __init__(
        self, layers: Layers, context: Any, *, lenient: bool, stuck: frozenset[int] = frozenset()
    ) -> None:
        self._stuck = stuck
        self.calling = 0
        self._layers = layers
        self._context = context
        self._lenient = lenient
        scope = look(context, "scope")
        self.key: Hashable = scope.key if isinstance(scope, Handle) else scope
        self._problems: list[Problem] = []
        self._complete: AssembledSection | None = None

    def fail(self, error: PromptError, required: bool = True) -> None:
        """Raise ``error``, or record it when nobody insists on what failed."""
        if required and not self._lenient:
            raise error
        self._problems.append(Problem.of(error))

    def assembly(self, tool_order: tuple[str, ...] | None) -> Assembly:
        """Everything up to the waterfall, in the order variables, sections, tools, texts, contexts."""
        variables = self._variables()
        ordered = self._ordered()
        tools = self._tools(tool_order)
        sections: list[AssembledSection] = []
        absent: list[AssembledSection] = []
        for entry, order in ordered:
            one = self._section(entry, order)
            if one is None:
                continue
            missing = one.file is not None and one.content is None
            (absent if missing else sections).append(one)
        mode = look(self._context, "mode")
        assembly = Assembly(
            sections, tools, variables, self._contexts(), mode=mode if isinstance(mode, str) else None
        )
        assembly.absent = absent
        assembly.ranks = {entry.name: rank for rank, (entry, _) in enumerate(ordered)}
        for one in absent:
            one.variables = assembly.variables
        self._complete = self._only_complete(sections)
        return assembly

    def complete(self) -> AssembledSection | None:
        """A detached copy of the one complete section, taken before any listener saw it."""
        return None if self._complete is None else detached(self._complete)

    def finish(
        self, assembly: Assembly, original: list[AssembledSection], complete: AssembledSection | None
    ) -> Assembly:
        """The final word: the complete section, no contexts when suppressed, faults, optional sections."""
        assembly.settle()
        if complete is not None:
            assembly.sections = [complete]
            assembly.absent = []
        elif original and not any(one is other for one in assembly.sections for other in original):
            assembly.absent = []
        if self._silent():
            assembly.contexts = []
        for fault in assembly.faults():
            self.fail(fault)
        assembly.settle()
        self._drop_broken(assembly)
        self._note_contents(assembly)
        assembly.problems += self._problems
        return assembly

    # ---- variables and tools

    def _variables(self) -> dict[str, str | None]:
        values: dict[str, str | None] = {}
        shadowed = self._shadowed_variables()
        for layer in list(self._layers.visible(self.key)):
            done: set[str] = set()
            while True:
                with self._layers.lock:
                    fresh = next((one for name, one in layer.variables.items() if name not in done), None)
                if fresh is None:
                    break
                done.add(fresh.name)
                values[fresh.name] = self._value(fresh, required=fresh not in shadowed)
        return values

    def _shadowed_variables(self) -> set[VariableEntry]:
        layers = list(self._layers.visible(self.key))
        if len(layers) < 2:
            return set()
        return {one for name, one in layers[0].variables.items() if name in layers[1].variables}

    def _value(self, entry: VariableEntry, *, required: bool) -> str | None:
        if not callable(entry.provider):
            return entry.provider if entry.provider is None else str(entry.provider)
        what = f"variable {entry.name!r}"
        ok, value = self._call(entry.provider, what, None, entry.owner, required)
        if not ok or value is None or isinstance(value, str):
            return value if ok else None
        kind = type(value).__name__
        _discard(value)
        self.fail(PromptError(f"{what} gave {kind}, not text", code="bad_value", owner=entry.owner), required)
        return None

    def _tools(self, tool_order: tuple[str, ...] | None) -> list[ToolSchema]:
        with self._layers.lock:
            providers: list[ToolEntry] = [
                one for layer in self._layers.visible(self.key) for one in layer.tools.values()
            ]
        tools: list[ToolSchema] = []
        known: list[str] = []
        for entry in providers:
            ok, result = self._call(entry.provider, "a tool provider", None, entry.owner, True)
            if not ok:
                continue
            try:
                some, names = collect_tools(result, entry.owner)
            except PromptError as error:
                self.fail(error)
                continue
            tools += some
            known += names
        try:
            return order_tools(tools, known, tool_order)
        except PromptError as error:
            self.fail(error)
            return order_tools(tools, known, None)

    # ---- sections and contexts

    def _merged(self, table: str) -> dict[str, Any]:
        with self._layers.lock:
            merged: dict[str, Any] = {}
            for layer in self._layers.visible(self.key):
                merged.update(getattr(layer, table))
        return merged

    def _ordered(self) -> list[tuple[SectionEntry, float]]:
        entries: list[SectionEntry] = list(self._merged("sections").values())

        def report(error: PromptError, entry: SectionEntry) -> None:
            # An anchor that is gone is no reason to fail a turn: the section stands by its own number.
            self.fail(error, entry.required and error.code != "anchor_unknown")

        return order_sections(entries, report)

    def _section(self, entry: SectionEntry, order: float) -> AssembledSection | None:
        if entry.when is not None:
            ok, wanted = self._call(
                entry.when, f"section {entry.name!r}", entry.name, entry.owner, entry.required
            )
            if not ok or not wanted:
                return None
        ok, text = self._text(entry, "section")
        if not ok:
            return None
        content = None
        if entry.file is not None and (root := look(self._context, "root")) is not None:
            content = read_guest_file(root, entry.file, entry.head)
        return AssembledSection(
            name=entry.name,
            text=text,
            order=order,
            owner=entry.owner,
            literal=entry.literal,
            required=entry.required,
            complete=entry.complete,
            file=entry.file,
            head=entry.head,
            wrap=entry.wrap,
            content=content,
        )

    def _contexts(self) -> list[AssembledContext]:
        if self._silent():
            return []
        entries: list[ContextEntry] = list(self._merged("contexts").values())
        contexts: list[AssembledContext] = []
        for entry in sorted(entries, key=lambda one: (one.order, one.name)):
            ok, text = self._text(entry, "context")
            if ok:
                contexts.append(
                    AssembledContext(
                        entry.name, text, entry.order, entry.owner, entry.literal, entry.required
                    )
                )
        return contexts

    def _text(self, entry: SectionEntry | ContextEntry, kind: str) -> tuple[bool, str]:
        if isinstance(entry.text, str):
            return True, entry.text
        ok, text = self._call(entry.text, f"{kind} {entry.name!r}", entry.name, entry.owner, entry.required)
        if not ok:
            return False, ""
        if isinstance(text, str):
            return True, text
        given = type(text).__name__
        _discard(text)
        self.fail(
            PromptError(
                f"{kind} {entry.name!r} gave {given}, not text",
                code="bad_text",
                section=entry.name,
                owner=entry.owner,
            ),
            entry.required,
        )
        return False, ""

    def _call(
        self, provider: Callable[[Any], Any], what: str, section: str | None, owner: str, required: bool
    ) -> tuple[bool, Any]:
        if id(provider) in self._stuck:
            late = f"{what} of {owner} has not come back within {BLOCKED_SECONDS:g} s"
            fix = "It must not wait for anything; restart the agent once it is mended."
            self.fail(PromptError(late, code="timeout", section=section, owner=owner, fix=fix), required)
            return False, None
        self.calling = id(provider)
        started = time.monotonic()
        try:
            value = provider(self._context)
        except Exception as error:
            named = PromptError(
                f"{what} of {owner} failed: {type(error).__name__}: {error}",
                code=error.code if isinstance(error, PromptError) else "provider_failed",
                section=section,
                owner=owner,
            )
            named.__cause__ = error
            self.fail(named, required)
            return False, None
        finally:
            self.calling = 0
        took = time.monotonic() - started
        if took > SLOW_SECONDS:
            self._problems.append(
                Problem(
                    "slow_provider",
                    f"{what} of {owner} took more than {SLOW_SECONDS:g} s",
                    section,
                    owner,
                    "note",
                )
            )
        return True, value

    def _silent(self) -> bool:
        return any(layer.silent for layer in self._layers.visible(self.key))

    # ---- the end

    def _only_complete(self, sections: list[AssembledSection]) -> AssembledSection | None:
        complete = [one for one in sections if one.complete]
        if len(complete) > 1:
            names = ", ".join(repr(one.name) for one in complete)
            self.fail(
                PromptError(f"more than one section wants to be complete: {names}", code="complete_conflict")
            )
        return complete[0] if complete else None

    def _drop_broken(self, assembly: Assembly) -> None:
        for one in [one for one in assembly.sections if not one.required]:
            try:
                one.render_bytes()
            except PromptError as error:
                self._problems.append(Problem.of(error))
                assembly.sections.remove(one)

    def _note_contents(self, assembly: Assembly) -> None:
        """Files that go to the model as they are although somebody should look at them."""
        for one in assembly.sections:
            if one.content is None:
                continue
            if len(one.content) > HUGE_BYTES:
                size = f"{len(one.content) / 1e6:.1f} MB"
                self._problems.append(
                    Problem(
                        "huge_file",
                        f"{one.file} brings {size} into every request; a model may refuse so long a prompt",
                        one.name,
                        one.owner,
                        "warning",
                    )
                )
            try:
                one.content.decode()
            except UnicodeDecodeError as error:
                self._problems.append(
                    Problem(
                        "invalid_utf8",
                        f"{one.file} is not valid UTF-8 at byte {error.start}; it goes to the model as it is",
                        one.name,
                        one.owner,
                        "note",
                    )
                )


def _discard(value: object) -> None:
    """Close a coroutine nobody will await, so that Python does not warn about it later."""
    close = getattr(value, "close", None)
    if close is not None and hasattr(value, "send"):
        with contextlib.suppress(Exception):
            close()
