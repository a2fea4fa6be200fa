"""Claude Code's own transcripts as a data frame (contract, spec usage-and-baselines 3.1)."""

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from rightlab.usage.finding import Fault
from rightlab.usage.foreign import AGGREGATED
from rightlab.usage.importing import Costing, Imported, import_paths
from rightlab.usage.prices import PriceTable
from rightlab.usage.reading import Request, is_placeholder

if TYPE_CHECKING:
    import pandas

__all__ = ["read_transcripts", "to_frame"]


def read_transcripts(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    prices: PriceTable | None = None,
) -> tuple["pandas.DataFrame", list[Fault]]:
    """The requests in transcripts, each once, and what could not be read.

    ``paths``: files, or folders that are searched to the bottom for ``.jsonl``. A request is known by its
    message id, whichever files repeat it (resumed sessions, forks, sub-agents); of its rows the one with the
    most output counts. One row each, in order of time:

    ``message_id, request_id, ts`` (aware UTC, NaT when the row has no valid time),
    ``model, project`` (the record's working folder), ``session_id, agent_id, is_sidechain, version``, tokens
    (``input_tokens, output_tokens, cache_read_tokens, cache_write_5m_tokens, cache_write_1h_tokens``),
    ``web_search_requests, web_fetch_requests, cost_usd`` (list price in dollars, NaN when unknown),
    ``placeholder`` (an early release whose counts are not real), ``usage_differs`` (rows of this request
    disagree about the prompt), ``file, line`` (from 1).

    The errors have ``file``, ``line`` (None for a whole file) and ``error``, as keys and as attributes.

    Raises:
        UsageError: a path that is not there.
    """
    read = import_paths(paths)
    return to_frame(read, prices), read.faults()


def to_frame(read: Imported, prices: PriceTable | None = None) -> "pandas.DataFrame":
    """The requests of an import, as :func:`read_transcripts` describes them."""
    import pandas as pd

    costing = Costing(prices)
    requests = sorted((row for row in read.requests.values() if row.steps > AGGREGATED), key=_order)
    columns: dict[str, list[object]] = {
        "message_id": [row.key for row in requests],
        "request_id": [row.request_id for row in requests],
        "ts": [row.ts for row in requests],
        "model": [row.model for row in requests],
        "project": [row.project for row in requests],
        "session_id": [row.session for row in requests],
        "agent_id": [row.agent for row in requests],
        "is_sidechain": [row.sidechain for row in requests],
        "version": [row.version for row in requests],
        "input_tokens": [row.input for row in requests],
        "output_tokens": [row.output for row in requests],
        "cache_read_tokens": [row.read for row in requests],
        "cache_write_5m_tokens": [row.write_5m for row in requests],
        "cache_write_1h_tokens": [row.write_1h for row in requests],
        "web_search_requests": [row.searches for row in requests],
        "web_fetch_requests": [row.fetches for row in requests],
        "cost_usd": [None if row.searches else costing.cost(row)[0] for row in requests],
        "placeholder": [is_placeholder(row.version) for row in requests],
        "usage_differs": [row.differs for row in requests],
        "file": [row.file for row in requests],
        "line": [row.line for row in requests],
    }
    frame = pd.DataFrame(columns)
    frame["ts"] = pd.to_datetime(pd.Series(columns["ts"], dtype="Int64"), unit="us", utc=True)
    frame["cost_usd"] = frame["cost_usd"].astype("float64")
    for name in columns:
        if name.endswith("_tokens") or name.endswith("_requests") or name == "line":
            frame[name] = frame[name].astype("int64")
        elif name in ("is_sidechain", "placeholder", "usage_differs"):
            frame[name] = frame[name].astype("bool")
    return frame


def _order(row: Request) -> tuple[bool, int, str, int]:
    return (row.ts is None, row.ts or 0, row.file, row.line)
