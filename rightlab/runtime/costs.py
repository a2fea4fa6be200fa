"""What invocations cost, as a page over the ledger: ``lab.costs()`` (spec views 03, design 10). Read only."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from rightlab.clock import Clock, SystemClock
from rightlab.errors import UsageError
from rightlab.home import AgentHome
from rightlab.html import (
    Block,
    Column,
    Empty,
    Footer,
    Page,
    Table,
    ago,
    duration,
    mimebundle,
    money,
    percent,
    plural,
    tokens,
    zone,
)
from rightlab.store import Store
from rightlab.usage import (
    LEARNING_SOURCES,
    METHOD,
    MIN_SAMPLE,
    PRICE_VERSION,
    Ledger,
    Summary,
    UsageRow,
    summarize,
)
from rightlab.usage.samples import skills_of

if TYPE_CHECKING:
    import pandas

__all__ = ["KEYS", "Costs", "Group", "read_costs"]

KEYS = ("source", "model", "day", "chat", "cron", "job", "session", "skill", "prompt")
"""What the ledger can be grouped by."""

DEAREST = 5
GAP = 0.01


@dataclass(frozen=True, slots=True)
class Group:
    """The invocations that share ``key`` (one value for each of ``by``). Money in US dollars, times in ms.

    ``cost_usd`` is the sum of what is known, None when nothing is; ``unknown`` counts the rows that are not in it.
    """

    key: tuple[str, ...]
    n: int
    cost_usd: float | None
    unknown: int
    cost: Summary
    steps: Summary
    elapsed: Summary
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int

    @property
    def cache_share(self) -> float | None:
        """Tokens read from the cache of all that were sent, 0..1; None when nothing was sent."""
        sent = self.input_tokens + self.cache_read_tokens + self.cache_write_tokens
        return self.cache_read_tokens / sent if sent else None


@dataclass(frozen=True, slots=True)
class Costs:
    """The ledger of one window, grouped: dearest group first, days in order."""

    agent: str
    days: int
    zone: str
    by: tuple[str, ...]
    sources: tuple[str, ...] | None
    groups: tuple[Group, ...]
    whole: Group
    dearest: tuple[UsageRow, ...]
    now: datetime
    newest: datetime | None
    scripted: int
    subscription: int
    unknown_models: tuple[str, ...] = ()
    price_gaps: int = 0
    """Invocations where the CLI's own figure and our table's are more than 1 % apart."""

    def to_json(self) -> dict[str, Any]:
        return {
            "agent": self.agent,
            "days": self.days,
            "zone": self.zone,
            "by": list(self.by),
            "method": METHOD,
            "min_sample": MIN_SAMPLE,
            "price_version": PRICE_VERSION,
            "groups": self._records(),
            "totals": _record(self.whole),
            "unknown_models": list(self.unknown_models),
            "price_gaps": self.price_gaps,
        }

    def to_frame(self) -> "pandas.DataFrame":
        """One row per group: the keys, n, cost_usd, unknown, P50/P90/P99 of cost, steps and elapsed ms, tokens."""
        import pandas as pd

        return pd.DataFrame(self._records())

    def _records(self) -> list[dict[str, Any]]:
        records = []
        for group in self.groups:
            records.append({**dict(zip(self.by, group.key, strict=True)), **_record(group)})
        return records

    def page(self) -> Page:
        what = "all sources"
        if self.sources is not None:
            what = "learning" if set(self.sources) == set(LEARNING_SOURCES) else ", ".join(self.sources)
        title = f"{self.agent} · costs · {what} · last {plural(self.days, 'day')} and today · {self.zone}"
        if not self.groups:
            fill = f"Nothing ran for {what} in it." if self.sources else "%%ask in a cell makes the first."
            return Page(title, empty=Empty("No invocation in this window.", fill))
        body: list[Block] = [self._groups(), self._dearest()]
        return Page(title, self._sentence(), *body, footer=self._footer())

    def _sentence(self) -> str:
        whole = self.whole
        said = f"{plural(whole.n, 'invocation')} cost {money(whole.cost_usd)}"
        if whole.unknown:
            said += f", {plural(whole.unknown, 'of them has', 'of them have')} no known price"
        said += "."
        if whole.cost.sufficient:
            cost = " / ".join(money(value) for value in (whole.cost.p50, whole.cost.p90, whole.cost.p99))
            steps = " / ".join(
                f"{value:g}" for value in (whole.steps.p50, whole.steps.p90) if value is not None
            )
            return f"{said} P50 / P90 / P99 of one: {cost}; steps {steps} (P50 / P90)."
        return f"{said} Percentiles need {MIN_SAMPLE} of them."

    def _groups(self) -> Table:
        rows = []
        for group in self.groups:
            row: dict[str, Any] = dict(zip(self.by, group.key, strict=True))
            row.update(
                n=group.n,
                total=_total(group),
                p50=group.cost.p50,
                p90=group.cost.p90,
                p99=group.cost.p99,
                steps=group.steps.p50,
                elapsed=group.elapsed.p50,
                sent=group.input_tokens + group.cache_read_tokens + group.cache_write_tokens,
                cached=group.cache_share,
                written=group.output_tokens,
            )
            rows.append(row)
        columns = [
            *(Column(key) for key in self.by),
            Column("n"),
            Column("total", align="right"),
            *(
                Column(q, f"cost {q.upper()}", align="right", format=_known(money))
                for q in ("p50", "p90", "p99")
            ),
            Column("steps", "steps P50", align="right"),
            Column("elapsed", "took P50", align="right", format=_known(duration)),
            Column("sent", "tokens sent", align="right", format=tokens),
            Column("cached", "from cache", align="right", format=_known(percent)),
            Column("written", "tokens written", align="right", format=tokens),
        ]
        return Table(rows, columns, caption=f"By {' and '.join(self.by)}")

    def _dearest(self) -> Table:
        rows = [
            {
                "when": ago(row.at, self.now),
                "source": row.source,
                "model": row.model,
                "cost": row.total_cost_usd,
                "steps": row.num_turns,
                "took": row.wall_elapsed_ms,
                "read": row.cache_read_tokens,
                "write": row.cache_creation_tokens,
                "turn": row.run_id or (row.turn_id or "")[:8],
            }
            for row in self.dearest
        ]
        columns: list[Column | str] = [
            *("when", "source", "model", Column("cost", align="right", format=money), "steps"),
            Column("took", align="right", format=_known(duration)),
            Column("read", "cache read", align="right", format=tokens),
            Column("write", "cache written", align="right", format=tokens),
            Column("turn", "turn or run"),
        ]
        return Table(rows, columns, caption="Dearest invocations", total=self.whole.n, row_headers=False)

    def _footer(self) -> Footer:
        more = [f"prices {PRICE_VERSION}"]
        if self.unknown_models:
            more.append(f"no known price: {', '.join(self.unknown_models)}")
        if self.price_gaps:
            more.append(f"{self.price_gaps} where the CLI's figure and the table's are over 1 % apart")
        if self.subscription:
            more.append("subscription use is shown API-equivalent")
        source = None
        if self.scripted:
            share = "" if self.scripted == self.whole.n else f" in {self.scripted} of {self.whole.n}"
            source = f"scripted model{share}"
        return Footer(
            n=self.whole.n,
            method=f"percentiles: {METHOD}, none below {MIN_SAMPLE}",
            as_of=self.newest,
            now=self.now,
            zone=self.zone,
            source=source,
            more=tuple(more),
        )

    def text(self) -> str:
        return self.page().text()

    def __repr__(self) -> str:
        return f"<Costs of {self.agent!r}: {self.whole.n} in {self.days} days, by {', '.join(self.by)}>"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return mimebundle(self, self.page(), include, exclude)


def read_costs(
    agent: AgentHome,
    *,
    days: int = 14,
    by: str | Sequence[str] = "source",
    sources: str | Iterable[str] | None = None,
    tz: str | None = None,
    clock: Clock | None = None,
) -> Costs:
    """The ledger of the last ``days`` whole days and today in ``tz`` (default: the agent's zone), grouped by ``by``.

    ``by`` is one or several of :data:`KEYS` ("source,model" works too); ``sources`` keeps these sources only.
    Raises UsageError, StoreError.
    """
    keys = tuple(by.replace(" ", "").split(",")) if isinstance(by, str) else tuple(by)
    unknown = [key for key in keys if key not in KEYS]
    if unknown or not keys or len(set(keys)) < len(keys):
        raise UsageError(
            f"costs cannot be grouped by {by!r}", fix=f"Use one or several of {', '.join(KEYS)}."
        )
    if days < 0:
        raise UsageError(f"days is {days}", fix="0 is today alone, 14 two weeks more.")
    wanted = None if sources is None else (sources,) if isinstance(sources, str) else tuple(sources)
    clock = clock or SystemClock()
    where = zone(tz or agent.config().timezone)
    now = clock.now()
    first = now.astimezone(where).date() - timedelta(days=days)
    since = datetime(first.year, first.month, first.day, tzinfo=where)
    with Store.open(agent.db_path, role="reader") as store:
        rows = Ledger(store, clock).rows(since=since, sources=wanted)

    grouped: dict[tuple[str, ...], list[UsageRow]] = {}
    for row in rows:
        for key in _keys_of(row, keys, where):
            grouped.setdefault(key, []).append(row)
    groups = [_group(key, members) for key, members in grouped.items()]
    if keys[0] == "day":
        groups.sort(key=lambda group: group.key)
    else:
        groups.sort(key=lambda group: (-(group.cost_usd or 0.0), group.key))
    priced = [row for row in rows if row.total_cost_usd is not None]
    dearest = sorted(priced, key=lambda row: (-(row.total_cost_usd or 0.0), row.id))[:DEAREST]
    return Costs(
        agent=agent.name,
        days=days,
        zone=where.key,
        by=keys,
        sources=wanted,
        groups=tuple(groups),
        whole=_group((), rows),
        dearest=tuple(dearest),
        now=now,
        newest=rows[-1].at if rows else None,
        scripted=sum(row.scripted for row in rows),
        subscription=sum(row.api_key_source == "none" and not row.scripted for row in rows),
        unknown_models=tuple(sorted({row.model or "unknown" for row in rows if row.total_cost_usd is None})),
        price_gaps=sum((row.price_gap or 0.0) > GAP for row in rows),
    )


def _record(group: Group) -> dict[str, Any]:
    record: dict[str, Any] = {"n": group.n, "cost_usd": group.cost_usd, "unknown": group.unknown}
    for name, summary in (("cost", group.cost), ("steps", group.steps), ("elapsed_ms", group.elapsed)):
        record.update({f"{name}_{q}": getattr(summary, q) for q in ("p50", "p90", "p99")})
    for name in ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens"):
        record[name] = getattr(group, name)
    record["cache_hit_ratio"] = group.cache_share
    return record


def _keys_of(row: UsageRow, keys: Sequence[str], where: ZoneInfo) -> list[tuple[str, ...]]:
    """The groups ``row`` is in: one, with ``skill`` one for each skill it used."""
    values = {
        "source": row.source,
        "model": row.model or "unknown",
        "day": row.at.astimezone(where).date().isoformat(),
        "chat": "–" if row.chat_id is None else str(row.chat_id),
        "cron": row.job_name or "–",
        "job": row.job_name or "–",
        "session": row.session_uuid or "–",
        "prompt": (row.prompt_sha256 or "unknown")[:12],
    }
    found: list[tuple[str, ...]] = [()]
    for key in keys:
        parts = (skills_of(row.skills_json) or ("–",)) if key == "skill" else (values[key],)
        found = [(*done, part) for done in found for part in parts]
    return found


def _group(key: tuple[str, ...], rows: Sequence[UsageRow]) -> Group:
    known = [row.total_cost_usd for row in rows if row.total_cost_usd is not None]
    return Group(
        key=key,
        n=len(rows),
        cost_usd=math.fsum(known) if known else None,
        unknown=len(rows) - len(known),
        cost=summarize(known),
        steps=summarize(float(row.num_turns) for row in rows),
        elapsed=summarize(
            None if row.wall_elapsed_ms is None else float(row.wall_elapsed_ms) for row in rows
        ),
        input_tokens=sum(row.input_tokens for row in rows),
        output_tokens=sum(row.output_tokens for row in rows),
        cache_read_tokens=sum(row.cache_read_tokens for row in rows),
        cache_write_tokens=sum(row.cache_creation_tokens for row in rows),
    )


def _total(group: Group) -> str:
    """The known sum; rows whose price is unknown are counted beside it, never taken as zero."""
    known = money(group.cost_usd)
    return f"{known} + {group.unknown} unknown" if group.unknown and group.cost_usd is not None else known


def _known(format: Callable[[Any], str]) -> Callable[[Any], str]:
    """``format``, but a percentile that is not there is a dash: too few values is not "unknown"."""
    return lambda value: "–" if value is None else format(value)
