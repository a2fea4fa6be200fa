"""Results of ``claude -p``, json and stream-json (spec usage-and-baselines 3.2, platform B)."""

import json
from pathlib import Path
from typing import Any

import pytest

from rightlab.usage.importing import import_paths

MODEL = "claude-sonnet-5-5"


def entry(inp: int, out: int, cost: float, **more: Any) -> dict[str, Any]:
    return {"inputTokens": inp, "outputTokens": out, "cacheReadInputTokens": 0, "costUSD": cost, **more}


def result(number: int, total: dict[str, Any], *, inp: int = 10, out: int = 5, **more: Any) -> dict[str, Any]:
    return {
        "type": "result",
        "subtype": "success",
        "session_id": "s1",
        "uuid": f"r{number}",
        "num_turns": 1,
        "usage": {"input_tokens": inp, "output_tokens": out},
        "modelUsage": total,
        "total_cost_usd": sum(one["costUSD"] for one in total.values()),
        **more,
    }


def placeholder(key: str) -> dict[str, Any]:
    message = {"id": key, "model": MODEL, "usage": {"input_tokens": 10, "output_tokens": 1}}
    return {"type": "assistant", "session_id": "s1", "message": message, "uuid": key}


def put(path: Path, *rows: Any) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_pain_CC83239_the_total_of_a_stream_is_cumulative_so_it_is_subtracted(tmp_path: Path) -> None:
    path = put(
        tmp_path / "stream.jsonl",
        {"type": "system", "subtype": "init", "session_id": "s1"},
        placeholder("m1"),
        result(1, {MODEL: entry(10, 5, 0.10)}),
        placeholder("m2"),
        result(2, {MODEL: entry(20, 12, 0.25)}, out=7),
        result(3, {MODEL: entry(30, 13, 0.30), "claude-haiku-5-5": entry(4, 4, 0.01)}, out=1),
    )
    found = import_paths(path).report()
    assert found["totals"]["cost_usd"] == pytest.approx(0.31)
    assert (found["totals"]["input_tokens"], found["totals"]["output_tokens"]) == (34, 17)
    assert found["by_model"]["claude-haiku-5-5"]["cost_usd"] == pytest.approx(0.01)
    assert found["turns"] == 3
    assert found["by_day"] == {}
    assert any("in no day" in note for note in found["notes"])


def test_what_the_cli_says_of_one_run_is_taken(tmp_path: Path) -> None:
    since = {MODEL: entry(3, 4, 0.02)}
    path = put(
        tmp_path / "one.json", result(1, {MODEL: entry(99, 99, 9.0)}, model_usage_since_last_result=since)
    )
    totals = import_paths(path).report()["totals"]
    assert (totals["input_tokens"], totals["output_tokens"], totals["cost_usd"]) == (3, 4, 0.02)


def test_a_resumed_run_without_the_one_before_counts_its_own_tokens_at_list_price(tmp_path: Path) -> None:
    path = put(tmp_path / "resumed.json", result(4, {MODEL: entry(5000, 4000, 9.0)}, inp=1_000_000, out=0))
    totals = import_paths(path).report()["totals"]
    assert (totals["input_tokens"], totals["cost_usd"]) == (1_000_000, pytest.approx(2.0))


def test_all_events_as_one_list(tmp_path: Path) -> None:
    path = tmp_path / "verbose.json"
    path.write_text(json.dumps([placeholder("m1"), result(1, {MODEL: entry(10, 5, 0.10)})]))
    found = import_paths(path).report()
    assert (found["requests"], found["errors"], found["totals"]["cost_usd"]) == (1, [], 0.10)


def test_a_price_that_the_cli_made_up_is_unknown(tmp_path: Path) -> None:
    strange = {"claude-zebra-9": entry(10, 5, 0.10, costBasis="unknown")}
    totals = import_paths(put(tmp_path / "a.json", result(1, strange))).report()["totals"]
    assert totals["cost_usd"] is None
    assert totals["unknown_models"] == ["claude-zebra-9"]


def test_the_same_result_in_two_files_is_one(tmp_path: Path) -> None:
    row = result(1, {MODEL: entry(10, 5, 0.10)})
    put(tmp_path / "a.jsonl", row)
    put(tmp_path / "b.jsonl", row)
    found = import_paths(tmp_path).report()
    assert (found["requests"], found["duplicates"], found["turns"]) == (1, 1, 1)


@pytest.mark.parametrize("bad", [-3, 1e300, "x", 10**15])
def test_counts_that_cannot_be_are_located(tmp_path: Path, bad: Any) -> None:
    good = result(1, {MODEL: entry(10, 5, 0.10)})
    broken = result(2, {}, model_usage_since_last_result={MODEL: entry(bad, 5, 0.1)})
    found = import_paths(put(tmp_path / "a.jsonl", good, broken)).report()
    assert found["requests"] == 1
    assert [(error.line, "inputTokens" in error.error) for error in found["errors"]] == [(2, True)]
