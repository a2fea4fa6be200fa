"""Rows of a ledger for tests and benches, written as the runtime would have."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from itertools import groupby
from os import PathLike
from typing import Any

from rightlab.clock import iso
from rightlab.store import Store, Tx

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

    A column that a row does not name has its default.
    """
    found = list(rows)

    def write(tx: Tx) -> None:
        for names, alike in groupby(found, key=tuple):
            marks = ", ".join("?" * len(names))
            sql = f"INSERT INTO usage_events ({', '.join(names)}) VALUES ({marks})"
            tx.run_many(sql, [list(row.values()) for row in alike])

    with Store.open(path, role="owner") as store:
        store.transact(write)
    return len(found)
