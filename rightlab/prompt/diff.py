"""What turns one assembly into another."""

from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any, Literal

from rightlab.html import Column, Diff, Page, Stack, Table, mimebundle, size

if TYPE_CHECKING:
    from pandas import DataFrame

    from rightlab.prompt.assembly import Assembly

__all__ = ["AssemblyDiff", "SectionChange"]

Kind = Literal["same", "added", "removed", "changed", "moved"]


@dataclass(frozen=True)
class SectionChange:
    """One section in both assemblies; ``before``/``after`` are rendered text, ``None`` where it is absent."""

    name: str
    kind: Kind
    before: str | None
    after: str | None
    bytes_before: int
    bytes_after: int
    tokens_before: int
    tokens_after: int


@dataclass(frozen=True)
class AssemblyDiff:
    """The changes by section, in the order of the second assembly (removed ones after their old neighbours).

    ``first_byte`` is the first byte of the prompt that differs, ``None`` when the prompts are equal;
    ``tokens_behind`` estimates what stands behind it in the second prompt: what a prompt cache loses.
    """

    changes: tuple[SectionChange, ...]
    first_byte: int | None
    tokens_behind: int

    @classmethod
    def between(cls, before: "Assembly", after: "Assembly") -> "AssemblyDiff":
        from rightlab.prompt.assembly import estimate_tokens

        old = {part.name: part for part in before.parts()}
        new = {part.name: part for part in after.parts()}
        kept_old = [name for name in old if name in new]
        kept_new = [name for name in new if name in old]
        matcher = SequenceMatcher(None, kept_old, kept_new, autojunk=False)
        moved = set(kept_new)
        for block in matcher.get_matching_blocks():
            moved -= set(kept_new[block.b : block.b + block.size])
        names = list(new)
        previous: str | None = None
        for name in old:
            if name not in new:
                names.insert(0 if previous is None else names.index(previous) + 1, name)
            previous = name
        changes = []
        for name in names:
            was, now = old.get(name), new.get(name)
            kind: Kind = "same"
            if was is None:
                kind = "added"
            elif now is None:
                kind = "removed"
            elif was.data != now.data:
                kind = "changed"
            elif name in moved:
                kind = "moved"
            changes.append(
                SectionChange(
                    name,
                    kind,
                    None if was is None else was.text,
                    None if now is None else now.text,
                    0 if was is None else len(was.data),
                    0 if now is None else len(now.data),
                    0 if was is None else was.tokens,
                    0 if now is None else now.tokens,
                )
            )
        left, right = before.render_bytes(), after.render_bytes()
        at = _first_difference(left, right)
        return cls(tuple(changes), at, 0 if at is None else estimate_tokens(right[at:]))

    def __bool__(self) -> bool:
        """Whether anything differs."""
        return self.first_byte is not None

    def to_frame(self) -> "DataFrame":
        """One row per section: name, kind, bytes and tokens before and after."""
        import pandas as pd

        columns = ["name", "kind", "bytes_before", "bytes_after", "tokens_before", "tokens_after"]
        return pd.DataFrame(
            [{key: getattr(one, key) for key in columns} for one in self.changes], columns=columns
        )

    def page(self) -> Page:
        different = [one for one in self.changes if one.kind != "same"]
        if self.first_byte is None:
            sentence = "The two prompts are equal."
        else:
            sentence = (
                f"{len(different)} of {len(self.changes)} sections differ; the first different byte is "
                f"{self.first_byte:,}, with about {self.tokens_behind:,} tokens behind it."
            )
        table = Table(
            [
                {"name": one.name, "kind": one.kind, "before": one.bytes_before, "after": one.bytes_after}
                for one in different
            ],
            [
                Column("name", "section"),
                Column("kind", "change"),
                Column("before", format=size),
                Column("after", format=size),
            ],
            caption="Sections that differ",
            empty="None.",
        )
        diffs = [
            Diff(one.before or "", one.after or "", names=(f"{one.name} before", f"{one.name} after"))
            for one in different
            if one.kind != "moved"
        ]
        return Page("Difference of two assemblies", sentence, table, Stack(*diffs))

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return mimebundle(self, self.page(), include, exclude)

    def _repr_html_(self) -> str:
        return self.page().html()

    def __str__(self) -> str:
        return self.page().text()


def _first_difference(left: bytes, right: bytes) -> int | None:
    if left == right:
        return None
    low, high = 0, min(len(left), len(right))
    while low < high:
        middle = (low + high + 1) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
