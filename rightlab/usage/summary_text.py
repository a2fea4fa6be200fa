"""The text of ``/usage`` and ``/usage detail`` in a chat: Telegram HTML, days in UTC (spec agent-runtime 12.3)."""

import json
import math
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

from rightlab.html import count, escape, percent, plural, tokens
from rightlab.usage.rows import LEARNING_SOURCES, UsageRow
from rightlab.usage.spikes import cache_hit_ratio

__all__ = ["usage_text"]

_GROUPS: tuple[tuple[str, tuple[str, ...], str, str], ...] = (
    ("Interactive", ("interactive",), "session", "sessions"),
    ("Cron", ("cron",), "run", "runs"),
    ("Reflection", ("reflection",), "pass", "passes"),
    ("Learning", LEARNING_SOURCES, "pass", "passes"),
)
_MODELS = 5


def usage_text(rows: Sequence[UsageRow], now: datetime, *, detail: bool = False) -> str:
    """What ``rows`` (the whole ledger) cost today, in the last 7 and 30 days and in all; ``now`` is aware.

    Costs are list prices; what a subscription covers is named as such. ``detail`` adds the tokens. Valid Telegram HTML.
    """
    midnight = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    windows: tuple[tuple[str, datetime | None], ...] = (
        ("Today", midnight),
        ("Last 7 days", now - timedelta(days=7)),
        ("Last 30 days", now - timedelta(days=30)),
        ("All time", None),
    )
    parts = ["<b>Usage</b> · list prices · UTC"]
    timed = [(row.at, row) for row in rows]
    for title, since in windows:
        members = [row for at, row in timed if since is None or at >= since]
        parts.append("\n".join(_window(title, members, detail)))
    return "\n\n".join(parts)


def _window(title: str, rows: Sequence[UsageRow], detail: bool) -> list[str]:
    if not rows:
        return [f"<b>{title}</b>: nothing"]
    steps = sum(row.num_turns for row in rows)
    lines = [f"<b>{title}</b>: {_cost(rows)} · {plural(steps, 'turn')}"]
    named: set[str] = set()
    for name, sources, one, many in _GROUPS:
        named.update(sources)
        members = [row for row in rows if row.source in sources]
        if members:
            n = len({row.session_uuid for row in members}) if name == "Interactive" else len(members)
            lines.append(f"{name}: {_cost(members)} · {plural(n, one, many)}")
    rest = [row for row in rows if row.source not in named]
    if rest:
        lines.append(f"Other: {_cost(rest)} · {plural(len(rest), 'call')}")
    models = _models(rows)
    if models:
        shown = [f"{escape(name)} {_money(cost)}" for name, cost in models[:_MODELS]]
        more = f" and {len(models) - _MODELS} more" if len(models) > _MODELS else ""
        lines.append(f"Models: {' · '.join(shown)}{more}")
    ratio = cache_hit_ratio(rows)
    lines.append(f"Cache hit: {'n/a' if ratio is None else percent(ratio)}")
    searches = sum(row.web_search_requests for row in rows)
    fetches = sum(row.web_fetch_requests for row in rows)
    if searches or fetches:
        lines.append(f"Web: {plural(searches, 'search', 'searches')} · {plural(fetches, 'fetch', 'fetches')}")
    covered = [row for row in rows if row.api_key_source == "none"]
    billed = [row for row in rows if row.api_key_source not in (None, "none")]
    if covered or billed:
        said = [f"Subscription: {_cost(covered)} (what the API would cost, no bill)"] if covered else []
        said += [f"API: {_cost(billed)}"] if billed else []
        lines.append(" · ".join(said))
    if detail:
        lines.append(
            f"Tokens: {tokens(sum(row.input_tokens for row in rows))} new in"
            f" · {tokens(sum(row.output_tokens for row in rows))} out"
            f" · {tokens(sum(row.cache_creation_tokens for row in rows))} cache-created"
            f" · {tokens(sum(row.cache_read_tokens for row in rows))} cache-read"
        )
    return lines


def _cost(rows: Iterable[UsageRow]) -> str:
    costs = [row.total_cost_usd for row in rows]
    known = [cost for cost in costs if cost is not None]
    unknown = len(costs) - len(known)
    if unknown and not known:
        return "cost unknown"
    return _money(math.fsum(known)) + (f" + {count(unknown)} of unknown cost" if unknown else "")


def _money(usd: float | None) -> str:
    if usd is None:
        return "cost unknown"
    if 0 < usd < 0.01:
        return "&lt;$0.01"
    return f"${usd:,.2f}"


def _models(rows: Iterable[UsageRow]) -> list[tuple[str, float | None]]:
    """Models and what they cost, dearest first, unknown last; a row of several models is split by its own figures."""
    known: dict[str, list[float]] = {}
    names: set[str] = set()
    for row in rows:
        for name, cost in _parts(row):
            names.add(name)
            if cost is not None:
                known.setdefault(name, []).append(cost)
    found = [(name, math.fsum(known[name]) if name in known else None) for name in names]
    return sorted(found, key=lambda pair: (pair[1] is None, -(pair[1] or 0.0), pair[0]))


def _parts(row: UsageRow) -> list[tuple[str, float | None]]:
    try:
        models = json.loads(row.model_usage_json or "{}")
    except ValueError:
        models = {}
    if isinstance(models, dict) and len(models) > 1:
        costs = {
            name: entry.get("costUSD") if isinstance(entry, dict) else None for name, entry in models.items()
        }
        return [
            (name, float(cost) if isinstance(cost, int | float) else None) for name, cost in costs.items()
        ]
    return [(row.model or "unknown model", row.total_cost_usd)]
