"""The dearest turns and why: each against the turn before it in its session, from the recordings (views 03)."""

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from rightlab.clock import Clock, SystemClock
from rightlab.errors import RightlabError, UsageError
from rightlab.home import AgentHome
from rightlab.html import Column, Footer, Page, Table, ago, mimebundle, money, plural
from rightlab.runtime.requests import read_divergence
from rightlab.store import Store
from rightlab.usage import Ledger, UsageRow
from rightlab.usage.spikes import Session, dearest, dearest_sessions, predecessors, spiky_turns

if TYPE_CHECKING:
    import pandas

__all__ = ["DearTurn", "DearTurns", "read_dear_turns"]


@dataclass(frozen=True, slots=True)
class DearTurn:
    """One invocation. ``cause`` is what changed since the turn before it, ``rewritten`` the tokens written again for
    it (None: not known); ``beyond`` when it is far outside what its source usually costs."""

    row: UsageRow
    cause: str
    rewritten: int | None
    surplus_usd: float | None
    beyond: bool


@dataclass(frozen=True, eq=False)
class DearTurns:
    """The dearest invocations of a window with their causes, and the dearest sessions."""

    agent: str
    days: int
    n: int
    turns: tuple[DearTurn, ...]
    sessions: tuple[Session, ...]
    now: datetime

    def to_frame(self) -> "pandas.DataFrame":
        """One row per turn: ts, source, model, turn_id, cost_usd, cause, rewritten, surplus_usd, beyond."""
        import pandas as pd

        return pd.DataFrame(
            [
                {
                    "ts": turn.row.ts,
                    "source": turn.row.source,
                    "model": turn.row.model,
                    "turn_id": turn.row.turn_id,
                    "cost_usd": turn.row.total_cost_usd,
                    "cause": turn.cause,
                    "rewritten": turn.rewritten,
                    "surplus_usd": turn.surplus_usd,
                    "beyond": turn.beyond,
                }
                for turn in self.turns
            ]
        )

    def page(self) -> Page:
        rows = [
            {
                "turn": (turn.row.run_id or turn.row.turn_id or "–")[:8],
                "when": ago(turn.row.at, self.now),
                "source": turn.row.source,
                "chat": "–" if turn.row.chat_id is None else str(turn.row.chat_id),
                "cost": turn.row.total_cost_usd,
                "why": ("beyond the band; " if turn.beyond else "") + turn.cause,
            }
            for turn in self.turns
        ]
        columns: list[Column | str] = ["turn", "when", "source", "chat"]
        columns += [Column("cost", align="right", format=money), "why"]
        sessions = [
            {"session": one.session[:8], "turns": one.turns, "cost": one.cost_usd} for one in self.sessions
        ]
        return Page(
            f"{self.agent} · dearest turns · last {plural(self.days, 'day')}",
            "",
            Table(
                rows,
                columns,
                caption="Dearest turns and why",
                row_headers=False,
                empty="Nothing of known cost.",
            ),
            Table(
                sessions,
                ["session", "turns", Column("cost", align="right", format=money)],
                caption="Dearest sessions",
                empty="No session.",
            ),
            footer=Footer(n=self.n, more=("why: against the turn before it in its session",)),
        )

    def text(self) -> str:
        return self.page().text()

    def __repr__(self) -> str:
        return f"<DearTurns of {self.agent!r}: {len(self.turns)} of {self.n}>"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return mimebundle(self, self.page(), include, exclude)


def read_dear_turns(agent: AgentHome, *, n: int = 5, days: int = 14, clock: Clock | None = None) -> DearTurns:
    """The ``n`` dearest invocations of the last ``days`` days. Raises UsageError, StoreError."""
    if not 1 <= n <= 100 or days < 1:
        raise UsageError(f"n is {n} and days {days}", fix="Ask for 1 to 100 turns of at least one day.")
    clock = clock or SystemClock()
    with Store.open(agent.db_path, role="reader") as store:
        rows = Ledger(store, clock).rows(days=days)
    before = predecessors(rows)
    beyond = {spike.row.id for spike in spiky_turns(rows) if spike.row is not None}
    turns = tuple(_explained(agent, row, before, row.id in beyond) for row in dearest(rows, n))
    return DearTurns(agent.name, days, len(rows), turns, tuple(dearest_sessions(rows, n)), clock.now())


def _explained(agent: AgentHome, row: UsageRow, before: Any, beyond: bool) -> DearTurn:
    previous = before.get(row.turn_id) if row.turn_id else None
    if previous is None:
        cause = "the first turn of its session" if row.turn_id else "no turn of a chat"
        return DearTurn(row, cause, None, None, beyond)
    try:
        found = read_divergence(agent, previous, row.turn_id)
    except RightlabError:
        return DearTurn(row, "not recorded", None, None, beyond)
    if not found:
        return DearTurn(row, "nothing was written again", 0, 0.0, beyond)
    cause = f"{found.cause}: about {found.tokens_rewritten:,} tokens written again"
    return DearTurn(row, cause, found.tokens_rewritten, found.cost_usd, beyond)
