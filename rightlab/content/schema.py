"""The JSON Schema a model's rich content is held to (spec agent-runtime 2.1)."""

from typing import Any

__all__ = ["LINK_PATTERN", "MARKS", "MAX_TEXT", "rich_content_schema"]

MAX_TEXT = 32_768
"""Code points in the schema, UTF-16 code units at run time: most a source text may hold."""

MARKS = ("bold", "italic", "strikethrough", "code")
LINK_PATTERN = "^(https?|tg):"

Schema = dict[str, Any]


def rich_content_schema() -> Schema:
    """Rich content as a JSON Schema: self-contained, no ``description``, no unknown keys at any level.

    A fresh dict each time, so that it may be put into a larger schema. It counts code points; the run-time
    validation counts UTF-16 units and knows the rules a schema cannot say.
    """
    return {
        "anyOf": [
            _object({"text": _text()}),
            _object({"blocks": _array({"anyOf": _blocks()})}),
        ]
    }


def _blocks() -> list[Schema]:
    return [
        _block("paragraph", runs=_runs()),
        _block("heading", level={"type": "integer", "minimum": 1, "maximum": 3}, runs=_runs()),
        _block("list", ordered={"type": "boolean"}, items=_array(_object({"runs": _runs()}))),
        _block("quote", runs=_runs()),
        _block("code", text=_text(), language=_nullable({"type": "string"})),
        _block("table", rows=_array(_array(_object({"runs": _runs(least=0)})))),
    ]


def _block(kind: str, **keys: Schema) -> Schema:
    return _object({"type": {"const": kind}, **keys})


def _runs(least: int = 1) -> Schema:
    styled = [mark for mark in MARKS if mark != "code"]
    link = {"type": "string", "pattern": LINK_PATTERN}
    return _array(
        {
            "anyOf": [
                _object(
                    {"text": _text(), "marks": _nullable(_marks(styled)), "link": _nullable(link)},
                    optional=("marks", "link"),
                ),
                _object(
                    {
                        "text": _text(),
                        "marks": {**_marks(["code"]), "minItems": 1, "maxItems": 1},
                        "link": {"type": "null"},
                    },
                    optional=("link",),
                ),
            ]
        },
        least,
    )


def _marks(names: list[str]) -> Schema:
    return {"type": "array", "items": {"enum": names}, "uniqueItems": True}


def _text() -> Schema:
    return {"type": "string", "minLength": 1, "maxLength": MAX_TEXT}


def _nullable(schema: Schema) -> Schema:
    return {**schema, "type": [schema["type"], "null"]}


def _array(items: Schema, least: int = 1) -> Schema:
    return {"type": "array", "items": items, **({"minItems": least} if least else {})}


def _object(properties: Schema, optional: tuple[str, ...] = ()) -> Schema:
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
