"""Token estimates held against what the API billed."""

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median
from typing import Any

from rightlab.html import Footer, Page, Pairs, count, mimebundle, percent, plural
from rightlab.prompt.assembly import TOKEN_METHOD
from rightlab.prompt.inspect.trace import Recorded, trace

__all__ = ["UNCALIBRATED", "Calibration", "calibrate"]

MIN_REQUESTS = 3
"""Fewer requests than this say nothing about the next one."""


@dataclass(frozen=True)
class Calibration:
    """Multiply estimates by ``factor``: what ``n`` requests were billed over what was estimated for them.

    ``off`` is how far a calibrated estimate typically (median) was from the bill, as a share of it; ``None``
    without a bill. ``scripted`` when the figures came from a script and are nobody's bill.
    """

    factor: float = 1.0
    n: int = 0
    off: float | None = None
    scripted: bool = False

    def __call__(self, tokens: int) -> int:
        return round(tokens * self.factor)

    @property
    def method(self) -> str:
        """How token counts came about, for footers and ``token_method``."""
        if not self.n:
            return TOKEN_METHOD
        whose = "scripted figures" if self.scripted else "billed usage"
        return f"estimate by character class, calibrated to {whose} of {plural(self.n, 'request')}"

    def page(self) -> Page:
        if not self.n:
            sentence = (
                "Token counts are plain estimates: too few answered requests are recorded to calibrate them."
            )
        else:
            sentence = (
                f"A plain estimate times {count(self.factor)} meets the bill to about {percent(self.off)}."
            )
        rows = [
            ("factor", count(self.factor)),
            ("requests", count(self.n)),
            ("typically off by", percent(self.off)),
        ]
        source = "scripted model" if self.scripted else None
        return Page(
            "Token calibration", sentence, Pairs(rows), footer=Footer(method=self.method, source=source)
        )

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return mimebundle(self, self.page(), include, exclude)


UNCALIBRATED = Calibration()


def calibrate(requests: Iterable[Recorded], *, scripted: bool = False) -> Calibration:
    """The calibration that the billed usage of ``requests`` gives.

    Scripted requests only count with ``scripted``, and then alone: their figures are estimates themselves.
    """
    pairs: list[tuple[int, int]] = []
    for request in requests:
        billed = _billed(request)
        if billed and request.scripted == scripted and (estimate := trace(request).tokens):
            pairs.append((estimate, billed))
    if len(pairs) < MIN_REQUESTS:
        return UNCALIBRATED
    factor = sum(billed for _, billed in pairs) / sum(estimate for estimate, _ in pairs)
    off = median(abs(estimate * factor - billed) / billed for estimate, billed in pairs)
    return Calibration(factor, len(pairs), off, scripted)


def _billed(request: Recorded) -> int:
    """All prompt tokens the answer was billed for, cached or not."""
    names = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    values = [(request.usage or {}).get(name) for name in names]
    return sum(value for value in values if isinstance(value, int))
