"""The script's format, matching and answers (rightlab.claude.scripted)."""

import itertools
import json
import textwrap
from typing import Any

import pytest

from rightlab.claude import scripted
from rightlab.claude.scripted import load_script, schema_kind
from rightlab.claude.scripted_engine import ScriptEngine
from rightlab.claude.scripted_request import Seen
from rightlab.claude.scripted_schema import fill_schema, schema_problem
from rightlab.claude.scripted_wire import Answer
from rightlab.content import RichContent, rich_content_schema
from rightlab.errors import ConfigError

NULLABLE = {"anyOf": [*rich_content_schema()["anyOf"], {"type": "null"}]}
REPLY: dict[str, Any] = {
    "type": "object",
    "properties": {
        "content": NULLABLE,
        "used_skill_receipts": {"type": "array", "items": {"type": "object"}},
        "reply_to_message_id": {"type": ["integer", "null"]},
    },
    "required": ["content", "used_skill_receipts"],
    "additionalProperties": False,
}
CRON: dict[str, Any] = {
    "type": "object",
    "properties": {
        "delivery": {
            "oneOf": [
                {
                    "type": "object",
                    "properties": {"kind": {"const": "notify"}, "content": rich_content_schema()},
                    "required": ["kind", "content"],
                    "additionalProperties": False,
                },
                {
                    "type": "object",
                    "properties": {"kind": {"const": "silent"}, "reason": {"type": "string", "minLength": 1}},
                    "required": ["kind", "reason"],
                    "additionalProperties": False,
                },
            ]
        },
        "run_note": {"type": "string"},
    },
    "required": ["delivery", "run_note"],
    "additionalProperties": False,
}


def tool(name: str, schema: Any = None) -> dict[str, Any]:
    return {"name": name, "input_schema": schema or {"type": "object"}}


def request(*messages: Any, tools: Any = (), system: str = "", **extra: Any) -> dict[str, Any]:
    turns = [m if isinstance(m, dict) else {"role": "user", "content": m} for m in messages]
    return {
        "model": "claude-sonnet-5-5",
        "max_tokens": 100,
        "system": system,
        "messages": turns,
        "tools": list(tools),
        **extra,
    }


def called(name: str, result: str, *, error: bool = False) -> list[dict[str, Any]]:
    return [
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": name, "input": {}}]},
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "t1", "content": result, "is_error": error}],
        },
    ]


def ask(engine: ScriptEngine, body: dict[str, Any]) -> Answer:
    answer = engine.answer(json.dumps(body).encode())
    assert isinstance(answer, Answer), answer
    return answer


def engine(*rules: Any) -> ScriptEngine:
    return ScriptEngine(load_script(list(rules)))


def text_of(answer: Answer) -> str:
    return "".join(block.get("text", "") for block in answer.content)


def test_the_first_rule_that_matches_answers():
    e = engine({"match": "Umbrella", "reply": "take one"}, {"reply": "no idea"})
    assert text_of(ask(e, request("An UMBRELLA today?"))) == "take one"
    assert text_of(ask(e, request("tea?"))) == "no idea"


def test_without_a_matching_rule_it_refuses_in_the_api_s_shape():
    refusal = engine({"match": "a", "reply": "b"}).answer(json.dumps(request("zzz")).encode())
    assert refusal.status == 400
    assert refusal.should_retry is False
    assert "no rule of 'script' matches step 0 of 'zzz'" in refusal.message


