"""Every rule of rich content, by its error kind (spec agent-runtime 2.1)."""

import copy
import json
from typing import Any

import jsonschema
import pytest
from pydantic import BaseModel

from rightlab.content import ERROR_KINDS, RichContent, Run, rich_content_schema, validate
from rightlab.content import Paragraph as ParagraphBlock
from rightlab.errors import ContentError, UsageError


def runs(*texts: str, **style: Any) -> list[dict[str, Any]]:
    return [{"text": text, **style} for text in texts]


def blocks(*items: dict[str, Any]) -> dict[str, Any]:
    return {"blocks": list(items)}


def paragraph(*texts: str, **style: Any) -> dict[str, Any]:
    return {"type": "paragraph", "runs": runs(*texts, **style)}


def table(*rows: list[list[dict[str, Any]]]) -> dict[str, Any]:
    return {"type": "table", "rows": [[{"runs": cell} for cell in row] for row in rows]}


EVERYTHING = blocks(
    {"type": "heading", "level": 1, "runs": runs("Report")},
    {
        "type": "paragraph",
        "runs": [
            *runs("See ", "here", marks=["bold", "italic"]),
            *runs(".", link="https://a.example/x?y=1#z"),
        ],
    },
    {
        "type": "list",
        "ordered": True,
        "items": [{"runs": runs("one")}, {"runs": runs("two", marks=["strikethrough"])}],
    },
    {"type": "list", "ordered": False, "items": [{"runs": runs("dot", link="tg://user?id=1")}]},
    {"type": "quote", "runs": runs("said", marks=None, link=None)},
    {"type": "code", "text": "if x:\n    y()", "language": "python"},
    {"type": "code", "text": "plain", "language": None},
    {"type": "paragraph", "runs": runs("ls -l", marks=["code"])},
    table([runs("a"), runs("b")], [runs("c"), []]),
)

