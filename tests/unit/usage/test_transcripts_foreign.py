"""ccusage's sums and OpenTelemetry's GenAI spans (spec usage-and-baselines 3.3, 3.4)."""

import json
from pathlib import Path
from typing import Any

import pytest

from rightlab.usage import read_transcripts
from rightlab.usage.import_store import ImportStore
from rightlab.usage.importing import import_paths

MODEL = "claude-sonnet-5-5"


def breakdown(model: str = MODEL, cost: float = 1.5) -> dict[str, Any]:
    return {
        "modelName": model,
        "inputTokens": 10,
        "outputTokens": 20,
        "cacheCreationTokens": 30,
        "cacheReadTokens": 40,
        "cost": cost,
    }


def day(date: str, *parts: dict[str, Any]) -> dict[str, Any]:
    names = ("inputTokens", "outputTokens", "cacheCreationTokens", "cacheReadTokens")
    return {
        "date": date,
        **{name: sum(part[name] for part in parts) for name in names},
        "totalCost": sum(part["cost"] for part in parts),
        "modelsUsed": [part["modelName"] for part in parts],
        "modelBreakdowns": list(parts),
    }


def put(path: Path, document: Any, indent: int | None = 2) -> Path:
    path.write_text(json.dumps(document, indent=indent) + "\n")
    return path


def test_ccusage_days_are_sums_without_requests(tmp_path: Path) -> None:
    document = {"daily": [day("2026-11-29", breakdown()), day("2026-11-30", breakdown())], "totals": {}}
    path = put(tmp_path / "ccusage.json", document)
    found = import_paths(path).report("America/New_York")
    assert (found["requests"], found["turns"], found["duplicates"], found["errors"]) == (0, 0, 0, [])
    assert found["totals"]["cost_usd"] == pytest.approx(3.0)
    assert found["totals"]["cache_write_5m_tokens"] == 60
    assert list(found["by_day"]) == ["2026-11-29", "2026-11-30"]
    (note,) = found["notes"]
    assert "no percentile" in note.replace("no\npercentile", "no percentile")
    frame, errors = read_transcripts(path)
    assert (len(frame), errors) == (0, [])


def test_pain_CU948_a_model_ccusage_has_no_price_of_did_not_cost_nothing(tmp_path: Path) -> None:
    document = {"daily": [day("2026-11-30", breakdown("claude-new-1", 0), breakdown())], "totals": {}}
    totals = import_paths(put(tmp_path / "a.json", document)).report()["totals"]
    assert totals["cost_usd"] == 1.5
    assert totals["cost_complete"] is False
    assert totals["unknown_models"] == ["claude-new-1"]


@pytest.mark.parametrize(
    "document",
    [
        {"projects": {"a": [day("2026-11-30", breakdown())], "b": [day("2026-11-30", breakdown())]}},
        {"monthly": [{**day("", breakdown()), "month": f"2026-{n}"} for n in (10, 11)]},
        {"sessions": [{**day("", breakdown()), "sessionId": name} for name in ("s", "t")]},
        {
            "blocks": [
                {"id": "gap", "isGap": True, "tokenCounts": {}, "costUSD": 0},
                *(
                    {
                        "id": name,
                        "models": [MODEL],
                        "costUSD": 1.5,
                        "tokenCounts": {"inputTokens": 10, "outputTokens": 20},
                    }
                    for name in ("x", "y")
                ),
            ]
        },
    ],
)
def test_the_other_forms_of_ccusage(tmp_path: Path, document: dict[str, Any]) -> None:
    path = put(tmp_path / "a.json", {**document, "totals": {}})
    for source in (path, put(tmp_path / "b.json", {**document, "totals": {}}, indent=None)):
        found = import_paths(source).report()
        assert found["totals"]["cost_usd"] == pytest.approx(3.0)
        assert (found["totals"]["input_tokens"], found["totals"]["output_tokens"]) == (20, 40)
        assert list(found["by_model"]) == [MODEL]


def test_a_sum_that_cannot_be_is_located(tmp_path: Path) -> None:
    bad = {**breakdown(), "inputTokens": -1}
    document = {"daily": [{"date": "2026-11-30", "modelBreakdowns": [bad, breakdown("m")]}], "totals": {}}
    found = import_paths(put(tmp_path / "a.json", document)).report()
    assert [(error.line, "inputTokens" in error.error) for error in found["errors"]] == [(1, True)]


def attributes(inp: int, out: int, read: int = 0, written: int = 0) -> dict[str, Any]:
    return {
        "gen_ai.request.model": "sonnet",
        "gen_ai.response.model": MODEL,
        "gen_ai.response.id": f"msg_{inp}_{out}",
        "gen_ai.usage.input_tokens": inp,
        "gen_ai.usage.output_tokens": out,
        "gen_ai.usage.cache_read.input_tokens": read,
        "gen_ai.usage.cache_creation.input_tokens": written,
    }


def otlp(values: dict[str, Any]) -> dict[str, Any]:
    listed = [
        {"key": key, "value": {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}}
        for key, value in values.items()
    ]
    span = {"spanId": "a1", "startTimeUnixNano": "1796083200000000000", "attributes": listed}
    return {"resourceSpans": [{"scopeSpans": [{"spans": [span, {"spanId": "b", "attributes": []}]}]}]}


def test_pain_langfuse12306_in_telemetry_the_input_includes_the_cache(tmp_path: Path) -> None:
    values = attributes(130_213, 7, read=128_955, written=1_253)
    flat = {"name": "chat", "start_time": "2026-12-01T00:00:00Z", "attributes": values}
    for name, row in (("flat", flat), ("otlp", otlp(values))):
        path = tmp_path / f"{name}.jsonl"
        path.write_text(json.dumps(row) + "\n")
        found = import_paths(path).report()
        totals = found["totals"]
        assert (found["requests"], found["errors"]) == (1, [])
        assert (totals["input_tokens"], totals["cache_read_tokens"]) == (5, 128_955)
        assert totals["cache_write_5m_tokens"] == 1_253
        assert totals["cost_usd"] == pytest.approx((5 * 2 + 7 * 10 + 128_955 * 0.1 + 1_253 * 2.5) / 1e6)
        assert list(found["by_day"]) == ["2026-12-01"]
    assert import_paths(tmp_path).report()["duplicates"] == 1


def test_pain_langsmith2519_an_additive_count_is_located_not_guessed(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text(json.dumps({"attributes": attributes(5, 7, read=1000)}) + "\n")
    found = import_paths(path).report()
    assert found["requests"] == 0
    assert [error.line for error in found["errors"]] == [1]
    assert "include" in found["errors"][0].error


def test_other_spans_and_documents_are_left_alone(tmp_path: Path) -> None:
    rows = [
        {"attributes": {"http.method": "GET"}},
        {"totals": 3},
        {"attributes": 1},
        {"resourceSpans": [1, {}]},
    ]
    path = tmp_path / "s.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = import_paths(path).report()
    assert (found["requests"], found["errors"], found["lines"]) == (0, [], 4)


def test_all_of_them_survive_the_store(tmp_path: Path) -> None:
    document = {"daily": [day("2026-11-30", breakdown())], "totals": {}}
    put(tmp_path / "ccusage.json", document)
    (tmp_path / "s.jsonl").write_text(json.dumps({"attributes": attributes(5, 7)}) + "\n")
    store, paths = ImportStore(tmp_path / "store"), [tmp_path / "ccusage.json", tmp_path / "s.jsonl"]
    first = store.update(paths).report()
    assert first == import_paths(paths).report()
    assert store.update(paths).report() == first
    assert first["requests"] == 1