def test_otherwise_builtin(tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text("otherwise: builtin\nrules:\n  - match: x-ray\n    reply: bones\n")
    e = ScriptEngine(load_script(path))
    assert text_of(ask(e, request("an x-ray"))) == "bones"
    assert "scripted" in text_of(ask(e, request("tea")))


@pytest.mark.parametrize(
    ("match", "holds"),
    [
        ({"text": "HELLO"}, True),
        ({"text": "bye"}, False),
        ({"regex": r"h(e)llo\b"}, True),
        ({"regex": "^world"}, False),
        ({"system": "you are a"}, True),
        ({"system": "nobody"}, False),
        ({"model": "sonnet"}, True),
        ({"model": "opus"}, False),
        ({"tool": "Bash"}, True),
        ({"tool": "Read"}, False),
        ({"step": 0}, True),
        ({"step": 1}, False),
        ({"request": 1}, True),
        ({"request": 2}, False),
        ({"schema": "reply"}, True),
        ({"schema": "none"}, False),
        ({"tool_result": False}, True),
        ({"tool_result": True}, False),
        ({"tool_error": False}, True),
        ({"text": "hello", "step": 3}, False),
    ],
)
def test_each_key_of_a_match(match, holds):
    body = request(
        "say hello", tools=[tool("Bash"), tool("StructuredOutput", REPLY)], system="You are a test"
    )
    answer = ask(engine({"match": match, "text": "yes"}, {"text": "no"}), body)
    assert text_of(answer) == ("yes" if holds else "no")


def test_tool_results_and_steps():
    e = engine(
        {
            "match": "date",
            "steps": [
                {"tools": [{"name": "Bash", "input": {"command": "date"}}]},
                {"reply": "step {{step}} said {{tool_result}}"},
            ],
        }
    )
    first = ask(e, request("the date"))
    assert first.stop_reason == "tool_use"
    assert first.content[0]["input"] == {"command": "date"}
    again = ask(e, request("the date"))
    assert [block["name"] for block in again.content] == ["Bash"]
    second = ask(e, request("the date", *called("Bash", "Monday")))
    assert text_of(second) == "step 1 said Monday"
    third = ask(e, request("the date", *called("Bash", "a"), *called("Bash", "Tuesday")))
    assert text_of(third) == "step 2 said Tuesday"


def test_a_rule_on_a_failed_tool():
    e = engine({"match": {"tool_error": True}, "text": "it failed"}, {"text": "fine"})
    assert text_of(ask(e, request("x", *called("Bash", "no", error=True)))) == "it failed"
    assert text_of(ask(e, request("x", *called("Bash", "yes")))) == "fine"


def test_a_sequence_goes_by_uses_and_times_retires_a_rule():
    e = engine(
        {
            "match": "flaky",
            "sequence": [{"error": {"status": 529}}, {"error": {"status": 429}}, {"text": "ok"}],
        },
        {"match": "once", "times": 1, "text": "first"},
        {"text": "later"},
    )
    assert [ask(e, request("flaky")).error for _ in range(2)] != [None, None]
    assert [text_of(ask(e, request("flaky"))) for _ in range(2)] == ["ok", "ok"]
    assert [text_of(ask(e, request("once"))) for _ in range(3)] == ["first", "later", "later"]


def test_templates_fill_known_names_only():
    e = engine(
        {"match": {"regex": "weather in (\\w+)"}, "text": "{{1}}: {{text}} {{2}}|{{model}} {{nobody}}"}
    )
    assert (
        text_of(ask(e, request("weather in Rome"))) == "Rome: weather in Rome |claude-sonnet-5-5 {{nobody}}"
    )


def test_what_a_person_said_is_not_injected_twice():
    e = engine({"text": "{{text}}"})
    assert text_of(ask(e, request("say {{tool_result}} {{model}}"))) == "say {{tool_result}} {{model}}"


def test_thinking_text_and_tools_in_order():
    answer = ask(
        engine({"thinking": "hm", "text": "now", "tools": [{"name": "A"}, {"name": "B"}]}), request("x")
    )
    assert [block["type"] for block in answer.content] == ["thinking", "text", "tool_use", "tool_use"]
    assert answer.content[2]["id"] != answer.content[3]["id"]


@pytest.mark.parametrize("schema", [REPLY, CRON])
def test_a_reply_uses_the_schema_it_is_asked_for(schema):
    body = request("hi", tools=[tool("StructuredOutput", schema)])
    (block,) = ask(engine({"reply": "the answer"}), body).content
    assert block["name"] == "StructuredOutput"
    assert schema_problem(block["input"], schema) is None
    assert "the answer" in json.dumps(block["input"])


def test_rich_replies_stay_rich():
    rich = {"blocks": [{"type": "paragraph", "runs": [{"text": "bold", "marks": ["bold"], "link": None}]}]}
    body = request("hi", tools=[tool("StructuredOutput", REPLY)])
    (block,) = ask(engine({"reply": rich}), body).content
    assert block["input"]["content"] == rich
    RichContent.model_validate(block["input"]["content"])
    assert text_of(ask(engine({"reply": rich}), request("hi"))) == "bold"


def test_values_and_structured_win_over_the_filler():
    body = request("hi", tools=[tool("StructuredOutput", CRON)])
    silent = {"kind": "silent", "reason": "nothing"}
    (block,) = ask(engine({"reply": "x", "values": {"delivery": silent}}), body).content
    assert block["input"]["delivery"] == silent
    (block,) = ask(engine({"structured": {"wrong": "{{text}}"}}), body).content
    assert block["input"] == {"wrong": "hi"}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {"enum": ["x", "y"]}}, "required": ["a"]},
        {"type": "string", "pattern": "^rightx-[a-z0-9-]+$"},
        {"type": "string", "minLength": 3, "maxLength": 5},
        {"type": "integer", "minimum": 4},
        {"type": "number", "maximum": -2},
        {"type": "array", "items": {"type": "boolean"}, "minItems": 2},
        {"type": ["null", "string"]},
        {"type": "null"},
        {"$ref": "#/$defs/A", "$defs": {"A": {"type": "object", "properties": {}, "required": []}}},
        {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/B"}], "$defs": {"B": {"const": 7}}},
        rich_content_schema(),
    ],
)
def test_the_filler_satisfies_the_schema(schema):
    assert schema_problem(fill_schema(schema, text="some words"), schema) is None


