"""Percentiles by Hazen, always with their n and method (spec agent-runtime 6.5, B.5)."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from rightlab.errors import UsageError
from rightlab.html import Table

__all__ = ["METHOD", "MIN_SAMPLE", "Summary", "percentile", "summarize"]

METHOD = "hazen"
MIN_SAMPLE = 20
"""Below so many values a summary names no percentiles."""


def percentile(values: Iterable[float], q: float) -> float:
    """The ``q`` quantile (0..1) of ``values`` by Hazen: position q·n - 0.5, clamped, linear in between.

    Order does not matter. Always between the least and the greatest value.

    Raises:
        UsageError: no values, a value that is no finite number, or q outside 0..1.
    """
    ordered = sorted(values)
    if not ordered:
        raise UsageError("a percentile of no values")
    if not all(math.isfinite(value) for value in ordered):
        raise UsageError("a percentile needs finite numbers", fix="Leave None, NaN and infinities out.")
    if not 0 <= q <= 1:
        raise UsageError(f"a quantile is between 0 and 1, not {q}")
    return _hazen(ordered, q)


def _hazen(ordered: Sequence[float], q: float) -> float:
    place = min(max(q * len(ordered) - 0.5, 0.0), len(ordered) - 1.0)
    low = math.floor(place)
    high = math.ceil(place)
    least, most = ordered[low], ordered[high]
    # Rounding must not lead out of the two.
    return min(max(least + (place - low) * (most - least), least), most)


@dataclass(frozen=True)
class Summary:
    """P50, P90 and P99 of ``n`` values; all three None below ``min_sample`` values."""

    n: int
    p50: float | None
    p90: float | None
    p99: float | None
    method: str = METHOD
    min_sample: int = MIN_SAMPLE

    @property
    def sufficient(self) -> bool:
        return self.n >= self.min_sample

    def __repr__(self) -> str:
        if self.p50 is None or self.p90 is None or self.p99 is None:
            return f"Summary(n={self.n}, fewer than {self.min_sample}: no percentiles, {self.method})"
        return f"Summary(n={self.n}, p50={self.p50:g}, p90={self.p90:g}, p99={self.p99:g}, {self.method})"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self._repr_html_()}

    def _repr_html_(self) -> str:
        row = {"n": self.n, "P50": self.p50, "P90": self.p90, "P99": self.p99, "method": self.method}
        few = "" if self.sufficient else f" (none below {self.min_sample} values)"
        return Table([row], caption=f"Percentiles{few}", row_headers=False).html()


def summarize(values: Iterable[float | None], min_sample: int = MIN_SAMPLE) -> Summary:
    """The percentiles of ``values``; None and NaN do not count. Raises UsageError for an infinite value."""
    kept = sorted(float(value) for value in values if value is not None and value == value)
    if kept and (math.isinf(kept[0]) or math.isinf(kept[-1])):
        raise UsageError("a summary needs finite numbers", fix="Leave infinities out.")
    if not kept or len(kept) < min_sample:
        return Summary(len(kept), None, None, None, METHOD, min_sample)
    p50, p90, p99 = (_hazen(kept, q) for q in (0.5, 0.9, 0.99))
    return Summary(len(kept), p50, p90, p99, METHOD, min_sample)
