"""How sure a percentile is: distribution-free intervals, and the interval of a change between two samples."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rightlab.errors import UsageError

__all__ = ["LEVEL", "REPEATS", "SEED", "Change", "Interval", "change_of", "percentile_interval"]

LEVEL = 0.95
REPEATS = 4_000
SEED = 20_260_101
"""The bootstrap always draws the same numbers, so the same two samples always get the same verdict."""


@dataclass(frozen=True, slots=True)
class Interval:
    """From ``low`` to ``high``; None where ``n`` values cannot bound that side."""

    low: float | None
    high: float | None


def percentile_interval(ordered: Sequence[float], q: float, level: float = LEVEL) -> Interval:
    """The interval of the ``q`` quantile of what ``ordered`` (ascending) was drawn from, by order statistics.

    It holds for every distribution. A side is None when so few values cannot bound it: with 20 values nothing
    bounds a P99 from above, which is why it is not to be read as a tail (kubernetes/perf-tests#527).
    """
    n = len(ordered)
    if not n:
        return Interval(None, None)
    tail = (1 - level) / 2
    low = high = None
    below = 0.0
    for k in range(n):
        # ``below``: the chance that fewer than k + 1 values lie under the quantile.
        below += _binomial(n, k, q)
        if below <= tail:
            low = k
        if high is None and below >= 1 - tail:
            high = k
    return Interval(None if low is None else ordered[low], None if high is None else ordered[high])


def _binomial(n: int, k: int, q: float) -> float:
    if q <= 0 or q >= 1:
        return float(k == (0 if q <= 0 else n))
    log = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
    return math.exp(log + k * math.log(q) + (n - k) * math.log1p(-q))


@dataclass(frozen=True, slots=True)
class Change:
    """How far a quantile moved, as a share of what it was: 0.14 is 14 % more, between ``low`` and ``high``."""

    share: float
    low: float
    high: float

    def __str__(self) -> str:
        high = f"{self.high * 100:+.0f}" if math.isfinite(self.high) else "open"
        return f"{self.share * 100:+.0f} % [{self.low * 100:+.0f}, {high}]"


def change_of(
    before: Sequence[float],
    after: Sequence[float],
    q: float,
    *,
    sizes: tuple[int, int] | None = None,
    level: float = LEVEL,
    seed: int = SEED,
) -> Change | None:
    """The change of the ``q`` quantile from ``before`` to ``after`` (both ascending) with its bootstrap interval.

    ``sizes`` is how many values they stand for, when they are quantiles of more. None when the quantile was 0
    before: no share of nothing. Resampling a sorted sample moves the rank of a quantile by a beta distribution,
    so the ranks are drawn instead of whole samples; in between values it is linear.

    Raises:
        UsageError: an empty sample.
    """
    import numpy as np

    if not before or not after:
        raise UsageError("a change needs two samples")
    n_before, n_after = sizes or (len(before), len(after))
    old, new = _at(before, q), _at(after, q)
    if not old > 0:
        return None
    random = np.random.default_rng(seed)
    drawn_old = _drawn(random, np.asarray(before, dtype=float), n_before, q)
    drawn_new = _drawn(random, np.asarray(after, dtype=float), n_after, q)
    with np.errstate(divide="ignore"):
        shares = np.where(drawn_old > 0, drawn_new / np.where(drawn_old > 0, drawn_old, 1.0), np.inf) - 1
    shares.sort()
    cut = round((1 - level) / 2 * (REPEATS - 1))
    return Change(new / old - 1, float(shares[cut]), float(shares[-1 - cut]))


def _at(ordered: Sequence[float], q: float) -> float:
    from rightlab.usage.percentiles import percentile

    return percentile(ordered, q)


def _drawn(random: Any, ordered: Any, n: int, q: float) -> Any:
    import numpy as np

    rank = min(max(q * n + 0.5, 1.0), float(n))
    places = random.beta(rank, n + 1 - rank, REPEATS) * len(ordered) - 0.5
    return np.interp(places, np.arange(len(ordered)), ordered)
