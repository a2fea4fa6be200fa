"""The first place where two recorded requests differ, as a value and as a page."""

from dataclasses import dataclass
from typing import Any, Literal

from rightlab.html import Footer, Page, Pairs, Value, count, mimebundle, money, tokens

__all__ = ["UNKNOWN_CAUSE", "Divergence"]

UNKNOWN_CAUSE = "unknown"

Kind = Literal["none", "model", "tool", "section", "system", "message", "cache"]


@dataclass(frozen=True)
class Divergence:
    """Where request ``b`` first differs from ``a``; false when it does not.

    ``kind``: model, tool, section, system (a block that is no section), message; ``cache`` when the bytes are
    equal as far as ``a`` goes and the cache was not read all the same; ``none``. ``name`` is the section, tool
    or block; ``number`` its place from 1; ``byte`` the offset in its block (of a section: in the prompt),
    ``section_byte`` that in the section. ``before``/``after`` are excerpts. ``tokens_behind`` stand behind
    the byte, ``tokens_rewritten`` are written to the cache again, at a surplus of ``cost_usd`` over reading
    them (estimates by ``method``; ``None``: unknown price).
    """

    kind: Kind
    cause: str
    name: str = ""
    owner: str = ""
    path: str = ""
    number: int | None = None
    byte: int | None = None
    section_byte: int | None = None
    before: str = ""
    after: str = ""
    tokens_behind: int = 0
    tokens_rewritten: int = 0
    cost_usd: float | None = None
    labels: tuple[str, str] = ("a", "b")
    notes: tuple[str, ...] = ()
    method: str = ""
    scripted: bool = False

    def __bool__(self) -> bool:
        return self.kind != "none"

    @property
    def sentence(self) -> str:
        """The whole answer in one sentence."""
        first, second = self.labels
        if self.kind == "none":
            return f"{second} goes on exactly where {first} ends: nothing is written again."
        if self.kind == "cache":
            where = f"{second} begins with the bytes of {first}, yet the cache was not read"
        elif self.kind == "model":
            where = f"{first} and {second} went to different models"
        else:
            place = f"in {self._place}"
            if self.byte is not None:
                place += f", byte {count(self.byte)}"
            where = f"{first} and {second} first differ {place}"
            if self.after or self.before:
                where += f": “{self.after or self.before}”"
        price = f", {money(self.cost_usd)}" if self.cost_usd is not None else ", price unknown"
        written = f"re-written about {tokens(self.tokens_rewritten)} tokens{price}"
        return f"{where}; cause: {self.cause}; {written}."

    @property
    def _place(self) -> str:
        if self.kind == "section":
            return f"section {self.number} ({self.name})"
        if self.kind == "tool":
            return f"tool {self.number} ({self.name})"
        return self.path or self.name

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    def page(self) -> Page:
        rows: list[tuple[str, Value]] = []
        if self:
            rows.append(("where", self._place if self.kind not in ("cache", "model") else self.kind))
            if self.owner:
                rows.append(("owner", self.owner))
            if self.before or self.after:
                rows += [(self.labels[0], self.before), (self.labels[1], self.after)]
            rows += [
                ("cause", self.cause),
                ("tokens behind it", f"about {tokens(self.tokens_behind)}"),
                ("written again", f"about {tokens(self.tokens_rewritten)} tokens"),
                ("surplus, once", money(self.cost_usd)),
            ]
        rows += [("note", note) for note in self.notes]
        footer = Footer(method=self.method or None, source="scripted model" if self.scripted else None)
        return Page("First divergence", self.sentence, Pairs(rows), footer=footer)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return mimebundle(self, self.page(), include, exclude)

    def _repr_html_(self) -> str:
        return self.page().html()

    def __str__(self) -> str:
        return self.page().text()
