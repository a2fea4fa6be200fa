"""How often each section of the prompt stayed as it was."""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rightlab.prompt.assembly import Assembly
    from rightlab.prompt.inspect.trace import Trace

__all__ = ["Stability", "fill_stability", "section_stability", "stability_of"]


@dataclass(frozen=True)
class Stability:
    """In ``same`` of ``n`` recorded turns the section was byte for byte what it was in the turn before."""

    n: int
    same: int

    @property
    def share(self) -> float:
        return self.same / self.n if self.n else 0.0


def stability_of(turns: Iterable[tuple[Hashable, Mapping[str, Hashable]]]) -> dict[str, Stability]:
    """Per section name, from turns in order of time: (conversation, hash per section name).

    A turn is compared with the one before it in its conversation; the first of a conversation has nothing to
    differ from and counts as the same. In a turn where a section came or went it was not the same.
    """
    given = list(turns)
    last: dict[Hashable, Mapping[str, Hashable]] = {}
    changes = {name: 0 for _, sections in given for name in sections}
    for scope, sections in given:
        before = last.get(scope)
        if before is not None:
            for name in changes:
                changes[name] += before.get(name) != sections.get(name)
        last[scope] = sections
    return {name: Stability(len(given), len(given) - changed) for name, changed in changes.items()}


def section_stability(traces: Iterable["Trace"]) -> dict[str, Stability]:
    """:func:`stability_of` recorded requests (the first of each turn), conversations told apart by scope."""
    turns = []
    for one in sorted(traces, key=lambda trace: trace.at):
        sections = {part.name: data for part, data in one.sections()}
        if sections:
            turns.append((one.scope, sections))
    return stability_of(turns)


def fill_stability(assembly: "Assembly", found: Mapping[str, Stability]) -> "Assembly":
    """Note the shares at the sections of ``assembly`` (``None`` where nothing was recorded). Returns it."""
    for section in assembly.sections:
        one = found.get(section.name)
        section.stability = None if one is None else one.share
    return assembly
