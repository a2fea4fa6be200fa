"""What if the sections stood in another order, or said something else: predicted over recorded traffic.

Nothing is sent. Two measures, because two kinds of cache exist. *same* is the part of the system prompt that
equals the beginning of an earlier one, section by section: order decides it, and a cache that keeps any prefix
reads that much. *read* follows the breakpoints of the Messages API, where the prompt is one block: it is read
whole or written whole, so order inside it changes nothing there, and only text that leaves the prompt does.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from rightlab.errors import UsageError
from rightlab.html import Column, Footer, Note, Page, Table, mimebundle, money, percent, plural, tokens
from rightlab.prompt.assembly import SEPARATOR, Assembly, estimate_tokens
from rightlab.prompt.inspect.cache import Cache, PricePort, Reading
from rightlab.prompt.inspect.calibration import UNCALIBRATED, Calibration
from rightlab.prompt.inspect.compare import first_divergence
from rightlab.prompt.inspect.divergence import Divergence
from rightlab.prompt.inspect.stability import section_stability
from rightlab.prompt.inspect.trace import Slice, Trace, TracedBlock

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["Forecast", "Totals", "WhatIf", "layout_of", "suggest_order"]

TAIL = "tail"
"""Path of the block that holds what was moved out of the system prompt."""


@dataclass(frozen=True)
class Totals:
    """Sums over requests, in tokens; ``cost_usd`` of the prompts alone, ``None`` when a price is unknown."""

    requests: int
    tokens: int
    read: int
    write_5m: int
    write_1h: int
    full: int
    system: int
    system_same: int
    cost_usd: float | None

    @classmethod
    def of(cls, traces: Sequence[Trace], readings: Sequence[Reading], price: PricePort | None) -> "Totals":
        costs = [reading.cost(one.model, price) for one, reading in zip(traces, readings, strict=True)]
        known = [cost for cost in costs if cost is not None]
        rest = readings[1:]
        return cls(
            len(readings),
            sum(one.tokens for one in readings),
            sum(one.read for one in readings),
            sum(one.write_5m for one in readings),
            sum(one.write_1h for one in readings),
            sum(one.full for one in readings),
            # The first request has nothing before it to be the same as.
            sum(one.system for one in rest),
            sum(one.system_same for one in rest),
            sum(known) if len(known) == len(costs) else None,
        )

    @property
    def read_share(self) -> float | None:
        return self.read / self.tokens if self.tokens else None

    @property
    def same_share(self) -> float | None:
        """The stable prefix of the system prompt."""
        return self.system_same / self.system if self.system else None


@dataclass(frozen=True)
class Forecast:
    """Recorded traffic as it was and as it would have been.

    ``now``/``then`` are sums, ``readings`` one pair per request in order of time, ``changes`` the edits in
    words. ``billed_read`` is what was really read, to hold the reckoning against (``None``: not known).
    """

    now: Totals
    then: Totals
    traces: tuple[Trace, ...]
    readings: tuple[tuple[Reading, Reading], ...]
    changes: tuple[str, ...]
    mapped: int
    calibration: Calibration
    billed_read: int | None = None
    scripted: bool = False

    @property
    def saved_usd(self) -> float | None:
        if self.now.cost_usd is None or self.then.cost_usd is None:
            return None
        return self.now.cost_usd - self.then.cost_usd

    @property
    def sentence(self) -> str:
        if not self.traces:
            return "Nothing is recorded yet, so nothing can be predicted."
        if not self.changes:
            same, read = percent(self.now.same_share), percent(self.now.read_share)
            n = plural(len(self.traces), "request")
            return (
                f"Over {n} {same} of the system prompt began as before; "
                f"{read} of all tokens are read from the cache."
            )
        same = f"{percent(self.now.same_share)} to {percent(self.then.same_share)}"
        read = f"{percent(self.now.read_share)} to {percent(self.then.read_share)}"
        saved = self.saved_usd
        money_words = "the price is unknown" if saved is None else f"{money(saved, signed=True)} saved"
        return (
            f"The stable prefix of the prompt goes from {same}, "
            f"tokens read from the cache from {read}; {money_words}."
        )

    def to_frame(self) -> "DataFrame":
        """One row per request: label, at, model and the tokens of both ways."""
        import pandas as pd

        rows = []
        for one, (now, then) in zip(self.traces, self.readings, strict=True):
            row: dict[str, Any] = {"label": one.label, "at": one.at, "model": one.model}
            for prefix, reading in (("now", now), ("then", then)):
                for name in ("tokens", "read", "write_5m", "write_1h", "full", "system", "system_same"):
                    row[f"{prefix}_{name}"] = getattr(reading, name)
            rows.append(row)
        return pd.DataFrame(rows)

    def page(self) -> Page:
        lines = [
            ("stable prefix of the prompt", percent(self.now.same_share), percent(self.then.same_share)),
            ("tokens of all prompts", tokens(self.now.tokens), tokens(self.then.tokens)),
            ("read from the cache", tokens(self.now.read), tokens(self.then.read)),
            ("written, kept 5 min", tokens(self.now.write_5m), tokens(self.then.write_5m)),
            ("written, kept 1 h", tokens(self.now.write_1h), tokens(self.then.write_1h)),
            ("paid in full", tokens(self.now.full), tokens(self.then.full)),
            ("cost of the prompts", money(self.now.cost_usd), money(self.then.cost_usd)),
        ]
        columns = [
            Column("what", ""),
            Column("now", "as it was", align="right"),
            Column("then", "what if", align="right"),
        ]
        body: list[Any] = [Table(lines, columns, caption="Predicted, not measured")]
        if self.changes:
            body.append(Note("; ".join(self.changes)))
        if self.mapped < len(self.traces):
            bare = plural(len(self.traces) - self.mapped, "request")
            body.append(Note(f"left as it was, its sections being unknown: {bare}"))
        more: tuple[str, ...] = ()
        if self.billed_read is not None:
            more = (
                f"the same reckoning gives {tokens(self.now.read)} read where {tokens(self.billed_read)} were billed",
            )
        footer = Footer(
            n=len(self.traces),
            method=f"cache rules of the Messages API; tokens: {self.calibration.method}",
            more=more,
            source="scripted model" if self.scripted else None,
        )
        return Page("What if", self.sentence, *body, footer=footer)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return mimebundle(self, self.page(), include, exclude)

    def _repr_html_(self) -> str:
        return self.page().html()

    def __str__(self) -> str:
        return self.page().text()


def layout_of(traces: Iterable[Trace]) -> tuple[str, ...]:
    """The one order of all sections that occur, each after what stood before it where it first occurred."""
    order: list[str] = []
    for one in traces:
        previous: str | None = None
        for part, _ in one.sections():
            if part.name not in order:
                order.insert(0 if previous is None else order.index(previous) + 1, part.name)
            previous = part.name
    return tuple(order)


@dataclass(frozen=True)
class WhatIf:
    """Edits of the prompt to be tried on recorded traffic. Every method gives a new one; nothing is sent.

    ``traces`` in order of time; ``order`` the names of the sections.
    """

    traces: tuple[Trace, ...]
    order: tuple[str, ...]
    texts: Mapping[str, bytes | None]
    tail: frozenset[str]
    changes: tuple[str, ...]
    calibration: Calibration = UNCALIBRATED
    price: PricePort | None = None
    readings: list[Reading] = field(default_factory=list, repr=False, compare=False)
    """How the traffic went as it was; reckoned once for all edits of it."""

    @classmethod
    def over(
        cls,
        traces: Iterable[Trace],
        *,
        calibration: Calibration = UNCALIBRATED,
        price: PricePort | None = None,
    ) -> "WhatIf":
        ordered = tuple(sorted(traces, key=lambda one: one.at))
        return cls(ordered, layout_of(ordered), {}, frozenset(), (), calibration, price)

    def move(self, name: str, *, before: str | None = None, after: str | None = None) -> "WhatIf":
        """``name`` stands directly before or after another section; without either it goes to the end.

        Raises UsageError: a section that is not in the recordings, or both places given.
        """
        if before is not None and after is not None:
            raise UsageError("a section can be moved before or after another, not both")
        anchor = before or after
        self._known(name)
        rest = [one for one in self.order if one != name]
        if anchor is None:
            at, where = len(rest), "to the end"
        else:
            self._known(anchor)
            if anchor == name:
                raise UsageError(f"section {name!r} cannot stand beside itself")
            at = rest.index(anchor) + (after is not None)
            where = f"{'before' if before else 'after'} {anchor}"
        rest.insert(at, name)
        return self._with(f"{name} moved {where}", order=tuple(rest))

    def reorder(self, names: Sequence[str]) -> "WhatIf":
        """The named sections first, in this order; the others keep theirs behind them."""
        for name in names:
            self._known(name)
        rest = [one for one in self.order if one not in names]
        return self._with("new order", order=(*dict.fromkeys(names), *rest))

    def edit(self, name: str, text: str | bytes) -> "WhatIf":
        """``name`` reads ``text`` (rendered, with its heading) in every request that has it."""
        self._known(name)
        data = text.encode() if isinstance(text, str) else bytes(text)
        return self._with(f"{name} edited", texts={**self.texts, name: data})

    def drop(self, name: str) -> "WhatIf":
        """``name`` is left out."""
        self._known(name)
        return self._with(f"{name} left out", texts={**self.texts, name: None})

    def to_tail(self, name: str) -> "WhatIf":
        """``name`` leaves the system prompt and goes with the message instead.

        Counted as paid in full in every request, which is the most it can cost.
        """
        self._known(name)
        return self._with(f"{name} moved out of the system prompt", tail=self.tail | {name})

    def like(self, changed: Assembly, base: Assembly) -> "WhatIf":
        """All that turns ``base`` into ``changed`` (a variant), applied to the recorded prompts."""
        old = {part.name: part for part in base.parts()}
        new = {part.name: part for part in changed.parts()}
        result = self
        for name in self.order:
            if name in old and name not in new:
                result = result.drop(name)
            elif name in old and new[name].data != old[name].data:
                result = result.edit(name, new[name].data)
        both = [name for name in new if name in self.order and name in old]
        if both != [name for name in old if name in both]:
            result = result.reorder(both)
        return result

    def apply(self, one: Trace) -> Trace:
        """``one`` with the edits made; the same when its sections are not known."""
        return self._applied(one, {})

    def _applied(self, one: Trace, done: dict[Any, tuple[TracedBlock, bytes]]) -> Trace:
        """:meth:`apply`; equal prompts are rebuilt once (``done``)."""
        block = one.system
        if block is None or not self.changes:
            return one
        key = (block.digest, block.sections)
        if key not in done:
            rank = {name: at for at, name in enumerate(self.order)}
            parts = sorted(one.sections(), key=lambda pair: rank[pair[0].name])
            kept: list[tuple[Slice, bytes]] = []
            moved: list[bytes] = []
            for part, data in parts:
                text = self.texts.get(part.name, data)
                if text and part.name in self.tail:
                    moved.append(text)
                elif text:
                    kept.append((part, text))
            done[key] = (_rebuilt(block, kept), SEPARATOR.join(moved))
        new, tail = done[key]
        blocks = [new if at == one.prompt else other for at, other in enumerate(one.blocks)]
        if tail:
            blocks.append(TracedBlock("message", TAIL, "user", TAIL, tail, estimate_tokens(tail)))
        return replace(one, blocks=tuple(blocks))

    def forecast(self) -> Forecast:
        """The recorded traffic as it was beside what it would have been."""
        factor = self.calibration.factor
        if len(self.readings) != len(self.traces):
            before = Cache(factor)
            self.readings[:] = [before.charge(one) for one in self.traces]
        now = list(self.readings)
        done: dict[Any, tuple[TracedBlock, bytes]] = {}
        changed = [self._applied(one, done) for one in self.traces]
        after = Cache(factor)
        then = [after.charge(one) for one in changed] if self.changes else now
        billed = [one.usage.get("cache_read_input_tokens") for one in self.traces if one.usage is not None]
        reads = [value for value in billed if isinstance(value, int)]
        return Forecast(
            Totals.of(self.traces, now, self.price),
            Totals.of(changed, then, self.price),
            self.traces,
            tuple(zip(now, then, strict=True)),
            self.changes,
            sum(one.prompt is not None for one in self.traces),
            self.calibration,
            sum(reads) if reads and len(reads) == len(self.traces) else None,
            any(one.scripted for one in self.traces),
        )

    def next_turn(self) -> Divergence:
        """What making the change costs once: the last recorded request against itself with the edits made."""
        if not self.traces:
            return Divergence("none", "nothing is recorded")
        last = self.traces[-1]
        label = last.label or "the last request"
        then = replace(self.apply(last), label=f"{label} with the change")
        return first_divergence(
            last,
            then,
            price=self.price,
            factor=self.calibration.factor,
            method=f"tokens: {self.calibration.method}",
        )

    def _with(self, change: str, **fields: Any) -> "WhatIf":
        return replace(self, changes=(*self.changes, change), **fields)

    def _known(self, name: str) -> None:
        if name not in self.order:
            known = ", ".join(self.order) or "none"
            raise UsageError(f"no section {name!r} in the recorded prompts", fix=f"There are: {known}.")

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return self.forecast()._repr_mimebundle_(include, exclude)

    def __repr__(self) -> str:
        edits = "; ".join(self.changes) or "no change yet"
        return f"<WhatIf over {plural(len(self.traces), 'request')}: {edits}>"


def suggest_order(what_if: WhatIf) -> WhatIf:
    """The sections by stability, the most stable first; equally stable ones keep their order.

    The longest stable prefix that any order can give: what changes stands behind all that does not.
    """
    found = section_stability(what_if.traces)
    names = sorted(what_if.order, key=lambda name: -found[name].share if name in found else 0.0)
    if tuple(names) == what_if.order:
        return what_if
    return replace(what_if.reorder(names), changes=(*what_if.changes, "ordered by stability"))


def _rebuilt(block: TracedBlock, kept: list[tuple[Slice, bytes]]) -> TracedBlock:
    data = SEPARATOR.join(text for _, text in kept)
    slices = []
    start = 0
    for part, text in kept:
        slices.append(Slice(part.name, part.owner, start, start + len(text), part.exact))
        start += len(text) + len(SEPARATOR)
    return TracedBlock(
        block.kind,
        block.path,
        block.role,
        block.name,
        data,
        estimate_tokens(data),
        block.breakpoint,
        tuple(slices),
    )
