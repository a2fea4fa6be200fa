"""The stream's events (spec agent-runtime 3.3; platform B)."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightlab.claude import (
    AssistantText,
    Init,
    Other,
    PermissionDenied,
    Progress,
    Result,
    Thinking,
    ToolResult,
    ToolUse,
    failure_of,
    parse_line,
    parse_stream,
    redact_secrets,
)

ENTRY = {
    "inputTokens": 100,
    "outputTokens": 42,
    "cacheReadInputTokens": 20,
    "cacheCreationInputTokens": 30,
    "cacheCreationEphemeral5mInputTokens": 10,
    "cacheCreationEphemeral1hInputTokens": 20,
    "costUSD": 0.25,
    "costBasis": "list",
}


def one(**data: Any) -> Any:
    (event,) = parse_line(json.dumps(data))
    return event


def result(**more: Any) -> Result:
    event = one(**{"type": "result", "subtype": "success", "is_error": False, **more})
    assert isinstance(event, Result)
    return event


def test_init_and_its_servers() -> None:
    event = one(
        type="system",
        subtype="init",
        session_id="s",
        model="claude-sonnet-5-5",
        tools=["Read"],
        mcp_servers=[{"name": "right", "status": "failed"}, "odd"],
        apiKeySource="none",
        claude_code_version="2.1.332",
    )
    assert isinstance(event, Init)
    assert (event.session_id, event.model, event.tools) == ("s", "claude-sonnet-5-5", ("Read",))
    assert event.mcp_status() == "failed"
    assert event.mcp_status("x") is None
    assert event.raw["apiKeySource"] == event.api_key_source == "none"


def test_one_event_per_content_block() -> None:
    line = {
        "type": "assistant",
        "session_id": "s",
        "parent_tool_use_id": "parent",
        "message": {
            "id": "m",
            "content": [
                {"type": "thinking", "thinking": "hm"},
                {"type": "text", "text": "hi"},
                {"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": "ls"}},
                {"type": "hologram", "text": "new"},
            ],
        },
    }
    place = {"session_id": "s", "parent_tool_use_id": "parent"}
    assert parse_line(json.dumps(line)) == [
        Thinking(text="hm", message_id="m", **place),
        AssistantText(text="hi", message_id="m", **place),
        ToolUse(tool_use_id="t", name="Bash", input={"command": "ls"}, message_id="m", **place),
        Other(kind="assistant/hologram", text="new", session_id="s"),
    ]


@pytest.mark.parametrize("content", ["ran", [{"type": "text", "text": "ran"}, {"type": "image"}]])
def test_tool_results_as_text(content: Any) -> None:
    block = {"type": "tool_result", "tool_use_id": "t", "content": content, "is_error": True}
    event = one(type="user", message={"content": [block]})
    assert event == ToolResult(tool_use_id="t", text="ran", is_error=True)


def test_c16_schema_rejections_are_told_apart() -> None:
    def said(text: str, is_error: bool) -> ToolResult:
        return ToolResult(tool_use_id="t", text=text, is_error=is_error)

    words = "Output does not match required schema: root"
    assert said(words, True).schema_rejected
    assert not said(words, False).schema_rejected
    assert not said("other", True).schema_rejected


def test_absurd_numbers_are_none() -> None:
    line = '{"type":"result","total_cost_usd":NaN,"num_turns":1e999,"duration_ms":' + "9" * 400 + "}"
    (event,) = parse_line(line)
    assert isinstance(event, Result)
    assert (event.session_cost_usd, event.num_turns, event.duration_ms) == (None, 0, None)


def test_unknown_events_are_kept() -> None:
    events = list(
        parse_stream(
            [
                b'{"type":"brand_new","x":1}',
                '{"type":"system","subtype":"later"}',
                '{"type":"system","subtype":"status"}',
                '{"type":"stream_event"}',
                '{"type":"system","subtype":"permission_denied","tool_name":"Bash"}',
                "  ",
                "not json",
                "[1]",
                b"\xff\xfe",
                "[" * 100_000,
            ]
        )
    )
    assert events[0] == Other(kind="brand_new")
    assert events[0].raw == {"type": "brand_new", "x": 1}
    assert [getattr(event, "kind", None) for event in events] == [
        "brand_new",
        "system/later",
        None,
        None,
        None,
        "unparsed",
        "unparsed",
        "unparsed",
        "unparsed",
    ]
    assert [type(event) for event in events[2:5]] == [Progress, Progress, PermissionDenied]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
KEYS = [
    "subtype",
    "is_error",
    "usage",
    "model_usage_since_last_result",
    "message",
    "session_id",
    "mcp_servers",
    "tools",
    "errors",
    "num_turns",
    "result",
    "structured_output",
    "total_cost_usd",
    "subagent_stats",
    "permission_denials",
    "retry_delay_ms",
]


@given(
    st.sampled_from(["system", "assistant", "user", "result", "stream_event", "other"]),
    st.sampled_from(["init", "api_retry", "permission_denied", "success", "x"]),
    st.dictionaries(st.sampled_from(KEYS), json_values),
)
def test_no_line_breaks_the_parser(kind: str, subtype: str, data: dict[str, Any]) -> None:
    assert parse_line(json.dumps({"subtype": subtype, **data, "type": kind}))


@given(st.binary(max_size=200))
def test_no_bytes_break_the_parser(line: bytes) -> None:
    list(parse_stream(line.split(b"\n")))


def test_cost_is_the_turns_own() -> None:
    event = result(
        total_cost_usd=99.0,
        usage={"input_tokens": 90, "server_tool_use": {"web_search_requests": 1}},
        model_usage_since_last_result={"a": ENTRY, "b": {**ENTRY, "costUSD": 0.5}},
        modelUsage={"a": {**ENTRY, "costUSD": 99.0}},
    )
    assert event.cost_usd == 0.75
    assert event.session_cost_usd == 99.0
    assert event.usage == {
        "input_tokens": 200,
        "output_tokens": 84,
        "cache_read_input_tokens": 40,
        "cache_creation_input_tokens": 60,
        "cache_creation": {"ephemeral_5m_input_tokens": 20, "ephemeral_1h_input_tokens": 40},
        "server_tool_use": {"web_search_requests": 1},
    }


@pytest.mark.parametrize(
    ("more", "cost"),
    [
        ({"usage": {"input_tokens": 5}, "total_cost_usd": 1.0}, None),
        ({"usage": {"input_tokens": 0}, "total_cost_usd": 1.0}, 0.0),
        ({"total_cost_usd": 1.0}, None),
        ({"model_usage_since_last_result": {"z": {**ENTRY, "costBasis": "unknown"}}}, None),
        ({"model_usage_since_last_result": {"z": {**ENTRY, "costUSD": None}}}, None),
        ({"model_usage_since_last_result": {}, "usage": {"input_tokens": 0}}, 0.0),
    ],
)
def test_an_unknown_cost_is_unknown(more: dict[str, Any], cost: float | None) -> None:
    assert result(**more).cost_usd == cost


def test_success_may_be_an_error_and_may_lack_structured_output() -> None:
    assert not result(is_error=True).ok
    assert result(is_error=True).exit_code == 1
    assert result().structured_output is None
    assert result().ok


@pytest.mark.parametrize(
    ("more", "kind"),
    [
        ({"subtype": "error_max_turns"}, "max_turns"),
        ({"subtype": "error_max_budget_usd"}, "budget"),
        ({"subtype": "error_max_structured_output_retries"}, "schema"),
        ({"api_error_status": 401}, "auth"),
        ({"result": "Not logged in · Please run /login"}, "auth"),
        ({"result": "API Error: 403 no"}, "auth"),
        ({"api_error_status": 429}, "rate_limited"),
        ({"result": "Overloaded"}, "rate_limited"),
        ({"result": "Claude usage limit reached, resets 5pm"}, "rate_limited"),
        ({"errors": ["No conversation found with session ID: x"]}, "session"),
        ({"api_error_status": 400}, "api"),
        ({"terminal_reason": "api_error"}, "api"),
        ({"subtype": "error_during_execution"}, "cli"),
    ],
)
def test_failure_classes(more: dict[str, Any], kind: str) -> None:
    failure = failure_of(result(is_error=True, **more))
    assert failure is not None
    assert failure.kind == kind


def test_an_error_text_is_cut_and_a_good_result_is_no_failure() -> None:
    failure = failure_of(result(is_error=True, result="x" * 5000))
    assert failure is not None
    assert len(str(failure)) < 400
    assert failure_of(result(result="API Error: 401 is what the text is about")) is None


@pytest.mark.parametrize(
    "secret",
    [
        "sk-ant-api03-AbC_def-123456",
        "sk-ant-oat01-AbC_def-123456",
        "123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw",
        "ghp_" + "a" * 36,
        "known-secret",
    ],
)
def test_secrets_are_taken_out(secret: str) -> None:
    line = json.dumps({"text": f"x {secret}\ny", "header": f"Bearer {secret}"})
    clean = redact_secrets(line, ["known-secret"])
    assert secret not in clean
    assert json.loads(clean)["text"].startswith("x ")


def test_ordinary_text_is_left_alone() -> None:
    text = "At 12:30 the bearer of news, 123456:short, sk-ant and 1234567890 came."
    assert redact_secrets(text) == text