BROKEN: list[tuple[str, str, Any]] = [
    ("EmptyContent", "text", {"text": ""}),
    ("EmptyContent", "text", {"text": " \n\t\u00a0\u2003"}),
    ("EmptyContent", "blocks", blocks()),
    ("EmptyContent", "blocks[0].runs", blocks({"type": "paragraph", "runs": []})),
    ("EmptyContent", "blocks[0].runs[1].text", blocks(paragraph("a", " ", "b"))),
    (
        "EmptyContent",
        "blocks[0].items[0].runs",
        blocks({"type": "list", "ordered": True, "items": [{"runs": []}]}),
    ),
    ("EmptyContent", "blocks[0].text", blocks({"type": "code", "text": "\n", "language": None})),
    ("EmptyContent", "blocks", blocks(table([[], []]))),
    ("SourceTextTooLong", "text", {"text": "x" * 32_769}),
    ("SourceTextTooLong", "text", {"text": "😀" * 16_385}),
    (
        "SourceTextTooLong",
        "blocks[0].text",
        blocks({"type": "code", "text": "😀" * 16_385, "language": None}),
    ),
    ("SourceTextTooLong", "blocks[0].runs[0].text", blocks(paragraph("x" * 32_769))),
    ("HeadingLevel", "blocks[0].level", blocks({"type": "heading", "level": 0, "runs": runs("x")})),
    ("HeadingLevel", "blocks[0].level", blocks({"type": "heading", "level": 4, "runs": runs("x")})),
    ("HeadingLevel", "blocks[0].level", blocks({"type": "heading", "level": True, "runs": runs("x")})),
    ("HeadingLevel", "blocks[0].level", blocks({"type": "heading", "level": "1", "runs": runs("x")})),
    ("EmptyList", "blocks[0].items", blocks({"type": "list", "ordered": False, "items": []})),
    ("EmptyTable", "blocks[0].rows", blocks({"type": "table", "rows": []})),
    ("EmptyTable", "blocks[0].rows[1]", blocks({"type": "table", "rows": [[{"runs": runs("a")}], []]})),
    ("NonRectangularTable", "blocks[1].rows[1]", blocks(paragraph("x"), table([runs("a"), []], [runs("b")]))),
    ("DuplicateMark", "blocks[0].runs[0].marks", blocks(paragraph("x", marks=["bold", "bold"]))),
    ("InvalidCodeMark", "blocks[0].runs[0]", blocks(paragraph("x", marks=["code", "bold"]))),
    (
        "InvalidCodeMark",
        "blocks[0].runs[0]",
        blocks(paragraph("x", marks=["code"], link="https://a.example")),
    ),
    (
        "InvalidLink",
        "blocks[2].runs[0].link",
        blocks(paragraph("x"), paragraph("y"), paragraph("z", link="ftp://a.example")),
    ),
    ("InvalidLink", "blocks[0].runs[0].link", blocks(paragraph("x", link="javascript:alert(1)"))),
    ("InvalidLink", "blocks[0].runs[0].link", blocks(paragraph("x", link="https://"))),
    ("InvalidLink", "blocks[0].runs[0].link", blocks(paragraph("x", link="http://:80/x"))),
    ("InvalidLink", "blocks[0].runs[0].link", blocks(paragraph("x", link="https:a.example"))),
    ("InvalidLink", "blocks[0].runs[0].link", blocks(paragraph("x", link="https://[::1"))),
    ("InvalidLink", "blocks[0].runs[0].link", blocks(paragraph("x", link="https://a.example:99999"))),
    ("InvalidLink", "blocks[0].runs[0].link", blocks(paragraph("x", link="https://a.ex ample"))),
    ("InvalidLink", "blocks[0].runs[0].link", blocks(paragraph("x", link="https://a.example\n"))),
    ("InvalidLink", "blocks[0].runs[0].link", blocks(paragraph("x", link="tg:"))),
    ("InvalidLink", "blocks[0].runs[0].link", blocks(paragraph("x", link=""))),
    ("UnknownKey", "content", {"text": "x", "blocks": [paragraph("y")]}),
    ("UnknownKey", "content", {"body": "x"}),
    ("UnknownKey", "blocks[0]", blocks({**paragraph("x"), "level": 1})),
    ("UnknownKey", "blocks[0].runs[0]", blocks(paragraph("x", color="red"))),
    (
        "UnknownKey",
        "blocks[0].items[0]",
        blocks({"type": "list", "ordered": True, "items": [{"runs": runs("x"), "no": 1}]}),
    ),
    ("UnknownKey", "blocks[0].rows[0][0]", blocks({"type": "table", "rows": [[{"runs": [], "span": 2}]]})),
    ("MissingKey", "content", {}),
    ("MissingKey", "blocks[0]", blocks({"runs": runs("x")})),
    ("MissingKey", "blocks[0]", blocks({"type": "code", "text": "x"})),
    ("MissingKey", "blocks[0].runs[0]", blocks({"type": "quote", "runs": [{}]})),
    ("WrongType", "content", "text"),
    ("WrongType", "content", None),
    ("WrongType", "blocks", {"blocks": "x"}),
    ("WrongType", "blocks[0]", {"blocks": ["x"]}),
    (
        "WrongType",
        "blocks[0].ordered",
        blocks({"type": "list", "ordered": 1, "items": [{"runs": runs("x")}]}),
    ),
    ("WrongType", "blocks[0].runs[0].text", blocks({"type": "quote", "runs": [{"text": 5}]})),
    ("WrongType", "blocks[0].runs[0].marks", blocks(paragraph("x", marks="bold"))),
    ("WrongType", "blocks[0].runs[0].link", blocks(paragraph("x", link=7))),
    ("WrongType", "blocks[0].language", blocks({"type": "code", "text": "x", "language": 3})),
    ("UnknownBlock", "blocks[0].type", blocks({"type": "image", "runs": runs("x")})),
    ("UnknownBlock", "blocks[0].type", blocks({"type": ["paragraph"], "runs": runs("x")})),
    ("UnknownMark", "blocks[0].runs[0].marks", blocks(paragraph("x", marks=["underline"]))),
    ("UnknownMark", "blocks[0].runs[0].marks", blocks(paragraph("x", marks=[["bold"]]))),
    ("InvalidText", "text", {"text": "half \ud83d"}),
]


@pytest.mark.parametrize(("kind", "where", "obj"), BROKEN)
def test_broken_rule_is_named_with_its_place(kind: str, where: str, obj: Any) -> None:
    with pytest.raises(ContentError) as caught:
        RichContent.model_validate(obj)
    assert (caught.value.kind, caught.value.where) == (kind, where)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(f"{where}: ")
    assert len(str(caught.value)) < 300
    str(caught.value).encode()


def test_every_kind_has_a_case() -> None:
    assert {kind for kind, _, _ in BROKEN} == set(ERROR_KINDS)


