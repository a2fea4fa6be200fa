"""The one order of sections: by number, ties by name, anchored ones beside their anchor."""

from collections.abc import Callable, Sequence

from rightlab.errors import PromptError
from rightlab.prompt.layers import SectionEntry

__all__ = ["order_sections"]


def order_sections(
    entries: Sequence[SectionEntry], report: Callable[[PromptError, SectionEntry], None]
) -> list[tuple[SectionEntry, float]]:
    """``entries`` in final order, each with the order it resolved to (an anchored one: its anchor's).

    Depends on the set of entries only, never on the order they came in. An anchor that is not registered is
    reported and the section stands by its own number; so do the sections of a cycle.
    """
    by_name = {entry.name: entry for entry in entries}
    sides: dict[tuple[str, bool], list[SectionEntry]] = {}
    roots: list[SectionEntry] = []
    for entry in entries:
        anchor = entry.after or entry.before
        if anchor is not None and anchor not in by_name:
            report(
                _error(entry, "anchor_unknown", f"is anchored to {anchor!r}, which is not registered"), entry
            )
            anchor = None
        if anchor is None:
            roots.append(entry)
        else:
            sides.setdefault((anchor, entry.after is not None), []).append(entry)
    placed: list[tuple[SectionEntry, float]] = []
    done: set[str] = set()
    for root in sorted(roots, key=_key):
        _place(root, root.order, sides, placed, done)
    while len(done) < len(entries):
        ring = _ring([entry for entry in entries if entry.name not in done])
        names = ", ".join(entry.name for entry in ring)
        for entry in ring:
            report(_error(entry, "anchor_cycle", f"is anchored in a circle: {names}"), entry)
        for entry in ring:
            sides[(entry.after or entry.before or "", entry.after is not None)].remove(entry)
        late: list[tuple[SectionEntry, float]] = []
        for entry in ring:
            _place(entry, entry.order, sides, late, done)
        placed += late
        placed.sort(key=lambda pair: pair[1])
    at = {entry.name: index for index, (entry, _) in enumerate(placed)}
    for entry in entries:
        if entry.after and entry.before and entry.before in at and at[entry.before] < at[entry.name]:
            why = f"cannot stand after {entry.after!r} and before {entry.before!r}"
            report(_error(entry, "anchor_conflict", why), entry)
    return placed


def _key(entry: SectionEntry) -> tuple[float, str]:
    return entry.order, entry.name


def _place(
    root: SectionEntry,
    order: float,
    sides: dict[tuple[str, bool], list[SectionEntry]],
    placed: list[tuple[SectionEntry, float]],
    done: set[str],
) -> None:
    """Emit ``root`` with all that is anchored to it, however deep, without recursion."""
    stack: list[tuple[SectionEntry, bool]] = [(root, False)]
    while stack:
        entry, opened = stack.pop()
        if opened:
            placed.append((entry, order))
            done.add(entry.name)
            continue
        before = sorted(sides.get((entry.name, False), ()), key=_key)
        after = sorted(sides.get((entry.name, True), ()), key=_key)
        stack += [(one, False) for one in reversed(after)]
        stack.append((entry, True))
        stack += [(one, False) for one in reversed(before)]


def _ring(left: Sequence[SectionEntry]) -> list[SectionEntry]:
    """The members of one circle among ``left`` (each anchored inside ``left``), by number and name."""
    by_name = {entry.name: entry for entry in left}
    walk = min(left, key=_key)
    seen: list[SectionEntry] = []
    while walk not in seen:
        seen.append(walk)
        walk = by_name[walk.after or walk.before or ""]
    return sorted(seen[seen.index(walk) :], key=_key)


def _error(entry: SectionEntry, code: str, why: str) -> PromptError:
    return PromptError(f"section {entry.name!r} {why}", code=code, section=entry.name, owner=entry.owner)
