"""What tokens cost: a dated table of list prices (spec usage-and-baselines 3).

US dollars per million tokens. A model that is not in the table has no price: the answer is None, never 0 and
never another model's price.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

from rightlab.errors import UsageError

__all__ = [
    "ALIASES",
    "PRICES",
    "PRICE_VERSION",
    "Price",
    "PriceRow",
    "PriceTable",
    "Tier",
    "Tokens",
    "price",
    "resolve_model",
    "tokens_of",
]

PRICE_VERSION = "2026-11-30"
"""Names the table below; kept with every cost that was worked out from it."""

MILLION = 1_000_000
LAUNCH = date.min
"""Effective since the model exists."""

ALIASES: Mapping[str, str] = {
    "opus": "claude-opus-5-5",
    "sonnet": "claude-sonnet-5-5",
    "haiku": "claude-haiku-5-5",
    "fable": "claude-fable-5-2",
}
"""What the CLI's model aliases stand for (platform B)."""

_LONG = "[1m]"
_MODEL = re.compile(
    r"claude-(?P<family>[a-z]+)-(?P<major>\d{1,2})(?:-(?P<minor>\d{1,2}))?(?:-(?:\d{8}|latest))?"
)
_OLD = re.compile(r"claude-(?P<major>\d)(?:-(?P<minor>\d))?-(?P<family>[a-z]+)(?:-(?:\d{8}|latest))?")


@dataclass(frozen=True)
class Price:
    """Dollars per million tokens: plain input, output, cache reads, cache writes kept 5 minutes and 1 hour."""

    input: float
    write_5m: float
    write_1h: float
    read: float
    output: float

    def times(self, factor: float) -> "Price":
        return Price(*(getattr(self, name) * factor for name in self.__dataclass_fields__))


@dataclass(frozen=True)
class Tier:
    """A price for requests of more than ``above`` prompt tokens (input + reads + writes)."""

    above: int
    price: Price


@dataclass(frozen=True)
class PriceRow:
    """The price of the releases ``first`` to ``last`` (major, minor) of a family, from a day (UTC) on."""

    family: str
    first: tuple[int, int]
    last: tuple[int, int]
    price: Price
    effective: date = LAUNCH
    tier: Tier | None = None

    def covers(self, family: str, release: tuple[int, int], day: date) -> bool:
        return self.family == family and self.first <= release <= self.last and self.effective <= day


_HAIKU_55 = Price(0.10, 0.125, 0.20, 0.01, 0.50)

PRICES: tuple[PriceRow, ...] = (
    PriceRow("opus", (5, 5), (5, 5), Price(4, 5, 8, 0.20, 20)),
    PriceRow("opus", (4, 5), (5, 0), Price(5, 6.25, 10, 0.50, 25)),
    PriceRow("opus", (4, 0), (4, 1), Price(15, 18.75, 30, 1.50, 75)),
    PriceRow("opus", (3, 0), (3, 0), Price(15, 18.75, 30, 1.50, 75)),
    PriceRow("sonnet", (5, 5), (5, 5), Price(2, 2.50, 4, 0.10, 10)),
    PriceRow("sonnet", (5, 0), (5, 0), Price(2, 2.50, 4, 0.20, 10)),
    PriceRow("sonnet", (3, 5), (4, 6), Price(3, 3.75, 6, 0.30, 15)),
    PriceRow("haiku", (5, 5), (5, 5), _HAIKU_55, tier=Tier(100_000, Price(0.50, 0.625, 1.00, 0.05, 2.50))),
    PriceRow("haiku", (4, 5), (4, 5), Price(1, 1.25, 2, 0.10, 5)),
    PriceRow("haiku", (3, 5), (3, 5), Price(0.80, 1, 1.60, 0.08, 4)),
    PriceRow("fable", (5, 2), (5, 2), Price(8, 10, 16, 0.20, 40)),
    PriceRow("fable", (5, 1), (5, 1), Price(10, 12.50, 20, 0.25, 50)),
    PriceRow("fable", (5, 0), (5, 0), Price(10, 12.50, 20, 1, 50)),
)


def resolve_model(model: str) -> str:
    """The full id of an alias, and any name without the ``[1m]`` of a long context (which costs the same)."""
    name = model.strip().lower().removesuffix(_LONG)
    return ALIASES.get(name, name)