def test_everything_is_accepted_and_comes_back_in_the_contracts_form() -> None:
    before = copy.deepcopy(EVERYTHING)
    content = RichContent.model_validate(EVERYTHING)
    assert before == EVERYTHING
    out = content.to_json()
    assert out["blocks"][1]["runs"][0] == {"text": "See ", "marks": ["bold", "italic"], "link": None}
    assert out["blocks"][5] == {"type": "code", "text": "if x:\n    y()", "language": "python"}
    assert RichContent.model_validate(json.loads(json.dumps(out))) == content
    assert RichContent.model_validate_json(json.dumps(EVERYTHING)) == content
    jsonschema.Draft202012Validator(rich_content_schema()).validate(out)
    jsonschema.Draft202012Validator(rich_content_schema()).validate(EVERYTHING)


def test_marks_and_link_may_be_absent_null_or_no_mark_at_all() -> None:
    for style in ({}, {"marks": None}, {"link": None}, {"marks": []}):
        validate(blocks(paragraph("x", **style)))


@pytest.mark.parametrize(
    "link",
    [
        "http://a",
        "https://ü.example/ä",
        "https://[::1]:8080/",
        "tg://resolve?domain=x",
        "tg:resolve?domain=x",
    ],
)
def test_good_links(link: str) -> None:
    validate(blocks(paragraph("x", link=link)))


def test_C10_astral_text_passes_the_schema_and_fails_at_run_time() -> None:
    obj = {"text": "😀" * 20_000}
    jsonschema.validate(obj, rich_content_schema())
    with pytest.raises(ContentError, match="40,000 UTF-16 units"):
        RichContent.model_validate(obj)
    assert RichContent.model_validate({"text": "😀" * 16_384})


def test_C11_code_link_ftp_ragged_and_empty_cells() -> None:
    for kind in ("InvalidCodeMark", "InvalidLink", "NonRectangularTable"):
        assert any(kind == case[0] for case in BROKEN)
    assert RichContent.model_validate(blocks(table([runs("a"), []]))).plain_text() == "a"


def test_schema_is_closed_undescribed_and_fresh() -> None:
    schema = rich_content_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    text = json.dumps(schema)
    assert "description" not in text
    assert "$ref" not in text

    def closed(node: Any) -> int:
        if isinstance(node, list):
            return sum(closed(item) for item in node)
        if not isinstance(node, dict):
            return 0
        if "properties" in node:
            assert node["additionalProperties"] is False
            assert set(node["required"]) <= set(node["properties"])
            return 1 + closed(list(node["properties"].values()))
        return closed(list(node.values()))

    assert closed(schema) > 10
    schema.clear()
    assert rich_content_schema()


SCHEMA_KINDS = set(ERROR_KINDS) - {"InvalidText"}


@pytest.mark.parametrize(("kind", "where", "obj"), [case for case in BROKEN if case[0] in SCHEMA_KINDS])
def test_the_schema_refuses_what_a_schema_can_say(kind: str, where: str, obj: Any) -> None:
    beyond = {
        ("EmptyContent", "text"),
        ("SourceTextTooLong", "text"),
        ("NonRectangularTable", where),
    }
    refused = not jsonschema.Draft202012Validator(rich_content_schema()).is_valid(obj)
    if refused:
        return
    run_time_only = (kind, where) in beyond or kind in ("EmptyContent", "SourceTextTooLong", "InvalidLink")
    assert run_time_only, f"{kind} at {where} should be in the schema"


def test_content_inside_another_model_raises_the_same_error() -> None:
    class Reply(BaseModel):
        content: RichContent | None

    assert Reply.model_validate({"content": None}).content is None
    with pytest.raises(ContentError, match=r"blocks\[0\]\.type: unknown block 'image'"):
        Reply.model_validate({"content": {"blocks": [{"type": "image"}]}})


def test_built_in_python_it_is_held_to_the_same_rules() -> None:
    good = RichContent(blocks=(ParagraphBlock(runs=(Run(text="x", marks=("bold",)),)),))
    assert good.to_json() == {
        "blocks": [{"type": "paragraph", "runs": [{"text": "x", "marks": ["bold"], "link": None}]}]
    }
    with pytest.raises(ContentError) as caught:
        RichContent(blocks=(ParagraphBlock(runs=(Run(text="x", link="ftp://y"),)),))
    assert caught.value.kind == "InvalidLink"
    with pytest.raises(ContentError):
        RichContent()


def test_text_that_is_no_json_is_one_clear_line() -> None:
    with pytest.raises(ContentError, match="content: ") as caught:
        RichContent.model_validate_json("{oops")
    assert isinstance(caught.value, UsageError)
    assert "\n" not in str(caught.value)


def test_a_wrong_value_of_any_size_gives_a_short_message() -> None:
    with pytest.raises(ContentError) as caught:
        validate(blocks(paragraph("x", link="ftp://" + "x" * 1_000_000)))
    assert len(str(caught.value)) < 300
