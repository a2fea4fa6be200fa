"""Token counts of scripted answers: estimated from the real request, with the prompt cache simulated.

The model is scripted, but what the CLI sends is real, so the figures react as they would: a stable prefix
is read, a changed section is written again, five-minute and one-hour writes are told apart.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from rightlab.claude.request_blocks import iter_blocks
from rightlab.clock import Clock

__all__ = ["CacheSimulator", "Usage", "with_numbers"]

_SECONDS = {"5m": 300.0, "1h": 3600.0}
_MIN_CACHED = 1024
"""The API caches no prefix shorter than this (tokens)."""
_NEVER_CACHED = 3
"""The API's own framing around the last turn is never part of a cached prefix."""
_MAX_ENTRIES = 4096


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one request: the four kinds of spec usage-and-baselines, cache writes by time to live."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write_5m: int = 0
    cache_write_1h: int = 0

    def to_api(self, *, output: int | None = None) -> dict[str, Any]:
        """The API's ``usage`` object; ``output`` replaces the output count (message_start says 1)."""
        return {
            "input_tokens": self.input,
            "cache_creation_input_tokens": self.cache_write_5m + self.cache_write_1h,
            "cache_read_input_tokens": self.cache_read,
            "cache_creation": {
                "ephemeral_5m_input_tokens": self.cache_write_5m,
                "ephemeral_1h_input_tokens": self.cache_write_1h,
            },
            "output_tokens": self.output if output is None else output,
            "service_tier": "standard",
        }

    @property
    def prompt(self) -> int:
        """All tokens of the prompt, however they were counted."""
        return self.input + self.cache_read + self.cache_write_5m + self.cache_write_1h


class CacheSimulator:
    """Remembers which prefixes were cached, until when, per model. Not shared between threads."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until: dict[bytes, tuple[float, float]] = {}

    def count(self, body: Mapping[str, Any]) -> int:
        """Prompt tokens of a request, cached or not (``count_tokens``)."""
        return sum(block.tokens for block in iter_blocks(body))

    def charge(self, body: Mapping[str, Any], output: int) -> Usage:
        """The usage of this request; its breakpoints are remembered for the next one."""
        now = self._clock.monotonic()
        digest = hashlib.sha256(str(body.get("model", "")).encode())
        tokens = read = last = 0
        long_until = 0
        points: list[tuple[bytes, int, str]] = []
        for block in iter_blocks(body):
            digest.update(block.sha256.encode())
            tokens += block.tokens
            key = digest.digest()
            entry = self._until.get(key)
            if entry is not None and entry[0] > now:
                read = tokens
                self._until[key] = (now + entry[1], entry[1])
            if block.breakpoint is not None:
                last = tokens
                if block.breakpoint == "1h":
                    long_until = tokens
                if tokens >= _MIN_CACHED:
                    points.append((key, tokens, block.breakpoint))
        for key, _, ttl in points:
            self._until[key] = (now + _SECONDS[ttl], _SECONDS[ttl])
        self._forget(now)
        if last < _MIN_CACHED:
            last = long_until = 0
        last = max(last, read)
        written_long = max(0, long_until - read)
        return Usage(
            input=tokens - last + _NEVER_CACHED,
            output=output,
            cache_read=read,
            cache_write_5m=max(0, last - read - written_long),
            cache_write_1h=written_long,
        )

    def _forget(self, now: float) -> None:
        if len(self._until) > _MAX_ENTRIES:
            self._until = {key: entry for key, entry in self._until.items() if entry[0] > now}
            for key in sorted(self._until, key=lambda key: self._until[key][0])[:-_MAX_ENTRIES]:
                del self._until[key]


def with_numbers(usage: Usage, numbers: Mapping[str, int]) -> Usage:
    """``usage`` with the figures a script fixes by name."""
    return replace(usage, **numbers)
