"""Schemas and answers (spec agent-runtime 2.3-2.8; C9, C10)."""

import json
from dataclasses import dataclass
from typing import Any

import jsonschema
import pytest

from rightlab.claude import (
    parse_background,
    parse_bootstrap,
    parse_cron,
    parse_reply,
    reply_with_receipts,
    schema_for,
)
from rightlab.content import rich_content_schema
from rightlab.errors import TurnFailed

NAMES = ["reply", "bootstrap", "cron", "background", "prefilter", "curator_plan"]
RECEIPT = {"package_name": "rightx-weather", "message": "Used the forecast"}


@dataclass
class Said:
    structured_output: Any = None
    text: str = ""


def accepts(name: str, value: Any) -> bool:
    return bool(jsonschema.Draft202012Validator(schema_for(name)).is_valid(value))


def reply(**more: Any) -> dict[str, Any]:
    return {"content": {"text": "Hi"}, "used_skill_receipts": [], **more}


def test_the_reply_schema_exactly() -> None:
    attachment = {
        "additionalProperties": False,
        "properties": {
            "type": {
                "enum": [
                    "photo",
                    "document",
                    "video",
                    "audio",
                    "voice",
                    "video_note",
                    "sticker",
                    "animation",
                ],
                "type": "string",
            },
            "path": {"type": "string"},
            "filename": {"type": ["string", "null"]},
            "caption": {"type": ["string", "null"]},
            "media_group_id": {"type": ["string", "null"]},
        },
        "required": ["type", "path"],
        "type": "object",
    }
    receipt = {
        "additionalProperties": False,
        "properties": {
            "package_name": {"pattern": "^rightx-", "type": "string"},
            "message": {"minLength": 1, "type": "string"},
        },
        "required": ["package_name", "message"],
        "type": "object",
    }
    assert schema_for("reply") == {
        "additionalProperties": False,
        "properties": {
            "content": {"anyOf": [*rich_content_schema()["anyOf"], {"type": "null"}]},
            "used_skill_receipts": {"items": receipt, "type": "array"},
            "reply_to_message_id": {"type": ["integer", "null"]},
            "attachments": {"items": attachment, "type": ["array", "null"]},
        },
        "required": ["content", "used_skill_receipts"],
        "type": "object",
    }


@pytest.mark.parametrize("name", NAMES)
def test_schemas_are_sound_closed_and_plain(name: str) -> None:
    schema = schema_for(name)
    jsonschema.Draft202012Validator.check_schema(schema)
    text = json.dumps(schema)
    for word in ("$ref", "$defs", '"title"', '"description"', '"default"'):
        assert word not in text

    def closed(node: Any) -> None:
        if isinstance(node, dict):
            if node.get("type") == "object":
                assert node["additionalProperties"] is False
            for value in node.values():
                closed(value)
        elif isinstance(node, list):
            for value in node:
                closed(value)

    closed(schema)


@pytest.mark.parametrize("name", NAMES)
def test_a_schema_is_the_same_bytes_each_time(name: str) -> None:
    first = schema_for(name)
    text = json.dumps(first)
    first["properties"].clear()
    assert json.dumps(schema_for(name)) == text


@pytest.mark.parametrize(
    ("name", "value", "good"),
    [
        ("reply", reply(), True),
        ("reply", reply(content=None), True),
        ("reply", reply(used_skill_receipts=[RECEIPT]), True),
        ("reply", {"content": None}, False),
        ("reply", reply(extra=1), False),
        ("reply", reply(content="text"), False),
        ("reply", reply(used_skill_receipts=[{"package_name": "other", "message": "x"}]), False),
        ("reply", reply(attachments=[{"type": "photo", "path": "/sandbox/outbox/a.png"}]), True),
        ("reply", reply(attachments=[{"type": "gif", "path": "a"}]), False),
        ("bootstrap", {"content": None, "bootstrap_complete": False, "bootstrap_stage": "vibe"}, True),
        ("bootstrap", {"content": None, "bootstrap_complete": False, "bootstrap_stage": "other"}, False),
        ("cron", {"delivery": {"kind": "silent", "reason": "quiet"}, "run_note": ""}, True),
        ("cron", {"delivery": {"kind": "silent", "reason": ""}, "run_note": ""}, False),
        ("cron", {"delivery": {"kind": "notify", "content": {"text": "x"}}, "run_note": ""}, True),
        ("cron", {"delivery": {"kind": "notify"}, "run_note": ""}, False),
        ("cron", {"delivery": {"kind": "notify", "content": None}, "run_note": ""}, False),
        ("cron", {"delivery": {"kind": "silent", "reason": "x"}}, False),
        ("background", {"delivery": {"kind": "notify", "content": {"text": "x"}}, "run_note": ""}, True),
        ("background", {"delivery": {"kind": "silent", "reason": "x"}, "run_note": ""}, False),
        ("prefilter", {"decision": "skip", "reason": "x"}, True),
        ("prefilter", {"decision": "skip", "reason": "x" * 401}, False),
        (
            "prefilter",
            {"decision": "patch_existing", "reason": "x", "target_skill": "rightx-A"},
            False,
        ),
        ("curator_plan", {"actions": [{"kind": "merge", "skills": ["a"], "rationale": "r"}]}, True),
        ("curator_plan", {"actions": [{"kind": "drop", "skills": ["a"], "rationale": "r"}]}, False),
    ],
)
def test_schema_cases(name: str, value: Any, good: bool) -> None:
    assert accepts(name, value) is good
    parser = {"bootstrap": parse_bootstrap, "cron": parse_cron, "background": parse_background}.get(name)
    if parser is not None and good:
        parser(Said(value))
    elif parser is not None:
        with pytest.raises(TurnFailed) as caught:
            parser(Said(value))
        assert caught.value.kind == "schema"


