"""The dated price table (spec usage-and-baselines 3; pains 6)."""

from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightlab.errors import UsageError
from rightlab.usage import PRICE_VERSION, PriceTable, price, resolve_model
from rightlab.usage.prices import PRICES, Price, PriceRow, tokens_of

M = 1_000_000


def all_five(model: str, tokens: int = M, **more: Any) -> tuple[float | None, ...]:
    kinds = ("input", "cache_write_5m", "cache_write_1h", "cache_read", "output")
    return tuple(price(model, **{f"{kind}_tokens": tokens}, **more) for kind in kinds)


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("claude-opus-5-5", (4, 5, 8, 0.20, 20)),
        ("claude-opus-5", (5, 6.25, 10, 0.50, 25)),
        ("claude-opus-4-7", (5, 6.25, 10, 0.50, 25)),
        ("claude-opus-4-5-20251101", (5, 6.25, 10, 0.50, 25)),
        ("claude-opus-4-1-20250805", (15, 18.75, 30, 1.50, 75)),
        ("claude-opus-4-20250514", (15, 18.75, 30, 1.50, 75)),
        ("claude-sonnet-5-5", (2, 2.50, 4, 0.10, 10)),
        ("claude-sonnet-5", (2, 2.50, 4, 0.20, 10)),
        ("claude-sonnet-4-6", (3, 3.75, 6, 0.30, 15)),
        ("claude-sonnet-4-5-20250929", (3, 3.75, 6, 0.30, 15)),
        ("claude-haiku-4-5-20251001", (1, 1.25, 2, 0.10, 5)),
        ("claude-fable-5", (10, 12.50, 20, 1, 50)),
        ("claude-fable-5-1", (10, 12.50, 20, 0.25, 50)),
        ("claude-fable-5-2", (8, 10, 16, 0.20, 40)),
        ("claude-3-5-sonnet-20241022", (3, 3.75, 6, 0.30, 15)),
    ],
)
def test_list_prices(model: str, expected: tuple[float, ...]) -> None:
    assert all_five(model) == pytest.approx(expected)
    assert all_five(f"{model}[1m]") == pytest.approx(expected)


def test_aliases_stand_for_the_clis_current_models() -> None:
    assert all_five("sonnet") == all_five("claude-sonnet-5-5")
    assert all_five("opus[1m]") == all_five("claude-opus-5-5")
    assert resolve_model("Fable") == "claude-fable-5-2"


def test_haiku_55_costs_five_times_as_much_above_100_000_prompt_tokens() -> None:
    assert price("haiku", input_tokens=100_000) == pytest.approx(0.01)
    assert price("haiku", input_tokens=100_001) == pytest.approx(0.0500005)
    # Reads and writes are prompt too, the answer is not, and it costs more as well.
    kinds = {"input_tokens": 25_000, "cache_read_tokens": 25_000, "cache_write_5m_tokens": 25_000}
    low = price("haiku", **kinds, cache_write_1h_tokens=25_000, output_tokens=M)
    high = price("haiku", **kinds, cache_write_1h_tokens=25_001, output_tokens=M)
    assert low == pytest.approx((2500 + 250 + 3125 + 5000) / M + 0.5)
    assert high == pytest.approx(5 * low, rel=1e-4)


def test_a_sum_of_requests_across_a_tier_is_unknown() -> None:
    assert price("haiku", input_tokens=100_001, requests=2) is None
    assert price("haiku", input_tokens=100_000, requests=2) == pytest.approx(0.01)
    assert price("sonnet", input_tokens=M, requests=9) == 2


@pytest.mark.parametrize(
    "model",
    [
        "",
        "claude",
        "claude-zebra-9",
        "claude-opus-6",
        "claude-opus-5-1",
        "claude-opus-3-5",
        "claude-sonnet-5-6",
        "gpt-5",
        "<synthetic>",
        "claude-opus-5-5-extra",
        "anthropic/claude-opus-5-5",
        "opus-5-5",
    ],
)
def test_pain_cu948_an_unknown_model_has_no_price(model: str) -> None:
    """CU#948 and others: never 0, never another model's price."""
    assert all_five(model) == (None,) * 5
    assert price(model) is None


def test_pain_cu899_one_hour_writes_cost_twice_the_input() -> None:
    assert price("claude-sonnet-4-5", cache_write_1h_tokens=M) == 6
    assert price("claude-sonnet-4-5", cache_write_5m_tokens=M) == 3.75


def test_prices_are_dated() -> None:
    rows = (
        PriceRow("opus", (9, 0), (9, 0), Price(1, 1, 1, 1, 1), date(2030, 1, 1)),
        PriceRow("opus", (9, 0), (9, 0), Price(2, 2, 2, 2, 2), date(2030, 6, 1)),
    )

    def at(day: date | datetime | None) -> float | None:
        return price("claude-opus-9", input_tokens=M, at=day, table=PriceTable(rows))

    assert at(date(2029, 12, 31)) is None
    assert at(date(2030, 5, 31)) == 1
    assert at(date(2030, 6, 1)) == 2
    # The day is the one in UTC.
    east = timezone(timedelta(hours=5))
    assert at(datetime(2030, 6, 1, 4, 0, tzinfo=east)) == 1
    assert at(datetime(2030, 6, 1, 0, 0, tzinfo=UTC)) == 2


def test_the_version_is_a_day() -> None:
    assert date.fromisoformat(PRICE_VERSION)


def test_usage_in_the_apis_words() -> None:
    usage = {
        "input_tokens": 100,
        "output_tokens": 42,
        "cache_read_input_tokens": 20,
        "cache_creation_input_tokens": 30,
        "cache_creation": {"ephemeral_5m_input_tokens": 10, "ephemeral_1h_input_tokens": 20},
    }
    expected = (200 + 420 + 2 + 25 + 80) / M
    assert price("sonnet", usage) == pytest.approx(expected)
    cli = {
        "inputTokens": 100,
        "outputTokens": 42,
        "cacheReadInputTokens": 20,
        "cacheCreationInputTokens": 30,
        "cacheCreationEphemeral5mInputTokens": 10,
        "cacheCreationEphemeral1hInputTokens": 20,
    }
    assert price("sonnet", cli) == pytest.approx(expected)
    # Without the split, writes are the default kind.
    del usage["cache_creation"]
    assert price("sonnet", usage) == pytest.approx((200 + 420 + 2 + 75) / M)
    assert price("sonnet", {}) == 0
    assert price("sonnet", {"input_tokens": None, "output_tokens": "7"}) == 0


def test_pain_langfuse_12306_cache_is_apart_from_the_input() -> None:
    tokens = tokens_of(
        {"input_tokens": 5, "cache_read_input_tokens": 128_955, "cache_creation_input_tokens": 1_253}
    )
    assert (tokens.input, tokens.prompt) == (5, 130_213)


def test_negative_counts_are_refused() -> None:
    with pytest.raises(UsageError):
        price("sonnet", input_tokens=-1)


@given(st.sampled_from([row for row in PRICES if row.tier is None]), *[st.integers(0, 10**9)] * 2)
def test_cost_is_additive(row: PriceRow, one: int, two: int) -> None:
    model = f"claude-{row.family}-{row.first[0]}-{row.first[1]}"
    parts = [price(model, output_tokens=one), price(model, output_tokens=two)]
    assert price(model, output_tokens=one + two) == pytest.approx(sum(part or 0 for part in parts))
