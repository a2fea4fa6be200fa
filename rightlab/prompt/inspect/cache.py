"""What a prompt cache would make of requests: which tokens are read, written or paid in full.

The rules of the Messages API (spec platform B, "Request bytes / cache"): an entry ends at a block with a
breakpoint, holds everything before it in cache order, is kept 5 minutes or 1 hour after its last use, needs
1,024 tokens, and belongs to one model. Token counts are the callers' estimates.
"""

import hashlib
from dataclasses import dataclass
from typing import Protocol

from rightlab.prompt.inspect.trace import Trace, TracedBlock, Ttl

__all__ = ["KEPT_SECONDS", "MIN_CACHED", "Cache", "PricePort", "Reading", "readable_tokens", "rewrite_cost"]

MIN_CACHED = 1024
KEPT_SECONDS: dict[Ttl, float] = {"5m": 300.0, "1h": 3600.0}


class PricePort(Protocol):
    """Dollars for token counts of one request, ``None`` when the model's price is unknown."""

    def __call__(
        self,
        model: str,
        /,
        *,
        input_tokens: int = 0,
        cache_read_tokens: int = 0,
        cache_write_5m_tokens: int = 0,
        cache_write_1h_tokens: int = 0,
    ) -> float | None: ...


@dataclass(frozen=True)
class Reading:
    """One request against the cache, in tokens: read, written (by how long they are kept), paid in full.

    ``same`` is what an earlier request of this model already began with, section by section and whatever its
    age; ``system`` and ``system_same`` are the share of the system prompt in it.
    """

    read: int
    write_5m: int
    write_1h: int
    full: int
    same: int
    system: int
    system_same: int

    @property
    def tokens(self) -> int:
        return self.read + self.write_5m + self.write_1h + self.full

    def cost(self, model: str | None, price: PricePort | None) -> float | None:
        """Dollars for the prompt of this request, without its answer."""
        if price is None or model is None:
            return None
        return price(
            model,
            input_tokens=self.full,
            cache_read_tokens=self.read,
            cache_write_5m_tokens=self.write_5m,
            cache_write_1h_tokens=self.write_1h,
        )


class Cache:
    """Remembers what was sent; :meth:`charge` the requests in order of time. ``factor`` scales estimates."""

    def __init__(self, factor: float = 1.0) -> None:
        self._factor = factor
        self._until: dict[bytes, tuple[float, float]] = {}
        self._seen: set[bytes] = set()

    def charge(self, trace: Trace) -> Reading:
        """What ``trace`` reads and writes; afterwards it is itself in the cache."""
        now = trace.at.timestamp()
        chain = hashlib.sha256((trace.model or "").encode())
        total = read = last = long_until = same = system_same = 0
        unbroken = True
        seen: list[bytes] = []
        points: list[tuple[bytes, int, Ttl]] = []
        for index, block in enumerate(trace.blocks):
            begun = chain.digest()
            chain.update(block.digest)
            key = chain.digest()
            tokens, whole = self._same(block, begun, key, seen)
            same += tokens if unbroken else 0
            unbroken = unbroken and whole
            if index == trace.prompt:
                system_same, _ = self._same(block, b"", block.digest, seen)
            total += block.tokens
            entry = self._until.get(key)
            if entry is not None and entry[0] > now:
                read = total
                self._until[key] = (now + entry[1], entry[1])
            if block.breakpoint is not None:
                last = total
                long_until = total if block.breakpoint == "1h" else long_until
                if self._scaled(total) >= MIN_CACHED:
                    points.append((key, total, block.breakpoint))
        for key, _, kept in points:
            self._until[key] = (now + KEPT_SECONDS[kept], KEPT_SECONDS[kept])
        self._seen.update(seen)
        if not points:
            last = long_until = 0
        last = max(last, read)
        written_long = max(0, long_until - read)
        system = trace.system.tokens if trace.system is not None else 0
        return Reading(
            read=self._scaled(read),
            write_5m=self._scaled(max(0, last - read - written_long)),
            write_1h=self._scaled(written_long),
            full=self._scaled(total - last),
            same=self._scaled(same),
            system=self._scaled(system),
            system_same=self._scaled(system_same),
        )

    def _same(self, block: TracedBlock, begun: bytes, key: bytes, seen: list[bytes]) -> tuple[int, bool]:
        """(tokens of ``block`` that an earlier request had here too, whether that is all of it).

        ``begun`` stands for all before the block, ``key`` for all up to its end; notes in ``seen`` what is here.
        """
        whole = key in self._seen
        seen.append(key)
        same, unbroken = 0, True
        for digest, tokens in block.steps:
            inner = hashlib.sha256(begun + digest).digest()
            unbroken = unbroken and inner in self._seen
            same += tokens if unbroken else 0
            seen.append(inner)
        return (block.tokens, True) if whole else (same, False)

    def _scaled(self, tokens: int) -> int:
        return round(tokens * self._factor)


def readable_tokens(before: Trace, after: Trace) -> tuple[int, int]:
    """(tokens ``after`` reads of what ``before`` wrote, tokens up to the last breakpoint of ``after``).

    As if ``before`` had been the only earlier request and its entries were still kept.
    """
    cache = Cache()
    cache.charge(before)
    entries = set(cache._until)
    chain = hashlib.sha256((after.model or "").encode())
    total = read = last = 0
    for block in after.blocks:
        chain.update(block.digest)
        total += block.tokens
        if chain.digest() in entries:
            read = total
        if block.breakpoint is not None:
            last = total
    return read, max(last, read)


def rewrite_cost(model: str | None, tokens: int, kept: Ttl | None, price: PricePort | None) -> float | None:
    """What it costs more to write ``tokens`` again than to have read them."""
    if price is None or model is None:
        return None
    written = (
        price(model, cache_write_1h_tokens=tokens)
        if kept == "1h"
        else price(model, cache_write_5m_tokens=tokens)
    )
    read = price(model, cache_read_tokens=tokens)
    return None if written is None or read is None else max(0.0, written - read)
