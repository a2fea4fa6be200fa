"""A baseline for people: every percentile with its n, a P99 of few values only with its interval."""

from collections.abc import Callable
from typing import Any

from rightlab.html import Block, Column, Footer, Note, Page, Table, duration, money, plural
from rightlab.usage.baseline import Baseline
from rightlab.usage.intervals import percentile_interval
from rightlab.usage.percentiles import Summary

__all__ = ["FEW", "page", "written"]

FEW = 100
"""Below so many values the tail of a P99 holds less than one of them."""

_NAMES: tuple[tuple[str, str, Callable[[Any], str]], ...] = (
    ("cost_usd", "cost", money),
    ("num_turns", "steps", lambda value: f"{value:g}"),
    ("elapsed_ms", "elapsed", duration),
)


def page(baseline: Baseline) -> Page:
    """The page of ``baseline``: its metrics, and its parts when it was split."""
    name = f' · baseline "{baseline.name}"' if baseline.name else ""
    title = (
        f"{baseline.agent or 'costs'}{name} · {baseline.filters.words} · "
        f"{plural(baseline.days, 'whole day')} ({baseline.window}) · {baseline.window.tz}"
    )
    body: list[Block] = []
    if baseline.cost_usd is None:
        sentence = f"No baseline yet: {baseline.why_not}."
    else:
        middle, most = money(baseline.cost_usd.p50), money(baseline.cost_usd.p90)
        sentence = f"Half of them cost {middle} at most, nine of ten {most} at most."
    if baseline.unknown_costs:
        body.append(
            Note(
                f"The cost of {baseline.unknown_costs} of {plural(baseline.n, 'invocation')} is unknown and not in it.",
                kind="warning",
            )
        )
    body.append(_metrics(baseline))
    if baseline.by:
        body.append(_groups(baseline))
    footer = Footer(
        n=baseline.n,
        method=f"{baseline.method}, none below {baseline.min_sample}",
        as_of=baseline.made_at,
        zone=baseline.window.tz,
        more=(
            f"{plural(baseline.days_seen, 'day')} with turns",
            f"prices {', '.join(baseline.price_versions) or 'none'}",
        ),
        source="scripted model" if baseline.scripted and baseline.scripted == baseline.n else None,
    )
    return Page(title, sentence, *body, footer=footer)


def written(summary: Summary | None, q: str, values: tuple[float, ...], format: Callable[[Any], str]) -> str:
    """One percentile as text; below :data:`FEW` values a P99 has its interval with it."""
    value = None if summary is None else getattr(summary, q)
    if value is None or summary is None:
        return "–"
    if q != "p99" or summary.n >= FEW:
        return format(value)
    interval = percentile_interval(values, 0.99)
    low = "?" if interval.low is None else format(interval.low)
    high = "open" if interval.high is None else format(interval.high)
    return f"{format(value)} [{low}, {high}]"


def _metrics(baseline: Baseline) -> Table:
    rows = []
    for metric, name, format in _NAMES:
        summary = getattr(baseline, metric)
        values = baseline.values.get(metric, ())
        rows.append(
            {
                "metric": name,
                "n": baseline.counts.get(metric, 0),
                "least": format(values[0]) if summary is not None and values else "–",
                **{q: written(summary, q, values, format) for q in ("p50", "p90", "p99")},
                "most": format(values[-1]) if summary is not None and values else "–",
            }
        )
    columns = [
        Column("metric"),
        Column("n"),
        *(Column(key, align="right") for key in ("least",)),
        *(Column(q, q.upper(), align="right") for q in ("p50", "p90", "p99")),
        Column("most", align="right"),
    ]
    few = baseline.cost_usd is not None and baseline.cost_usd.n < FEW
    return Table(rows, columns, caption="Percentiles" + (" (P99 [95 % interval])" if few else ""))


def _groups(baseline: Baseline) -> Table:
    rows = []
    for key, part in baseline.groups.items():
        row: dict[str, Any] = dict(zip(baseline.by, key, strict=True))
        row["n"] = part.n
        for metric, name, format in _NAMES:
            summary = getattr(part, metric)
            for q in ("p50", "p90", *(("p99",) if metric == "cost_usd" else ())):
                row[f"{name} {q}"] = written(summary, q, part.values.get(metric, ()), format)
        rows.append(row)
    columns: list[Column | str] = [*baseline.by, "n"]
    columns += [
        Column(f"{name} {q}", f"{name} {q.upper()}", align="right")
        for _, name, _ in _NAMES
        for q in ("p50", "p90", *(("p99",) if name == "cost" else ()))
    ]
    return Table(rows, columns, caption=f"Baseline by {' and '.join(baseline.by)}", empty="No turns in it.")
