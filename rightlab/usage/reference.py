"""The ``usage_events`` of a Right Agent ``data.db`` (spec agent-runtime 3.4, usage-and-baselines 3.5).

One row for each invocation, which may be several requests to the model; of several models if it says so.
"""

import json
import math
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from rightlab.errors import StoreError
from rightlab.store.copies import MAGIC, read_copy
from rightlab.usage.prices import tokens_of
from rightlab.usage.reading import MAX_TOTAL, Request, clean

__all__ = ["INVOCATION", "is_database", "requests_of_database"]

INVOCATION = "right:"
"""How the keys of these rows begin; up to the ``|`` they name the invocation."""


def is_database(path: str) -> bool:
    """Whether a file is a SQLite database; False for one that cannot be read."""
    try:
        with open(path, "rb") as stream:
            return stream.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def requests_of_database(path: str) -> Iterator[tuple[Request, bool] | str]:
    """The rows of the table, each with whether a person asked for it; or what is wrong with one."""
    try:
        rows = read_copy(path, "SELECT * FROM usage_events ORDER BY id")
    except StoreError as error:
        yield error.message
        return
    for row in rows:
        try:
            for request in _requests(row, clean(path)):
                yield request, row.get("source") == "interactive"
        except (TypeError, ValueError, OverflowError, AttributeError) as error:
            yield f"usage_events {row.get('id')}: {error}"


def _requests(row: Mapping[str, Any], path: str) -> list[Request]:
    at = datetime.fromisoformat(str(row["ts"]))
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    ts = round(at.timestamp() * 1e6)
    told = json.loads(row.get("model_usage_json") or "{}")
    models = {name: one for name, one in told.items() if isinstance(one, dict)}
    parts: Mapping[str, Mapping[str, Any]] = (
        models if len(models) > 1 else {next(iter(models), "unknown"): row}
    )
    total = row.get("total_cost_usd")
    steps = row.get("num_turns")
    key = f"{INVOCATION}{row.get('session_uuid')}:{row['ts']}:{row.get('id')}"
    made = []
    for model, entry in parts.items():
        tokens = tokens_of(entry)
        counts = (tokens.input, tokens.output, tokens.read, tokens.write_5m, tokens.write_1h)
        if min(counts) < 0 or max(counts) > MAX_TOTAL:
            raise ValueError(f"counts that cannot be: {counts}")
        cost = entry.get("costUSD") if len(parts) > 1 else total
        made.append(
            Request(
                key=clean(f"{key}|{model}"),
                file=path,
                line=int(row.get("id") or 0),
                ts=ts,
                model=clean(model),
                project=None,
                session=clean(str(row["session_uuid"])) if row.get("session_uuid") else None,
                agent=None,
                sidechain=False,
                version=None,
                request_id=None,
                input=tokens.input,
                output=tokens.output,
                read=tokens.read,
                write_5m=tokens.write_5m,
                write_1h=tokens.write_1h,
                # The searches are in its own cost.
                searches=0,
                fetches=int(row.get("web_fetch_requests") or 0),
                standard=not row.get("web_search_requests"),
                differs=False,
                cost=float(cost) if isinstance(cost, int | float) and math.isfinite(cost) else None,
                steps=steps if isinstance(steps, int) and steps > 1 else 1,
            )
        )
    return made