def test_c9_receipts_empty_accepted_missing_rejected() -> None:
    assert parse_reply(Said(reply())).used_skill_receipts == []
    with pytest.raises(TurnFailed, match="used_skill_receipts") as caught:
        parse_reply(Said({"content": None}))
    assert caught.value.kind == "schema"


def test_c10_astral_text_passes_the_schema_and_fails_at_run_time() -> None:
    value = reply(content={"text": "😀" * 20_000})
    assert accepts("reply", value)
    with pytest.raises(TurnFailed, match="SourceTextTooLong"):
        parse_reply(Said(value))


def test_structured_output_goes_before_the_result_text() -> None:
    said = Said(reply(), json.dumps(reply(content={"text": "other"})))
    assert plain(said) == "Hi"


def test_the_result_text_is_taken_when_there_is_no_structured_output() -> None:
    assert plain(Said(None, json.dumps(reply()))) == "Hi"


@pytest.mark.parametrize("text", ["just words", '{"a": 1}', "{not json", "[1, 2]", '"quoted"'])
def test_a_plain_result_is_literal_content(text: str) -> None:
    said = parse_reply(Said(None, text))
    assert said.content is not None
    assert said.content.plain_text() == text
    assert said.used_skill_receipts == []


@pytest.mark.parametrize(
    "said", [Said(reply(content=None)), Said(None, ""), Said(None, " \n"), Said(reply(content=""))]
)
def test_nothing_said_is_null_content(said: Said) -> None:
    assert parse_reply(said).content is None


def test_a_legacy_string_is_upgraded_and_legacy_fields_are_ignored() -> None:
    assert plain(Said(reply(content="old *text*", learning_signal={"x": 1}, skill_issue_signal=None))) == (
        "old *text*"
    )


def test_unknown_fields_and_broken_content_are_refused() -> None:
    with pytest.raises(TurnFailed, match="surprise"):
        parse_reply(Said(reply(surprise=1)))
    with pytest.raises(TurnFailed, match="content breaks a rule"):
        parse_reply(Said(reply(content={"blocks": []})))
    with pytest.raises(TurnFailed, match="not an object"):
        parse_reply(Said(["a"]))


def test_receipts_of_others_and_empty_ones_are_dropped() -> None:
    given = [RECEIPT, {"package_name": "other", "message": "x"}, {"package_name": "rightx-b", "message": " "}]
    kept = parse_reply(Said(reply(used_skill_receipts=given))).used_skill_receipts
    assert [item.package_name for item in kept] == ["rightx-weather"]
    with pytest.raises(TurnFailed):
        parse_reply(Said(reply(used_skill_receipts=[{"package_name": "rightx-b"}])))


def test_receipts_become_the_last_paragraph() -> None:
    two = [RECEIPT, {"package_name": "rightx-b", "message": "And b"}]
    content = reply_with_receipts(parse_reply(Said(reply(used_skill_receipts=two))))
    assert content is not None
    assert content.plain_text() == "Hi\n\n💡 Used the forecast (rightx-weather)\n💡 And b (rightx-b)"
    runs = content.to_json()["blocks"][-1]["runs"]
    assert [run["text"] for run in runs if run.get("marks") == ["code"]] == ["rightx-weather", "rightx-b"]


def test_a_receipt_alone_becomes_the_content() -> None:
    content = reply_with_receipts(parse_reply(Said(reply(content=None, used_skill_receipts=[RECEIPT]))))
    assert content is not None
    assert content.plain_text() == "💡 Used the forecast (rightx-weather)"
    assert reply_with_receipts(parse_reply(Said(reply(content=None)))) is None


def test_cron_text_is_never_an_answer() -> None:
    for said in (Said(None, "some words"), Said(None, "")):
        with pytest.raises(TurnFailed, match="no structured cron answer"):
            parse_cron(said)
    legacy = parse_cron(Said({"delivery": {"kind": "notify", "content": "old"}, "run_note": "n"}))
    assert legacy.delivery.kind == "notify"


def plain(said: Said) -> str:
    content = parse_reply(said).content
    assert content is not None
    return content.plain_text()
