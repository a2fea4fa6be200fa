"""The builtin persona: always clearly scripted, answers in any schema, deterministic."""

import json
import shlex

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rightlab.claude.scripted import load_script
from rightlab.claude.scripted_engine import ScriptEngine
from rightlab.claude.scripted_schema import schema_problem
from rightlab.content import RichContent, rich_content_schema

NULLABLE = {"anyOf": [*rich_content_schema()["anyOf"], {"type": "null"}]}
REPLY = {
    "type": "object",
    "properties": {"content": NULLABLE, "used_skill_receipts": {"type": "array"}},
    "required": ["content", "used_skill_receipts"],
    "additionalProperties": False,
}
CRON = {
    "type": "object",
    "properties": {
        "delivery": {
            "oneOf": [
                {
                    "type": "object",
                    "properties": {"kind": {"const": "notify"}, "content": rich_content_schema()},
                    "required": ["kind", "content"],
                },
                {
                    "type": "object",
                    "properties": {"kind": {"const": "silent"}, "reason": {"type": "string"}},
                    "required": ["kind", "reason"],
                },
            ]
        },
        "run_note": {"type": "string"},
    },
    "required": ["delivery", "run_note"],
}
BOOTSTRAP = {
    "type": "object",
    "properties": {
        "content": NULLABLE,
        "bootstrap_complete": {"type": "boolean"},
        "bootstrap_stage": {"enum": ["user_name", "final"]},
    },
    "required": ["content", "bootstrap_complete", "bootstrap_stage"],
}


def ask(text, *, schema=REPLY, tools=(), after=(), **extra):
    names = [{"name": name, "input_schema": {"type": "object"}} for name in tools]
    body = {
        "model": "m",
        "max_tokens": 10,
        "messages": [{"role": "user", "content": text}, *after],
        "tools": [*names, {"name": "StructuredOutput", "input_schema": schema}],
        **extra,
    }
    return ScriptEngine(load_script("builtin")).answer(json.dumps(body).encode())


def reply(answer):
    (block,) = (b for b in answer.content if b.get("name") == "StructuredOutput")
    return RichContent.model_validate(block["input"]["content"]).plain_text()


@settings(max_examples=60, deadline=None)
@given(st.text(min_size=1, max_size=300).filter(lambda text: text.strip()))
def test_answers_anything_in_the_reply_schema_and_says_it_is_scripted(text):
    answer = ask("words: " + text)
    value = answer.content[-1]["input"]
    assert schema_problem(value, REPLY) is None
    assert "scripted" in reply(answer)
    assert ask("words: " + text).content == answer.content


@pytest.mark.parametrize("text", ["hello", "help", "prompt please", "a table", "what is up"])
@pytest.mark.parametrize("schema", [REPLY, CRON, BOOTSTRAP, {"type": "object"}])
def test_every_word_in_every_schema(text, schema):
    answer = ask(text, schema=schema)
    assert schema_problem(answer.content[-1]["input"], schema) is None


def test_echoes_what_was_said():
    assert '"the kettle is on"' in reply(ask("the kettle is on"))


def test_calls_the_tool_server_and_tells_what_it_answered():
    name = "mcp__right__rightmeta__mcp_list"
    first = ask("which tools are there", tools=[name])
    assert [block.get("name") for block in first.content] == [None, name]
    call = {"role": "assistant", "content": first.content}
    result = {"type": "tool_result", "tool_use_id": first.content[1]["id"], "content": '{"servers":[]}'}
    second = ask("which tools are there", tools=[name], after=[call, {"role": "user", "content": [result]}])
    assert 'rightmeta__mcp_list and it answered: {"servers":[]}' in reply(second)


def test_names_the_tools_when_the_server_is_not_there():
    assert "Bash, StructuredOutput" in reply(ask("tools?", tools=["Bash"]))


def test_sends_through_the_tool():
    answer = ask("send a postcard", tools=["mcp__right__send_message"])
    assert answer.content[0]["input"] == {"content": {"text": "(scripted) a postcard"}}
    assert "not given" in reply(ask("send a postcard"))


@pytest.mark.parametrize(
    "fact", ["that's $(touch /x) `id`; rm -rf ~", "it's tea", "-n -e \\x00 %s %d", "a\nb"]
)
def test_remember_writes_the_words_and_runs_none_of_them(fact):
    command = ask(f"remember {fact}", tools=["Bash"]).content[-1]["input"]["command"]
    words = shlex.split(command.split(" >> ")[0])
    assert words[:2] == ["printf", "%s\\n"]
    assert len(words) == 3
    assert words[2].startswith("- ")


def test_errors_on_request():
    assert ask("error 429").error.status == 429
    assert ask("error").error.status == 529
    assert "no error status" in reply(ask("error 200"))
    assert ask("I found an error in the text").error is None


def test_slow_and_drop_on_request():
    assert ask("slow 3").delay == 3
    assert ask("slow 99").delay == 60
    assert ask("cut the line").drop == "middle"


def test_crons():
    value = ask("report on the weather", schema=CRON).content[-1]["input"]
    assert value["delivery"]["kind"] == "notify"
    assert "report on the weather" in value["delivery"]["content"]["text"]
    silent = ask("if there is nothing to report, be silent", schema=CRON).content[-1]["input"]
    assert silent["delivery"]["kind"] == "silent"


def test_tells_about_the_request_it_was_sent():
    text = reply(ask("how big is the prompt", system="# One\ntext\n## Two\n", tools=["Bash"]))
    assert "2 tools" in text
    assert "2 headings" in text
