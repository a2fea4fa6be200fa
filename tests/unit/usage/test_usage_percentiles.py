"""Hazen percentiles (spec agent-runtime 6.5, B.5; C37, C38)."""

import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightlab.errors import UsageError
from rightlab.usage import Summary, percentile, summarize

finite = st.floats(allow_nan=False, allow_infinity=False, width=32)


@pytest.mark.parametrize(("q", "expected"), [(0.5, 10.5), (0.9, 18.5), (0.99, 20), (0.0, 1), (1.0, 20)])
def test_c37_worked_vectors(q: float, expected: float) -> None:
    assert percentile(range(1, 21), q) == pytest.approx(expected)
    assert percentile(range(20, 0, -1), q) == pytest.approx(expected)


@pytest.mark.parametrize(("values", "most"), [([1, 2, 3, 4, 100], 100), ([1, 100], 100), ([7], 7)])
def test_a_percentile_never_leaves_its_values(values: list[float], most: float) -> None:
    """pains 6, wazuh/wazuh#38977: a P99 above the maximum."""
    assert percentile(values, 0.9) <= most
    assert percentile(values, 0.99) <= most


@given(st.lists(finite, min_size=1, max_size=60), st.floats(0, 1), st.floats(0, 1))
def test_bounded_and_rising(values: list[float], one: float, two: float) -> None:
    low, high = sorted((one, two))
    assert min(values) <= percentile(values, low) <= percentile(values, high) <= max(values)


@given(st.lists(finite, min_size=1, max_size=60))
def test_the_middle_is_the_median(values: list[float]) -> None:
    assert percentile(values, 0.5) == pytest.approx(statistics.median(values), rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("values", [[], [math.nan], [1.0, math.inf]])
def test_what_has_no_percentile(values: list[float]) -> None:
    with pytest.raises(UsageError):
        percentile(values, 0.5)


@pytest.mark.parametrize("q", [-0.1, 1.1, math.nan])
def test_quantiles_out_of_range(q: float) -> None:
    with pytest.raises(UsageError):
        percentile([1], q)


def test_c38_nineteen_values_are_too_few() -> None:
    few = summarize(range(19))
    assert (few.n, few.p50, few.p90, few.p99) == (19, None, None, None)
    assert not few.sufficient
    assert summarize(range(1, 21)) == Summary(20, 10.5, 18.5, 20.0)


def test_none_and_nan_do_not_count() -> None:
    values = [1.0, None, math.nan] * 20
    assert summarize(values) == Summary(20, 1, 1, 1)
    assert summarize([None, math.nan]).n == 0
    assert summarize([], min_sample=0).p50 is None
    assert summarize([3.0], min_sample=1).p99 == 3
    with pytest.raises(UsageError):
        summarize([math.inf] * 20)


def test_a_summary_says_its_n_and_method() -> None:
    summary = summarize(range(1, 21))
    assert "hazen" in summary.method
    assert "n=20" in repr(summary)
    assert "10.5" in summary._repr_html_()
    assert "no percentiles" in repr(summarize([1]))
    assert "none below 20" in summarize([1])._repr_html_()
    assert summary._repr_mimebundle_()["text/plain"] == repr(summary)
