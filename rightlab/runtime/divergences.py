"""Where the requests of each conversation part, one after another: what broke the cache, and when."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from rightlab.home import AgentHome
from rightlab.html import Column, Empty, Footer, Page, Table, count, mimebundle, money, plural, tokens
from rightlab.prompt.inspect import Divergence

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["Divergences"]


class Divergences(list[Divergence]):
    """The places where a request differs from the one before it in its conversation, oldest first.

    ``requests`` is how many were looked at.
    """

    def __init__(self, agent: AgentHome, found: Iterable[Divergence], requests: int) -> None:
        super().__init__(found)
        self.agent = agent
        self.requests = requests

    def to_frame(self) -> "DataFrame":
        """One row per place (see :class:`rightlab.prompt.inspect.Divergence`)."""
        import pandas as pd

        return pd.DataFrame([one.to_json() for one in self], columns=list(Divergence.__dataclass_fields__))

    def page(self) -> Page:
        title = f"{self.agent.name} · divergence of recorded requests"
        footer = Footer(
            n=self.requests,
            method=self[-1].method if self else None,
            source="scripted model" if any(one.scripted for one in self) else None,
        )
        if not self.requests:
            fill = (
                f'Ask something: rightlab ask {self.agent.name} "hello" (the gateway records every request).'
            )
            return Page(title, empty=Empty("No model request is recorded yet.", fill))
        if not self:
            looked = plural(self.requests, "request")
            sentence = f"In {looked} each one goes on where the one before it in its conversation ends."
            return Page(title, sentence, footer=footer)
        spent = [one.cost_usd for one in self]
        known = sum(cost for cost in spent if cost is not None)
        price = f", {money(known)}" if None not in spent else ""
        sentence = (
            f"{plural(len(self), 'time')} in {plural(self.requests, 'request')} the cache was lost: about "
            f"{tokens(sum(one.tokens_rewritten for one in self))} tokens written again{price}."
        )
        rows = [
            {
                "turns": f"{one.labels[0]} → {one.labels[1]}",
                "where": one.name or one.kind,
                "byte": one.byte,
                "cause": one.cause,
                "rewritten": one.tokens_rewritten,
                "cost": one.cost_usd,
            }
            for one in reversed(self)
        ]
        columns = [
            Column("turns", "from → to"),
            Column("where"),
            Column("byte", align="right", format=lambda byte: "" if byte is None else count(byte)),
            Column("cause"),
            Column("rewritten", "tokens re-written", format=tokens),
            Column("cost", "surplus, once", align="right", format=money),
        ]
        return Page(title, sentence, Table(rows, columns, caption="Newest first"), footer=footer)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return mimebundle(self, self.page(), include, exclude)

    def _repr_html_(self) -> str:
        return self.page().html()

    def __repr__(self) -> str:
        looked = plural(self.requests, "recorded request")
        return f"<{plural(len(self), 'divergence')} in {looked} of {self.agent.name!r}>"
