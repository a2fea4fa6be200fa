"""Claude Code transcripts: what counts, once (spec usage-and-baselines 3.1, pains 6)."""

import json
from pathlib import Path
from typing import Any

import pytest

from rightlab.errors import UsageError
from rightlab.usage import price, read_transcripts
from rightlab.usage.importing import import_paths

SONNET = "claude-sonnet-5-5"


class Tree:
    """A folder of transcripts; each row gets what the CLI puts into every row."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.count = 0

    def frame(self, session: str, **more: Any) -> dict[str, Any]:
        self.count += 1
        return {
            "parentUuid": None,
            "isSidechain": False,
            "userType": "external",
            "cwd": "/home/me/a-b",
            "sessionId": session,
            "version": "2.1.332",
            "gitBranch": "main",
            "uuid": f"uuid-{self.count}",
            "timestamp": "2026-11-30T10:00:00.000Z",
            **more,
        }

    def user(self, text: Any = "hello", session: str = "s1", **more: Any) -> dict[str, Any]:
        return {"type": "user", "message": {"role": "user", "content": text}, **self.frame(session, **more)}

    def assistant(
        self,
        key: str | None = "msg_1",
        *,
        model: str = SONNET,
        inp: Any = 100,
        out: Any = 50,
        read: Any = 1000,
        five: Any = 10,
        hour: Any = 20,
        session: str = "s1",
        usage: Any = "whole",
        **more: Any,
    ) -> dict[str, Any]:
        whole = {
            "input_tokens": inp,
            "output_tokens": out,
            "cache_read_input_tokens": read,
            "cache_creation_input_tokens": five + hour,
            "cache_creation": {"ephemeral_5m_input_tokens": five, "ephemeral_1h_input_tokens": hour},
            "server_tool_use": {"web_search_requests": 0, "web_fetch_requests": 0},
            "service_tier": "standard",
        }
        message = {"id": key, "type": "message", "role": "assistant", "model": model}
        message |= {
            "content": [{"type": "text", "text": "hi"}],
            "usage": whole if usage == "whole" else usage,
        }
        return {
            "type": "assistant",
            "message": {name: value for name, value in message.items() if value is not None},
            "requestId": "req_1",
            **self.frame(session, **more),
        }

    def put(self, name: str, *rows: Any, end: str = "\n") -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        texts = [row if isinstance(row, bytes) else json.dumps(row).encode() for row in rows]
        path.write_bytes(b"\n".join(texts) + end.encode())
        return path


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path / "projects")


def report(tree: Tree, zone: str = "UTC") -> dict[str, Any]:
    return import_paths(tree.root).report(zone)


def located(found: dict[str, Any]) -> list[tuple[str, Any]]:
    return [(Path(str(fault.file)).name, fault.line) for fault in found["errors"]]


# --- the rows of pains.md, section 6


def test_pain_ClaudeBar207_one_response_in_several_rows_is_counted_once(tree: Tree) -> None:
    tree.put("p/s1.jsonl", tree.user(), *(tree.assistant() for _ in range(4)))
    found = report(tree)
    assert (found["requests"], found["duplicates"], found["lines"], found["turns"]) == (1, 3, 5, 1)
    assert found["totals"]["output_tokens"] == 50


@pytest.mark.parametrize("order", [(1, 50, 300), (300, 1, 50), (50, 300, 1)])
def test_pain_CU389_CU797_CU994_the_row_with_the_most_output_counts(tree: Tree, order) -> None:
    tree.put("p/s1.jsonl", *(tree.assistant(out=out) for out in order))
    found = report(tree)
    assert found["totals"]["output_tokens"] == 300
    assert (found["requests"], found["duplicates"]) == (1, 2)


def test_pain_CU994_rows_without_a_request_id_are_known_by_their_message(tree: Tree) -> None:
    rows = [tree.assistant(), tree.assistant(out=60)]
    for row in rows:
        del row["requestId"]
    tree.put("p/s1.jsonl", *rows)
    assert report(tree)["requests"] == 1
    two = [tree.assistant("a"), tree.assistant("b")]  # one request id, two messages: two requests
    tree.put("p/s2.jsonl", *two)
    assert report(tree)["requests"] == 3


def test_a_row_without_a_message_id_is_still_a_request(tree: Tree) -> None:
    rows = [tree.assistant(None), tree.assistant(None)]
    for row, name in zip(rows, ("req_a", "req_b"), strict=True):
        row["requestId"] = name
    bare = tree.assistant(None)
    del bare["requestId"]
    tree.put("p/s1.jsonl", *rows, bare)
    assert report(tree)["requests"] == 3


def test_pain_CU1728_agentsview307_copies_of_resumed_sessions_are_counted_once(tree: Tree) -> None:
    first = [tree.user("one"), tree.assistant("m1")]
    tree.put("p/s1.jsonl", *first)
    copies = [{**row, "sessionId": "s2"} for row in first]
    tree.put("p/s2.jsonl", *copies, tree.user("two", "s2"), tree.assistant("m2", session="s2"))
    tree.put("q/s3.jsonl", *[{**row, "sessionId": "s3"} for row in first])
    found = report(tree)
    assert (found["requests"], found["duplicates"], found["turns"]) == (2, 2, 2)
    frame, errors = read_transcripts(tree.root)
    assert errors == []
    assert list(frame["message_id"]) == ["m1", "m2"]
    assert frame["output_tokens"].sum() == 100


def test_pain_CU313_CU806_ccstats85_tokenmonitor63_sub_agents_count(tree: Tree) -> None:
    tree.put("p/s1.jsonl", tree.user(), tree.assistant("main"))
    agent = {"isSidechain": True, "agentId": "a1"}
    tree.put(
        "p/s1/subagents/agent-a1.jsonl",
        tree.user("do this", **agent),
        tree.assistant("sub1", **agent),
        tree.assistant("sub2", **agent),
    )
    nested = {"isSidechain": True, "agentId": "a2"}
    tree.put("p/s1/subagents/workflows/wf/agent-a2.jsonl", tree.assistant("deep", **nested))
    tree.put("p/agent-old.jsonl", tree.assistant("old layout", isSidechain=True))
    inside = tree.assistant("side-chain in the session itself", isSidechain=True)
    tree.put("p/s4.jsonl", inside)
    found = report(tree)
    assert found["requests"] == 6
    assert found["turns"] == 1, "what a parent asks of its sub-agent is no prompt of a person"
    frame, _ = read_transcripts(tree.root)
    assert frame["is_sidechain"].sum() == 5
    assert set(frame["agent_id"].dropna()) == {"a1", "a2"}


def test_an_agents_file_holds_no_prompts_of_people_even_without_marks(tree: Tree) -> None:
    for name in ("p/s1/subagents/agent-x.jsonl", "p/agent-y.jsonl"):
        tree.put(name, tree.user(), tree.assistant(name))
    found = report(tree)
    assert (found["requests"], found["turns"]) == (2, 0)


def test_pain_CU313_a_sub_agent_repeated_in_its_parents_progress_rows_is_counted_once(tree: Tree) -> None:
    inner = {key: tree.assistant("sub")[key] for key in ("type", "message", "uuid", "timestamp")}
    data = {"type": "agent_progress", "agentId": "a1", "message": inner}
    tree.put("p/s1.jsonl", {"type": "progress", "data": data, **tree.frame("s1")})
    found = report(tree)
    assert (found["requests"], found["errors"]) == (1, [])
    tree.put("p/s1/subagents/agent-a1.jsonl", tree.assistant("sub", isSidechain=True, agentId="a1"))
    found = report(tree)
    assert (found["requests"], found["duplicates"]) == (1, 1)


def test_pain_CU899_powerline104_ccstats86_pi5737_one_hour_writes_cost_twice_the_input(tree: Tree) -> None:
    tree.put("p/s1.jsonl", tree.assistant(inp=0, out=0, read=0, five=1_000_000, hour=1_000_000))
    totals = report(tree)["totals"]
    assert totals["cache_write_5m_tokens"] == totals["cache_write_1h_tokens"] == 1_000_000
    assert totals["cost_usd"] == pytest.approx(2.50 + 4.00)


def test_writes_without_a_split_are_kept_five_minutes(tree: Tree) -> None:
    usage = {"input_tokens": 1, "output_tokens": 2, "cache_creation_input_tokens": 30}
    tree.put("p/s1.jsonl", tree.assistant(usage=usage))
    totals = report(tree)["totals"]
    assert (totals["cache_write_5m_tokens"], totals["cache_write_1h_tokens"]) == (30, 0)


def test_pain_CU948_CU844_CU1602_CU1201_CU1173_an_unknown_model_is_unknown_and_loud(tree: Tree) -> None:
    tree.put("p/s1.jsonl", tree.assistant("a", model="claude-opus-9-20271231"))
    totals = report(tree)["totals"]
    assert totals["cost_usd"] is None
    assert totals["cost_complete"] is False
    assert totals["unknown_models"] == ["claude-opus-9-20271231"]
    tree.put("p/s2.jsonl", tree.assistant("b"))
    found = report(tree)
    assert found["by_model"]["claude-opus-9-20271231"]["cost_usd"] is None
    assert found["totals"]["cost_usd"] == found["by_model"][SONNET]["cost_usd"] > 0
    assert found["totals"]["cost_complete"] is False
    frame, _ = read_transcripts(tree.root)
    assert frame.set_index("message_id")["cost_usd"].isna().to_dict() == {"a": True, "b": False}


def test_pain_CC22671_CC22686_CC27361_CC28197_CU866_placeholder_versions_are_named(tree: Tree) -> None:
    old = tree.put("p/old.jsonl", tree.assistant("a", version="2.1.96"))
    tree.put("p/new.jsonl", tree.assistant("b", version="2.1.97"))
    tree.put("p/next.jsonl", tree.assistant("c", version="2.2.0"))
    tree.put("p/none.jsonl", tree.assistant("d", version=None), tree.assistant("e", version="dev"))
    notes = report(tree)["notes"]
    assert len(notes) == 1
    assert str(old) in notes[0]
    assert "2.1.96" in notes[0]
    frame, _ = read_transcripts(tree.root)
    assert list(frame[frame["placeholder"]]["message_id"]) == ["a"]


def test_pain_langfuse12306_aider5516_phoenix10036_the_cache_is_not_counted_into_the_input(
    tree: Tree,
) -> None:
    tree.put("p/s1.jsonl", tree.assistant(inp=5, out=0, read=128_955, five=1_253, hour=0))
    totals = report(tree)["totals"]
    assert totals["input_tokens"] == 5
    assert totals["cost_usd"] == pytest.approx((5 * 2 + 128_955 * 0.10 + 1_253 * 2.50) / 1e6)


def test_pain_langsmith2519_weave7632_written_tokens_are_told_once(tree: Tree) -> None:
    tree.put("p/s1.jsonl", tree.assistant(five=10, hour=20))
    totals = report(tree)["totals"]
    assert totals["cache_write_5m_tokens"] + totals["cache_write_1h_tokens"] == 30
    sent = totals["input_tokens"] + totals["cache_read_tokens"] + 30
    assert 0 <= totals["cache_read_tokens"] / sent <= 1


def test_pain_wherewasi62_the_project_is_the_records_folder_not_the_slug(tree: Tree) -> None:
    tree.put("-home-me-a-b/s1.jsonl", tree.assistant())
    frame, _ = read_transcripts(tree.root)
    assert list(frame["project"]) == ["/home/me/a-b"]


def test_pain_greenbelt11_cost_states_and_other_rows_are_no_requests(tree: Tree) -> None:
    state = {"type": "cost-state", "sessionId": "s1", "totalCostUSD": 5.0, "modelUsage": {SONNET: {}}}
    others = [{"type": kind, "sessionId": "s1"} for kind in ("summary", "mode", "api-request", "last-prompt")]
    tree.put("p/s1.jsonl", state, *others, tree.assistant())
    found = report(tree)
    assert (found["requests"], found["lines"], found["errors"]) == (1, 6, [])


# --- what counts


def test_synthetic_rows_are_neither_requests_nor_duplicates(tree: Tree) -> None:
    tree.put("p/s1.jsonl", tree.assistant("x", model="<synthetic>", out=0), tree.assistant("m"))
    found = report(tree)
    assert (found["requests"], found["duplicates"]) == (1, 0)
    assert list(found["by_model"]) == [SONNET]


def test_turns_are_the_prompts_people_typed(tree: Tree) -> None:
    result = [{"type": "tool_result", "tool_use_id": "t", "content": "ok"}]
    tree.put(
        "p/s1.jsonl",
        tree.user("typed"),
        tree.user([{"type": "text", "text": "typed with a picture"}, {"type": "image"}]),
        tree.user("typed once", promptId="p1"),
        tree.user("typed once", promptId="p1"),
        tree.user(result),
        tree.user("told by the harness", isMeta=True),
        tree.user("a summary", isCompactSummary=True),
        tree.user("[Request interrupted by user for tool use]"),
        tree.user([{"type": "text", "text": "[Request interrupted by user]"}]),
        tree.user("<local-command-stdout>done</local-command-stdout>"),
        tree.user("to a sub-agent", isSidechain=True),
    )
    assert report(tree)["turns"] == 3


def test_one_file_is_read_once_however_often_it_is_named(tree: Tree, tmp_path: Path) -> None:
    path = tree.put("p/s1.jsonl", tree.assistant("m"))
    other = Tree(tmp_path / "second root")
    other.put("projects/p/s2.jsonl", other.assistant("n"))
    (tree.root / "link.jsonl").symlink_to(path)
    read = import_paths([tree.root, str(path), tree.root / "p", other.root])
    found = read.report()
    assert (found["files"], found["requests"], found["duplicates"]) == (2, 2, 0)


def test_days_are_those_of_the_asked_zone(tree: Tree) -> None:
    times = [
        "2026-11-30T23:30:00Z",
        "2026-11-30T23:30:00+02:00",
        "2026-10-25T00:30:00Z",
        "2026-10-25T01:30:00Z",
    ]
    tree.put("p/s1.jsonl", *(tree.assistant(f"m{n}", timestamp=at) for n, at in enumerate(times)))
    assert {day: e["output_tokens"] for day, e in report(tree)["by_day"].items()} == {
        "2026-10-25": 100, "2026-11-30": 100,
    }  # fmt: skip
    assert {day: e["output_tokens"] for day, e in report(tree, "Asia/Tokyo")["by_day"].items()} == {
        "2026-10-25": 100, "2026-12-01": 100,
    }  # fmt: skip
    assert list(report(tree, "America/New_York")["by_day"]) == ["2026-10-24", "2026-11-30"]


def test_the_sums_agree(tree: Tree) -> None:
    rows = [tree.assistant(f"m{n}", out=n, timestamp=f"2026-11-{1 + n % 9:02}T10:00:00Z") for n in range(50)]
    rows += [tree.assistant(f"o{n}", model="claude-opus-5-5", out=n) for n in range(10)]
    tree.put("p/s1.jsonl", *rows)
    found = report(tree)
    for parts in (found["by_model"], found["by_day"]):
        for key in ("input_tokens", "output_tokens", "cache_read_tokens", "cost_usd"):
            assert sum(entry[key] for entry in parts.values()) == pytest.approx(found["totals"][key])
    frame, _ = read_transcripts([tree.root])
    assert frame["cost_usd"].sum() == pytest.approx(found["totals"]["cost_usd"])
    usage = {"input_tokens": 100, "output_tokens": 3, "cache_read_input_tokens": 1000}
    usage["cache_creation"] = {"ephemeral_5m_input_tokens": 10, "ephemeral_1h_input_tokens": 20}
    assert frame.set_index("message_id").loc["m3", "cost_usd"] == pytest.approx(price(SONNET, usage))


def test_what_has_no_list_price_is_unknown_not_a_guess(tree: Tree) -> None:
    fast, search = tree.assistant("fast"), tree.assistant("search")
    fast["message"]["usage"]["speed"] = "fast"
    search["message"]["usage"]["server_tool_use"]["web_search_requests"] = 2
    tree.put("p/s1.jsonl", fast)
    assert report(tree)["totals"]["cost_usd"] is None
    tree.put("p/s1.jsonl", search)
    found = report(tree)
    assert found["totals"]["cost_complete"] is False
    assert found["totals"]["unknown_models"] == []
    assert any("2 web searches" in note for note in found["notes"])


def test_an_empty_tree_is_no_failure_and_a_missing_one_is(tree: Tree) -> None:
    tree.root.mkdir()
    found = report(tree)
    assert (found["files"], found["requests"], found["totals"]["cost_usd"]) == (0, 0, None)
    frame, errors = read_transcripts(tree.root)
    assert (len(frame), errors) == (0, [])
    assert {"message_id", "ts", "cost_usd"} <= set(frame.columns)
    with pytest.raises(UsageError, match="no such file"):
        read_transcripts(tree.root / "nowhere")
    with pytest.raises(UsageError, match="neither"):
        read_transcripts("/dev/null")


def test_the_frame_is_typed_and_in_order_of_time(tree: Tree) -> None:
    tree.put(
        "p/s1.jsonl",
        tree.assistant("late", timestamp="2026-11-30T12:00:00.500Z"),
        tree.assistant("early", timestamp="2026-11-30T11:00:00Z"),
    )
    frame, _ = read_transcripts(str(tree.root))
    assert list(frame["message_id"]) == ["early", "late"]
    assert str(frame["ts"].dt.tz) == "UTC"
    assert frame["ts"].iloc[1].isoformat() == "2026-11-30T12:00:00.500000+00:00"
    assert frame["input_tokens"].dtype == "int64"
    assert list(frame["line"]) == [2, 1]