@dataclass(frozen=True)
class Tokens:
    """The four kinds of tokens, cache writes by how long they are kept."""

    input: int
    output: int
    read: int
    write_5m: int
    write_1h: int

    @property
    def prompt(self) -> int:
        return self.input + self.read + self.write_5m + self.write_1h


class PriceTable:
    """Rows of prices. Of several that cover a model on a day the one with the latest start counts."""

    def __init__(self, rows: Iterable[PriceRow] = PRICES, version: str = PRICE_VERSION) -> None:
        self.rows = tuple(rows)
        self.version = version

    def row(self, model: str, at: date | datetime | None = None) -> PriceRow | None:
        """The row for ``model`` on a day (UTC; today when None), or None for a model or day without one."""
        name = resolve_model(model)
        match = _MODEL.fullmatch(name) or _OLD.fullmatch(name)
        if match is None:
            return None
        release = (int(match["major"]), int(match["minor"] or 0))
        day = _day(at)
        found = [row for row in self.rows if row.covers(match["family"], release, day)]
        return max(found, key=lambda row: row.effective) if found else None

    def cost(
        self, model: str, tokens: Tokens, *, at: date | datetime | None = None, requests: int = 1
    ) -> float | None:
        """Dollars for ``tokens``, None when unknown.

        A price by tiers holds for one request. For the sum of several above the limit it cannot be told
        which of them were, so it is unknown.
        """
        row = self.row(model, at)
        if row is None:
            return None
        rates = row.price
        if row.tier is not None and tokens.prompt > row.tier.above:
            if requests > 1:
                return None
            rates = row.tier.price
        return (
            tokens.input * rates.input
            + tokens.output * rates.output
            + tokens.read * rates.read
            + tokens.write_5m * rates.write_5m
            + tokens.write_1h * rates.write_1h
        ) / MILLION


_TABLE = PriceTable()


def price(
    model: str,
    usage: Mapping[str, Any] | None = None,
    *,
    input_tokens: int = 0,
    output_tokens: int = 0,
    cache_read_tokens: int = 0,
    cache_write_5m_tokens: int = 0,
    cache_write_1h_tokens: int = 0,
    at: date | datetime | None = None,
    requests: int = 1,
    table: PriceTable | None = None,
) -> float | None:
    """US dollars of one request's tokens at list price, or None when the model has no known price.

    Tokens are counts; input does not include what was read from or written to the cache. ``usage`` is the
    same in the API's words (``input_tokens``, ``cache_creation``, ...) or the CLI's per-model ones
    (``inputTokens``, ...) and takes the place of the counts; writes whose keeping time is not told count as
    5 minutes, the default. ``at`` is the day (UTC) that counts, today when None. ``requests``: of how many
    requests the tokens are the sum. ``model`` may be an alias and end in ``[1m]``.

    Raises:
        UsageError: a negative count.
    """
    tokens = (
        tokens_of(usage)
        if usage is not None
        else Tokens(
            input_tokens, output_tokens, cache_read_tokens, cache_write_5m_tokens, cache_write_1h_tokens
        )
    )
    if min(tokens.input, tokens.output, tokens.read, tokens.write_5m, tokens.write_1h) < 0:
        raise UsageError("token counts cannot be negative")
    return (table or _TABLE).cost(model, tokens, at=at, requests=requests)


def tokens_of(usage: Mapping[str, Any]) -> Tokens:
    """The counts in a usage object of the API, or in one model's entry of the CLI's result."""

    def count(*names: str) -> int:
        for name in names:
            value = usage.get(name)
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                return int(value)
        return 0

    written = count("cache_creation_input_tokens", "cacheCreationInputTokens", "cache_creation_tokens")
    split = usage.get("cache_creation")
    if isinstance(split, Mapping):
        one_hour = int(split.get("ephemeral_1h_input_tokens") or 0)
        five = int(split.get("ephemeral_5m_input_tokens") or 0)
    else:
        one_hour = count("cacheCreationEphemeral1hInputTokens", "cache_write_1h_tokens")
        five = count("cacheCreationEphemeral5mInputTokens", "cache_write_5m_tokens")
    return Tokens(
        count("input_tokens", "inputTokens"),
        count("output_tokens", "outputTokens"),
        count("cache_read_input_tokens", "cacheReadInputTokens", "cache_read_tokens"),
        max(five, written - one_hour),
        one_hour,
    )


def _day(at: date | datetime | None) -> date:
    if at is None:
        return datetime.now(UTC).date()
    if isinstance(at, datetime):
        return (at.astimezone(UTC) if at.tzinfo else at).date()
    return at
