"""Rows of a ledger for tests and benches, written as the runtime would have."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from os import PathLike
from typing import Any

from rightlab.clock import iso
from rightlab.store import Store

__all__ = ["fill_ledger", "usage_values"]


def usage_values(at: datetime, cost_usd: float | None = 0.01, **values: Any) -> dict[str, Any]:
    """One row of ``usage_events`` at ``at`` (aware): an interactive turn of three steps in 6 s."""
    return {
        "ts": iso(at),
        "source": "interactive",
        "chat_id": 42,
        "thread_id": 0,
        "total_cost_usd": cost_usd,
        "num_turns": 3,
        "input_tokens": 100,
        "output_tokens": 200,
        "cache_creation_tokens": 300,
        "cache_read_tokens": 4_000,
        "wall_elapsed_ms": 6_000,
        "model": "claude-sonnet-5-5",
        "session_uuid": "session",
        "price_version": "2026-11-30",
        "prompt_sha256": "ab" * 32,
        **values,
    }


def fill_ledger(path: str | PathLike[str], rows: Iterable[Mapping[str, Any]]) -> int:
    """Write ``rows`` into the ledger at ``path``, made when missing; returns how many.

    A column that only other rows have stays empty.
    """
    found = list(rows)
    if not found:
        return 0
    names = list(dict.fromkeys(name for row in found for name in row))
    marks = ", ".join("?" * len(names))
    sql = f"INSERT INTO usage_events ({', '.join(names)}) VALUES ({marks})"
    with Store.open(path, role="owner") as store:
        return store.transact(
            lambda tx: tx.run_many(sql, [[row.get(name) for name in names] for row in found])
        )