def test_schema_kinds():
    assert [schema_kind(s) for s in (None, REPLY, CRON, {"properties": {"x": {}}})] == [
        "none",
        "reply",
        "cron",
        "other",
    ]
    assert schema_kind({"properties": {"content": {}, "bootstrap_stage": {}}}) == "bootstrap"


def test_the_person_s_words_come_out_of_the_messages_document():
    stdin = (
        'focus: something saved\n\nmessages:\n- id: 1\n  ts: "2026-01-01T00:00:00Z"\n'
        '  text: "buy \\"milk\\"\\nnow"\n'
        '- id: 2\n  ts: "2026-01-01T00:00:01Z"\n  reply_to:\n    text: "not mine"\n  text: "and tea"\n'
    )
    seen = Seen(request(stdin))
    assert seen.text == 'buy "milk"\nnow\nand tea'
    assert seen.raw_text == stdin.strip()


@pytest.mark.parametrize(
    "raw", ["messages:\n  - [broken", "messages: 3", "messages:\n- id: 1", "plain words"]
)
def test_documents_that_are_none_are_taken_as_they_are(raw):
    assert Seen(request(raw)).text == raw


def test_reminders_and_nudges_are_not_a_person_s_words():
    blocks = [
        {"type": "text", "text": "<system-reminder>\nignore\n</system-reminder>\n"},
        {"type": "text", "text": "hi there\n"},
    ]
    nudge = {"role": "user", "content": [{"type": "text", "text": "[structured-output-enforce] You MUST"}]}
    env = {"role": "system", "content": [{"type": "text", "text": "# Environment"}]}
    answer = {"role": "assistant", "content": "plain text"}
    seen = Seen(request({"role": "user", "content": blocks}, env, answer, nudge))
    assert seen.text == "hi there"
    assert seen.step == 1


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("rules:\n  - match: a\n    replay: b\n", "rules.0.replay"),
        ("rules:\n  - match: {txt: a}\n    reply: b\n", "rules.0.match.txt"),
        ("rules:\n  - match: {regex: '('}\n    reply: b\n", "rules.0.match"),
        ("rules:\n  - match: a\n", "rules.0"),
        ("rules:\n  - reply: a\n    steps: [{reply: b}]\n", "rules.0"),
        ("rules:\n  - error: {status: 200}\n", "rules.0.error.status"),
        ("otherwise: maybe\n", "otherwise"),
        ("rules: 3\n", "rules"),
        ("just text", "document"),
        ("rules: [", "YAML"),
    ],
)
def test_broken_scripts_are_told_by_place(tmp_path, text, place):
    path = tmp_path / "s.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_script(path)
    line = str(caught.value)
    assert place in line
    assert str(path) in line
    assert "\n" not in line


def test_a_script_that_is_not_there(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        load_script(tmp_path / "none.yaml")


def test_the_example_in_the_documentation_works(tmp_path):
    lines = (scripted.__doc__ or "").splitlines()
    start = next(number for number, line in enumerate(lines) if line.strip().startswith("name:"))
    block = itertools.takewhile(lambda line: not line or line.startswith("    "), lines[start:])
    path = tmp_path / "s.yaml"
    path.write_text(textwrap.dedent("\n".join(block)))
    e = ScriptEngine(load_script(path))
    assert text_of(ask(e, request("an umbrella?"))) == "Take one."
    assert ask(e, request("weather in Rome")).content[0]["name"] == "Bash"
    assert text_of(ask(e, request("weather in Rome", *called("Bash", "sun")))) == "The tool said: sun"
    assert ask(e, request("flaky")).error.status == 529
    assert ask(e, request("tea")).usage.output == 30


def test_a_plain_list_is_a_script_too(tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text("- match: a\n  reply: b\n")
    assert len(load_script(path).rules) == 1
