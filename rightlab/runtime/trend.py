"""Costs over time for people: the band of P50 to P90 by day, who spent it, how much came from the cache (views 03)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from rightlab.clock import Clock, SystemClock
from rightlab.home import AgentHome
from rightlab.html import Column, Footer, Page, Table, mimebundle, money, percent, plural, tokens
from rightlab.runtime.costs import Group, read_costs
from rightlab.store import Store
from rightlab.usage.baseline import Baseline, measure
from rightlab.usage.percentiles import METHOD, MIN_SAMPLE
from rightlab.usage.rows import Day
from rightlab.usage.samples import Filters
from rightlab.usage.spikes import FACTOR, Spike, spiky_days
from rightlab.usage.windows import last_days

if TYPE_CHECKING:
    import pandas

__all__ = ["Plot", "Trend", "read_trend"]


@dataclass(frozen=True, eq=False)
class Plot:
    """A chart where charts are drawn, and its table everywhere else."""

    chart: Any
    """A Vega-Lite chart of altair."""
    page: Page

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        import altair as alt

        bundle = {"text/plain": self.page.text(), "text/html": self.page.html()}
        major = alt.SCHEMA_VERSION.lstrip("v").partition(".")[0]
        return {f"application/vnd.vegalite.v{major}+json": self.chart.to_dict(), **bundle}

    def __repr__(self) -> str:
        return self.page.text()


@dataclass(frozen=True, eq=False)
class Trend:
    """Each day of the window, today last (it is not over): percentiles of one invocation, sums, cache shares."""

    agent: str
    baseline: Baseline
    by_source: tuple[Group, ...]
    by_day: tuple[Group, ...]
    spikes: tuple[Spike, ...]
    now: datetime

    def to_frame(self) -> "pandas.DataFrame":
        """One row per day: n, cost_usd (known), unknown, P50, P90 and P99 of the cost, cache_hit_ratio, and tokens."""
        import pandas as pd

        return pd.DataFrame(self._records())

    def _records(self) -> list[dict[str, Any]]:
        records = []
        for group in self.by_day:
            records.append(
                {
                    "day": group.key[0],
                    "n": group.n,
                    "cost_usd": group.cost_usd,
                    "unknown": group.unknown,
                    "p50": group.cost.p50,
                    "p90": group.cost.p90,
                    "p99": group.cost.p99,
                    "cache_hit_ratio": group.cache_share,
                    "input_tokens": group.input_tokens,
                    "cache_write_tokens": group.cache_write_tokens,
                    "cache_read_tokens": group.cache_read_tokens,
                    "output_tokens": group.output_tokens,
                }
            )
        return records

    def ribbon(self) -> Plot:
        """The band from P50 to P90 of the cost by day; days of fewer than 20 have no band."""
        import altair as alt

        band = [
            {"day": record["day"], "p50": record["p50"], "p90": record["p90"]}
            for record in self._records()
            if record["p50"] is not None
        ]
        base = alt.Chart(alt.Data(values=band)).encode(x=alt.X("day:T", title=None))
        area = base.mark_area(opacity=0.3).encode(
            y=alt.Y("p50:Q", title="cost of one, US dollars, P50 to P90"), y2="p90:Q"
        )
        line = base.mark_line(point=True).encode(y="p50:Q")
        chart = (area + line).properties(width=600, height=160, title="P50 to P90 by day")
        return Plot(chart, self.page())

    def river(self) -> Plot:
        """Each day's cost stacked by source."""
        import altair as alt

        values = [
            {"day": group.key[0], "source": group.key[1], "cost": group.cost_usd}
            for group in self.by_source
            if group.cost_usd is not None
        ]
        chart = (
            alt.Chart(alt.Data(values=values))
            .mark_bar()
            .encode(
                x=alt.X("day:T", timeUnit="utcyearmonthdate", title=None),
                y=alt.Y("cost:Q", title="US dollars"),
                color=alt.Color("source:N", title="source"),
            )
            .properties(width=600, height=160, title="Cost by day and source")
        )
        rows = [
            {"day": group.key[0], "source": group.key[1], "n": group.n, "cost": group.cost_usd}
            for group in self.by_source
        ]
        columns = [Column("day"), Column("source"), Column("n"), Column("cost", align="right", format=money)]
        page = Page(
            self._title("cost by day and source"),
            "",
            Table(rows, columns, caption="Cost by day and source", empty="Nothing ran in it."),
        )
        return Plot(chart, page)

    def page(self) -> Page:
        said = [
            f"{spike.day} cost {money(spike.cost_usd)}, {spike.times:.1f} times the median day"
            for spike in self.spikes
        ]
        sentence = (
            f"{'; '.join(said)}." if said else f"No day cost {FACTOR:g} times the median of the others."
        )
        columns = [
            Column("day"),
            Column("n"),
            Column("cost_usd", "total", align="right", format=money),
            *(Column(q, f"cost {q.upper()}", align="right", format=_or_dash) for q in ("p50", "p90", "p99")),
            Column("cache_hit_ratio", "from cache", align="right", format=_share),
            Column("input_tokens", "new", align="right", format=tokens),
            Column("cache_write_tokens", "cache written", align="right", format=tokens),
            Column("cache_read_tokens", "cache read", align="right", format=tokens),
        ]
        keys = [column.key for column in columns]
        rows = [{key: record[key] for key in keys} for record in self._records()]
        footer = Footer(
            n=self.baseline.n,
            method=f"percentiles: {METHOD}, none below {MIN_SAMPLE}",
            now=self.now,
            zone=self.baseline.window.tz,
            more=("from cache: read / (input + write + read)",),
        )
        return Page(
            self._title("by day"),
            sentence,
            Table(rows, columns, caption="By day", empty="Nothing ran in it."),
            footer=footer,
        )

    def _title(self, what: str) -> str:
        window = self.baseline.window
        return f"{self.agent} · {what} · {self.baseline.filters.words} · {plural(len(window), 'day')} · {window.tz}"

    def text(self) -> str:
        return self.page().text()

    def __repr__(self) -> str:
        return f"<Trend of {self.agent!r}: {self.baseline.filters.words}, {len(self.by_day)} days>"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return mimebundle(self, self.page(), include, exclude)


def read_trend(
    agent: AgentHome,
    *,
    days: int = 14,
    source: str | Sequence[str] | None = "interactive",
    tz: str | None = None,
    clock: Clock | None = None,
) -> Trend:
    """The last ``days`` whole days and today of ``source`` (None: all) in ``tz``. Raises UsageError, StoreError."""
    clock = clock or SystemClock()
    now = clock.now()
    where = tz or agent.config().timezone
    filters = Filters(source=source if source is None or isinstance(source, str) else tuple(source))
    window = last_days(days, where, now, today=True)
    with Store.open(agent.db_path, role="reader") as store:
        baseline = measure(store, window, filters, made_at=now, agent=agent.name)
    asked: dict[str, Any] = {"days": days, "sources": filters.sources, "tz": where, "clock": clock}
    by_day = read_costs(agent, by="day", **asked).groups
    by_source = read_costs(agent, by=("day", "source"), **asked).groups
    sums = [
        Day(
            datetime.fromisoformat(group.key[0]).date(), group.n, group.cost_usd, group.unknown, 0, 0, 0, 0, 0
        )
        for group in by_day
    ]
    return Trend(agent.name, baseline, by_source, by_day, tuple(spiky_days(sums, today=window.last)), now)


def _or_dash(value: float | None) -> str:
    return "–" if value is None else money(value)


def _share(value: float | None) -> str:
    return "n/a" if value is None else percent(value)
