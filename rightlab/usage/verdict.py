"""Cheaper, dearer, or cannot tell: one window of turns against another (spec usage-and-baselines 2, 4.5)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from rightlab.errors import RunError, UsageError
from rightlab.html import Column, Footer, Page, Table, duration, mimebundle, money, plural
from rightlab.usage.baseline import METRICS, Baseline
from rightlab.usage.intervals import LEVEL, REPEATS, Change, change_of
from rightlab.usage.percentiles import percentile

if TYPE_CHECKING:
    import pandas

__all__ = ["FLOOR_USD", "Outcome", "Verdict", "compare"]

Outcome = Literal["cheaper", "dearer", "cannot tell"]

FLOOR_USD = 0.05
"""Less than so much money over the whole window is worth no alarm (the curator's floor, spec agent-runtime 6.11)."""


@dataclass(frozen=True, eq=False)
class Verdict:
    """What :func:`compare` found. ``change`` is that of the median cost, ``changes`` those of all metrics.

    ``reason`` says why in words; ``notes`` what else changed between the two (model, prompt, prices).
    """

    outcome: Outcome
    reason: str
    change: Change | None
    changes: Mapping[str, Change | None]
    reference: Baseline
    current: Baseline
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Not dearer."""
        return self.outcome != "dearer"

    @property
    def sentence(self) -> str:
        name = f' than baseline "{self.reference.name}"' if self.reference.name else ""
        if self.outcome == "cannot tell":
            against = f' (baseline "{self.reference.name}")' if self.reference.name else ""
            return f"Cannot tell{against}: {self.reason}."
        return f"{self.outcome.capitalize()}{name}: {self.reason}."

    def require(self, *, strict: bool = False) -> None:
        """Raises RunError when dearer, with ``strict`` also when it cannot be told."""
        if self.outcome == "dearer" or (strict and self.outcome == "cannot tell"):
            raise RunError(
                self.sentence.rstrip("."),
                fix="Look for the cause with lab.divergence(), or save a new baseline if it is meant to be so.",
            )

    def to_json(self) -> dict[str, Any]:
        return {
            "verdict": self.outcome,
            "reason": self.reason,
            "change": _change_json(self.change),
            "changes": {metric: _change_json(change) for metric, change in self.changes.items()},
            "level": LEVEL,
            "repeats": REPEATS,
            "notes": list(self.notes),
            "baseline": _brief(self.reference),
            "current": _brief(self.current),
        }

    def to_frame(self) -> "pandas.DataFrame":
        """One row per metric: P50 before and now, the change and its interval as shares."""
        import pandas as pd

        return pd.DataFrame(self._rows())

    def _rows(self) -> list[dict[str, Any]]:
        rows = []
        for metric in METRICS:
            change = self.changes.get(metric)
            rows.append(
                {
                    "metric": metric,
                    "before": _p50(self.reference, metric),
                    "now": _p50(self.current, metric),
                    "change": None if change is None else change.share,
                    "low": None if change is None else change.low,
                    "high": None if change is None else change.high,
                }
            )
        return rows

    def page(self) -> Page:
        rows = [
            {
                **row,
                "before": _written(row["metric"], row["before"]),
                "now": _written(row["metric"], row["now"]),
                "change": "–" if (change := self.changes.get(row["metric"])) is None else str(change),
            }
            for row in self._rows()
        ]
        columns = [
            Column("metric"),
            Column("before", "P50 in the baseline", align="right"),
            Column("now", "P50 now", align="right"),
            Column("change", "change [95 % interval]", align="right"),
        ]
        title = f"{self.current.agent or 'costs'} · {self.current.filters.words} · {self.current.window}"
        footer = Footer(
            n=self.current.n,
            method=f"{self.current.method}; bootstrap of the medians, {REPEATS} draws, fixed seed",
            more=(f"baseline: n = {self.reference.n}, {self.reference.window}", *self.notes),
            zone=self.current.window.tz,
        )
        return Page(title, self.sentence, Table(rows, columns, caption="Against the baseline"), footer=footer)

    def text(self) -> str:
        return self.page().text()

    def __repr__(self) -> str:
        return f"<Verdict {self.sentence}>"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return mimebundle(self, self.page(), include, exclude)


def compare(
    reference: Baseline, current: Baseline, *, floor_usd: float = FLOOR_USD, tolerance: float = 0.0
) -> Verdict:
    """Whether ``current`` costs more than ``reference`` by the median of one invocation.

    A verdict needs both samples, a baseline that is not zero, an interval that leaves out no change (and up to
    ``tolerance``, a share), and at least ``floor_usd`` between them over the whole window of ``current``.
    """
    if floor_usd < 0 or tolerance < 0:
        raise UsageError("the floor and the tolerance of a comparison are not negative")
    changes = {metric: _change(reference, current, metric) for metric in METRICS}
    notes = tuple(_notes(reference, current))

    def verdict(outcome: Outcome, reason: str) -> Verdict:
        return Verdict(outcome, reason, changes["cost_usd"], changes, reference, current, notes)

    if reference.cost_usd is None:
        return verdict("cannot tell", f"the baseline has no percentiles ({reference.why_not})")
    known = current.counts.get("cost_usd", 0)
    if known < current.min_sample:
        return verdict(
            "cannot tell", f"{known} invocations of known cost since, it takes {current.min_sample}"
        )
    change = changes["cost_usd"]
    if change is None:
        return verdict("cannot tell", "the baseline is zero, and nothing is a share of nothing")
    before, now = _p50(reference, "cost_usd") or 0.0, _p50(current, "cost_usd") or 0.0
    said = f"the median cost went from {money(before)} to {money(now)}, {change}"
    if change.low <= tolerance and change.high >= -tolerance:
        return verdict("cannot tell", f"{said}, which may be chance at n = {known}")
    if abs(now - before) * known < floor_usd:
        return verdict("cannot tell", f"{said}, less than {money(floor_usd)} in all")
    return verdict("dearer" if change.share > 0 else "cheaper", said)


def _change(reference: Baseline, current: Baseline, metric: str) -> Change | None:
    before, after = reference.values.get(metric, ()), current.values.get(metric, ())
    sizes = reference.counts.get(metric, 0), current.counts.get(metric, 0)
    if not before or not after or min(sizes) < current.min_sample:
        return None
    return change_of(before, after, 0.5, sizes=sizes)


def _notes(reference: Baseline, current: Baseline) -> list[str]:
    notes = []
    for what, old, new in (
        ("model", reference.models, current.models),
        ("prompt", reference.prompts, current.prompts),
    ):
        if old and new and next(iter(old)) != next(iter(new)):
            notes.append(f"another {what}: {next(iter(old))[:40]} before, {next(iter(new))[:40]} now")
    if current.n and set(current.price_versions) - set(reference.price_versions):
        notes.append(
            f"prices {', '.join(reference.price_versions)} before, {', '.join(current.price_versions)} now"
        )
    if current.unknown_costs:
        notes.append(f"{plural(current.unknown_costs, 'invocation')} of unknown cost left out")
    shared = min(reference.window.last, current.window.last) - max(
        reference.window.first, current.window.first
    )
    if shared.days >= 0 and reference.agent == current.agent:
        notes.append(f"the windows share {plural(shared.days + 1, 'day')}")
    return notes


def _p50(baseline: Baseline, metric: str) -> float | None:
    values = baseline.values.get(metric)
    summary = getattr(baseline, metric)
    if summary is not None:
        found: float | None = summary.p50
        return found
    return percentile(values, 0.5) if values and len(values) >= baseline.min_sample else None


def _written(metric: str, value: float | None) -> str:
    if value is None:
        return "–"
    if metric == "cost_usd":
        return money(value)
    return duration(value) if metric == "elapsed_ms" else f"{value:g}"


def _change_json(change: Change | None) -> dict[str, float | None] | None:
    """A bound that is open (the baseline may well be zero) is null: JSON knows no infinity."""
    if change is None:
        return None
    bounds = {"share": change.share, "low": change.low, "high": change.high}
    return {name: value if math.isfinite(value) else None for name, value in bounds.items()}


def _brief(baseline: Baseline) -> dict[str, Any]:
    found = baseline.to_json()
    for metric in METRICS:
        if found[metric]:
            found[metric].pop("values", None)
    return found
