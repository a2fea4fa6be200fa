"""Hazen percentiles of many groups at once, equal to :func:`rightlab.usage.percentile` to the last bit."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = ["QUANTILES", "SMALL", "Grouping"]

QUANTILES = (0.5, 0.9, 0.99)
SMALL = 65_536
"""Up to so many groups are sorted by radix."""
_MANY = 20_000


@dataclass(frozen=True)
class Grouping:
    """``codes`` says which of ``groups`` groups (from 0) each row is in; ``order`` has the rows group by group.

    ``sorted_codes`` are the codes in that order, ``counts`` the rows of each group.
    """

    codes: "npt.NDArray[Any]"
    groups: int
    order: "npt.NDArray[np.intp]"
    sorted_codes: "npt.NDArray[Any]"
    counts: "npt.NDArray[Any]"

    @classmethod
    def of(cls, codes: "npt.NDArray[Any]", groups: int) -> "Grouping":
        import numpy as np

        # Sixteen bits are sorted by radix, in linear time.
        narrow = codes.astype(np.uint16 if groups <= SMALL else np.int64, copy=False)
        order = np.argsort(narrow, kind="stable")
        return cls(narrow, groups, order, narrow[order], np.bincount(narrow, minlength=groups))

    def percentiles(
        self, values: "npt.NDArray[np.float64]", quantiles: Sequence[float] = QUANTILES
    ) -> tuple["npt.NDArray[Any]", "npt.NDArray[np.float64]"]:
        """How many values each group has, and its ``quantiles`` (one row for each group, NaN without values).

        NaN, infinite and negative values do not count. ``values`` is left as it is.
        """
        import numpy as np

        taken, counts = values[self.order], self.counts
        keep = _usable(taken)
        if not keep.all():
            taken = taken[keep]
            counts = np.bincount(self.sorted_codes[keep], minlength=self.groups)
        starts = np.concatenate(([0], np.cumsum(counts)))
        some = np.flatnonzero(counts)
        if len(some) > _MANY:
            taken = taken[np.lexsort((taken, np.repeat(np.arange(len(counts)), counts)))]
        else:
            for first, last in zip(starts[some].tolist(), starts[some + 1].tolist(), strict=True):
                taken[first:last].sort()
        found = np.full((len(counts), len(quantiles)), np.nan)
        n, begin = counts[some].astype(np.float64), starts[some]
        for column, q in enumerate(quantiles):
            place = np.minimum(np.maximum(q * n - 0.5, 0.0), n - 1.0)
            low = np.floor(place)
            least = taken[begin + low.astype(np.int64)]
            most = taken[begin + np.ceil(place).astype(np.int64)]
            found[some, column] = np.minimum(np.maximum(least + (place - low) * (most - least), least), most)
        return counts, found

    def sums(self, values: "npt.NDArray[np.float64]") -> "npt.NDArray[np.float64]":
        """The sum of what counts in each group, NaN where nothing does."""
        import numpy as np

        keep = _usable(values)
        if keep.all():
            found, n = np.bincount(self.codes, values, minlength=self.groups), self.counts
        else:
            found = np.bincount(self.codes[keep], values[keep], minlength=self.groups)
            n = np.bincount(self.codes[keep], minlength=self.groups)
        return np.where(n > 0, found, np.nan)


def _usable(values: "npt.NDArray[np.float64]") -> Any:
    import numpy as np

    with np.errstate(invalid="ignore"):
        return (values >= 0) & (values < np.inf)
