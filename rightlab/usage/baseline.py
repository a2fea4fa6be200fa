"""What a turn usually costs: percentiles over whole days that are over (spec usage-and-baselines 2, design 10)."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rightlab.clock import Clock, SystemClock
from rightlab.errors import UsageError
from rightlab.store import Store
from rightlab.usage.percentiles import METHOD, MIN_SAMPLE, Summary, summarize
from rightlab.usage.prices import PRICE_VERSION
from rightlab.usage.samples import KEYS, Filters, Sample, read_samples
from rightlab.usage.windows import Days, last_days

if TYPE_CHECKING:
    import pandas

    from rightlab.html import Page
    from rightlab.usage.verdict import Verdict

__all__ = ["METRICS", "MIN_DAYS", "Baseline", "baseline_of", "measure"]

METRICS = ("cost_usd", "num_turns", "elapsed_ms")
MIN_DAYS = 3
"""So many earlier days with turns make a baseline; fewer are an accident (claude-code-hermit PR#821)."""


@dataclass(frozen=True, eq=False)
class Baseline:
    """What the invocations of a window cost. Money in US dollars, times in ms, ``num_turns`` in steps.

    ``n`` counts the invocations; each of ``cost_usd``, ``num_turns`` and ``elapsed_ms`` is None or has ``p50``,
    ``p90``, ``p99`` and an ``n`` of its own (a cost may be unknown, and only some rows have a time). ``values`` has
    the sorted values of each, or quantiles of them when it was read from a file. ``groups`` are the parts when it
    was asked ``by`` something.
    """

    n: int
    cost_usd: Summary | None
    num_turns: Summary | None
    elapsed_ms: Summary | None
    window: Days
    filters: Filters
    days_seen: int
    made_at: datetime
    models: Mapping[str, int] = field(default_factory=dict)
    prompts: Mapping[str, int] = field(default_factory=dict)
    price_versions: tuple[str, ...] = (PRICE_VERSION,)
    scripted: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    values: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    min_sample: int = MIN_SAMPLE
    min_days: int = MIN_DAYS
    by: tuple[str, ...] = ()
    groups: Mapping[tuple[str, ...], "Baseline"] = field(default_factory=dict)
    agent: str | None = None
    name: str | None = None
    folder: Path | None = None
    method: str = METHOD

    @property
    def days(self) -> int:
        return len(self.window)

    @property
    def unknown_costs(self) -> int:
        """Invocations whose cost is not known; they are in ``n``, not in ``cost_usd``."""
        return self.n - self.counts.get("cost_usd", 0)

    @property
    def why_not(self) -> str | None:
        """Why there are no percentiles of the cost; None when there are."""
        if self.cost_usd is not None:
            return None
        if self.n < self.min_sample:
            return f"{self.n} of the {self.min_sample} invocations it takes"
        if self.days_seen < self.min_days:
            return f"{self.days_seen} of the {self.min_days} earlier days it takes"
        known = self.counts.get("cost_usd", 0)
        return f"the cost of {known} invocations is known, it takes {self.min_sample}"

    def compare(self, reference: "Baseline | str | PathLike[str]", **rules: Any) -> "Verdict":
        """Whether this window is cheaper or dearer than ``reference``: a baseline, a file, the name of a saved one.

        Rules: see :func:`rightlab.usage.verdict.compare`. Raises UsageError (no such baseline, a damaged file).
        """
        from rightlab.usage.verdict import compare

        return compare(self._resolve(reference), self, **rules)

    def assert_within(
        self, reference: "Baseline | str | PathLike[str]" = "main", *, strict: bool = False, **rules: Any
    ) -> "Verdict":
        """The verdict against ``reference``; a cron notebook that became dearer fails at this line.

        ``strict``: also when it cannot be told. Raises RunError, UsageError.
        """
        verdict = self.compare(reference, **rules)
        verdict.require(strict=strict)
        return verdict

    def save(self, name: str = "main", store: str | PathLike[str] | None = None) -> Path:
        """Write it as a small JSON file, meant for git; returns its path. Raises UsageError, RightlabError."""
        from rightlab.usage.saved import save

        return save(self, name, self._folder(store))

    def _resolve(self, reference: "Baseline | str | PathLike[str]") -> "Baseline":
        from rightlab.usage.saved import find

        return reference if isinstance(reference, Baseline) else find(reference, self.folder)

    def _folder(self, store: str | PathLike[str] | None) -> Path:
        if store is None and self.folder is None:
            raise UsageError("where should the baseline be saved?", fix="Name a folder with store=.")
        return Path(store) if store is not None else Path(self.folder or ".")

    def to_json(self) -> dict[str, Any]:
        """The document of ``baseline ... --json``, and what a saved file holds."""
        from rightlab.usage.saved import document

        return document(self)

    def to_frame(self) -> "pandas.DataFrame":
        """One row per group (or one in all): its keys, n, and n, p50, p90, p99 of each metric."""
        import pandas as pd

        return pd.DataFrame(list(self.records()))

    def records(self) -> Iterator[dict[str, Any]]:
        """The rows of :meth:`to_frame`."""
        parts = self.groups if self.by else {(): self}
        for key, part in parts.items():
            record: dict[str, Any] = dict(zip(self.by, key, strict=True))
            record["n"] = part.n
            for metric in METRICS:
                summary: Summary | None = getattr(part, metric)
                record[f"{metric}_n"] = part.counts.get(metric, 0)
                for q in ("p50", "p90", "p99"):
                    record[f"{metric}_{q}"] = None if summary is None else getattr(summary, q)
            yield record

    def page(self) -> "Page":
        from rightlab.usage.baseline_page import page

        return page(self)

    def text(self) -> str:
        return self.page().text()

    def __repr__(self) -> str:
        what = f"{self.filters.words}, {self.window}, n={self.n}, {self.method}"
        if self.cost_usd is None:
            return f"<Baseline {what}: none, {self.why_not}>"
        return f"<Baseline {what}: cost P50 {self.cost_usd.p50:.4g} P90 {self.cost_usd.p90:.4g}>"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        from rightlab.html import mimebundle

        return mimebundle(self, self.page(), include, exclude)


def baseline_of(
    store: Store,
    *,
    days: int = 14,
    source: str | Sequence[str] | None = "interactive",
    model: str | None = None,
    chat: int | None = None,
    job: str | None = None,
    skill: str | None = None,
    prompt: str | None = None,
    by: str | Sequence[str] | None = None,
    tz: str = "UTC",
    min_sample: int = MIN_SAMPLE,
    min_days: int = MIN_DAYS,
    clock: Clock | None = None,
    agent: str | None = None,
    folder: Path | None = None,
) -> Baseline:
    """The baseline of the last ``days`` complete days in ``tz``; today is never in it.

    Only rows of ``source`` (one, several, None: all), ``model``, ``chat``, ``job``, ``skill`` and ``prompt`` (a sha256
    or its beginning) count; ``by`` splits it by one or several of :data:`rightlab.usage.samples.KEYS`. Fewer than
    ``min_sample`` values or ``min_days`` days with turns give no percentiles. Raises UsageError, StoreError.
    """
    now = (clock or SystemClock()).now()
    many = source if source is None or isinstance(source, str) else tuple(source)
    filters = Filters(source=many, model=model, chat=chat, job=job, skill=skill, prompt=prompt)
    return measure(
        store,
        last_days(days, tz, now),
        filters,
        by=_keys(by),
        min_sample=min_sample,
        min_days=min_days,
        made_at=now,
        agent=agent,
        folder=folder,
    )


def measure(
    store: Store,
    window: Days,
    filters: Filters,
    *,
    made_at: datetime,
    by: tuple[str, ...] = (),
    min_sample: int = MIN_SAMPLE,
    min_days: int = MIN_DAYS,
    agent: str | None = None,
    folder: Path | None = None,
) -> Baseline:
    """The baseline of any ``window``; see :func:`baseline_of`."""
    samples = read_samples(store, window, filters)

    def build(rows: Sequence[Sample], days: int, **rest: Any) -> Baseline:
        return _build(rows, window, filters, made_at, min_sample, days, agent=agent, folder=folder, **rest)

    groups: dict[tuple[str, ...], Baseline] = {}
    if by:
        grouped: dict[tuple[str, ...], list[Sample]] = {}
        for sample in samples:
            for key in _products(sample, by):
                grouped.setdefault(key, []).append(sample)
        # The group of a day has that day alone.
        least = 1 if "day" in by else min_days
        groups = {key: build(rows, least) for key, rows in sorted(grouped.items())}
    return build(samples, min_days, by=by, groups=groups)


def _build(
    samples: Sequence[Sample],
    window: Days,
    filters: Filters,
    made_at: datetime,
    min_sample: int,
    min_days: int,
    **rest: Any,
) -> Baseline:
    seen: set[date] = {sample.day for sample in samples}
    values = {
        metric: tuple(sorted(value for sample in samples if (value := getattr(sample, metric)) is not None))
        for metric in METRICS
    }
    enough = len(seen) >= min_days

    def summary(metric: str) -> Summary | None:
        found = summarize(values[metric], min_sample)
        return found if enough and found.sufficient else None

    return Baseline(
        n=len(samples),
        cost_usd=summary("cost_usd"),
        num_turns=summary("num_turns"),
        elapsed_ms=summary("elapsed_ms"),
        window=window,
        filters=filters,
        days_seen=len(seen),
        made_at=made_at,
        models=_counted(sample.model or "unknown" for sample in samples),
        prompts=_counted(sample.prompt or "unknown" for sample in samples),
        price_versions=tuple(sorted({sample.price_version or "unknown" for sample in samples})),
        scripted=sum(sample.scripted for sample in samples),
        counts={metric: len(found) for metric, found in values.items()},
        values=values,
        min_sample=min_sample,
        min_days=min_days,
        **rest,
    )


def _counted(names: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(names).items(), key=lambda item: (-item[1], item[0])))


def _keys(by: str | Sequence[str] | None) -> tuple[str, ...]:
    if by is None:
        return ()
    keys = tuple(by.replace(" ", "").split(",")) if isinstance(by, str) else tuple(by)
    if not keys or len(set(keys)) < len(keys) or set(keys) - set(KEYS):
        raise UsageError(
            f"a baseline cannot be split by {by!r}", fix=f"Use one or several of {', '.join(KEYS)}."
        )
    return keys


def _products(sample: Sample, by: tuple[str, ...]) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = [()]
    for name in by:
        found = [(*key, part) for key in found for part in sample.keys(name)]
    return found
