"""The parts of the prompt on the desk: one section, what it is compared with, and how long comparing takes."""

from dataclasses import dataclass

__all__ = ["LINES", "OWN", "SMALL", "Against", "Row", "quick"]

SMALL = 8_000
"""Characters up to which a changed section is shown whole; of a longer one what is near the changes."""

LINES = 400
"""Lines up to which it is; both texts counted."""

QUICK = 20_000
"""Pairs of differing lines that are compared while somebody types; more are compared when there is time."""


@dataclass(frozen=True)
class Against:
    """What the prompt is compared with: the agent's ``own``, another ``mode``, a ``variant`` or a recorded
    ``turn``; ``key`` names which."""

    kind: str = "own"
    key: str = ""

    @property
    def label(self) -> str:
        """In words, such as ``turn 40``."""
        return "the agent's own" if self.kind == "own" else f"{self.kind} {self._said}"

    @property
    def _said(self) -> str:
        return self.key.replace("_", " ") if self.kind == "mode" else self.key


OWN = Against()


@dataclass(frozen=True)
class Row:
    """One section: ``data`` as the model reads it (None: it cannot be rendered), ``tokens`` about.

    ``change`` against what it is compared with: "", changed, added, removed, moved. ``edited`` in the variant.
    """

    name: str
    owner: str
    data: bytes | None
    tokens: int | None
    stability: float | None
    edited: bool
    change: str
    note: str = ""


def quick(old: str, new: str) -> bool:
    """Whether comparing takes no time worth speaking of."""
    left, right = old.split("\n"), new.split("\n")
    start = 0
    while start < min(len(left), len(right)) and left[start] == right[start]:
        start += 1
    end = 0
    while end < min(len(left), len(right)) - start and left[-1 - end] == right[-1 - end]:
        end += 1
    gone, come = left[start : len(left) - end], right[start : len(right) - end]
    return len(gone) * len(come) <= QUICK and sum(map(len, gone)) + sum(map(len, come)) <= QUICK
