"""Figures from ``data.db`` for people: read only, no owner needed."""

from typing import TYPE_CHECKING

from rightlab.clock import SystemClock
from rightlab.errors import UsageError
from rightlab.home import AgentHome
from rightlab.store import Store
from rightlab.usage import Ledger

if TYPE_CHECKING:
    import pandas

__all__ = ["ledger_frame"]


def ledger_frame(agent: AgentHome, *, days: int) -> "pandas.DataFrame":
    """One row per invocation of the last ``days`` days, newest first (columns: spec agent-runtime 3.4 and ours)."""
    if days < 1:
        raise UsageError(f"days is {days}", fix="Ask for at least one day.")
    clock = SystemClock()
    with Store.open(agent.db_path, role="reader") as store:
        frame = Ledger(store, clock).to_frame(days=days)
    return frame.iloc[::-1].reset_index(drop=True)
