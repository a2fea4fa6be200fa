"""Turns whose model requests are recorded: the rows of ``data.db`` beside the gateway's folders."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rightlab.errors import StoreError, UsageError
from rightlab.home import AgentHome
from rightlab.runtime.stored_requests import recorded_invocations
from rightlab.store import Store

__all__ = ["TurnName", "beside", "by_invocation", "recorded_turns", "rows_of", "turn_named"]

TurnName = int | str | Any
"""A turn by its number, by (the beginning of) its id, or as the object that ``ask`` returned."""


def recorded_turns(agent: AgentHome, *, last: int = -1) -> list[Any]:
    """The turns whose requests are recorded, oldest first; only among the ``last`` turns when given."""
    known = recorded_invocations(agent.recordings_dir)
    if not known:
        return []
    rows = rows_of(
        agent,
        "SELECT id, turn_id, invocation_id, chat_id, thread_id, sections_json FROM turns"
        " WHERE invocation_id IS NOT NULL AND sections_json IS NOT NULL ORDER BY id DESC LIMIT ?",
        last,
    )
    return [row for row in reversed(rows) if row["invocation_id"] in known]


def turn_named(rows: Sequence[Any], name: TurnName) -> Any:
    """The row of that turn. Raises UsageError: none, or several whose ids begin so."""
    wanted = getattr(name, "turn_id", name)
    if isinstance(wanted, int) and not isinstance(wanted, bool):
        found = [row for row in rows if row["id"] == wanted]
    else:
        found = [row for row in rows if str(row["turn_id"]).startswith(str(wanted))]
    if len(found) != 1:
        last = f"The last recorded is turn {rows[-1]['id']}." if rows else "None is recorded yet."
        what = "several turns begin with" if found else "no recorded turn"
        raise UsageError(f"{what} {wanted!r}", fix=last)
    return found[0]


def beside(rows: Sequence[Any], row: Any, step: int) -> Any:
    """The turn before (-1) or after (1) ``row`` in its conversation, or None."""
    if row is None:
        return None
    scope = [one for one in rows if (one["chat_id"], one["thread_id"]) == (row["chat_id"], row["thread_id"])]
    at = next(index for index, one in enumerate(scope) if one["id"] == row["id"]) + step
    return scope[at] if 0 <= at < len(scope) else None


def by_invocation(agent: AgentHome, table: str, keys: Sequence[str]) -> Iterator[Mapping[str, Any]]:
    """Rows of ``table`` whose invocation is one of ``keys``."""
    for start in range(0, len(keys), 500):
        some = keys[start : start + 500]
        marks = ", ".join("?" * len(some))
        yield from rows_of(agent, f"SELECT * FROM {table} WHERE invocation_id IN ({marks})", *some)


def rows_of(agent: AgentHome, sql: str, *values: Any) -> list[Any]:
    """Rows of ``data.db``, none where there is no database yet."""
    try:
        with Store.open(agent.db_path, role="reader") as store:
            return list(store.rows(sql, *values))
    except StoreError:
        return []
