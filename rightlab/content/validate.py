"""The run-time rules of rich content, each failure one line that names the place (spec agent-runtime 2.1).

A hand-written walk rather than a schema library's report: a model that gets the error back can act on
``blocks[2].runs[0].link`` and one sentence, and a wrong block is not explained once per block type.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from rightlab.content.graphemes import utf16_len
from rightlab.content.schema import LINK_PATTERN, MARKS, MAX_TEXT
from rightlab.errors import ContentError

__all__ = ["ERROR_KINDS", "validate"]

ERROR_KINDS = (
    "EmptyContent",
    "SourceTextTooLong",
    "HeadingLevel",
    "EmptyList",
    "EmptyTable",
    "NonRectangularTable",
    "DuplicateMark",
    "InvalidCodeMark",
    "InvalidLink",
    "UnknownKey",
    "MissingKey",
    "WrongType",
    "UnknownBlock",
    "UnknownMark",
    "InvalidText",
)
"""Every ``ContentError.kind``: first the rules of spec 2.1, then what the JSON Schema says already."""

_LINK = re.compile(LINK_PATTERN)
_NOT_IN_A_URL = re.compile(r"[\s\x00-\x20\x7f<>\"]")
_SURROGATE = re.compile("[\ud800-\udfff]")


def validate(obj: object) -> None:
    """Hold ``obj`` (decoded JSON) to every rule of rich content.

    :raises ContentError: for the first rule broken; ``.kind`` is one of :data:`ERROR_KINDS`, ``.where`` the
        path of the value (``content`` is the whole).
    """
    content = _mapping(obj, "")
    if "text" in content:
        _keys(content, "", ("text",))
        _source_text(content["text"], "text")
        return
    if "blocks" not in content:
        _keys(content, "", (), optional=("text", "blocks"))
        raise _error(
            "MissingKey", "", "has neither text nor blocks", 'Give {"text": ...} or {"blocks": [...]}.'
        )
    _keys(content, "", ("blocks",))
    blocks = _array(content["blocks"], "blocks")
    if not blocks:
        raise _error("EmptyContent", "blocks", "has no block", "Give at least one.")
    for index, block in enumerate(blocks):
        _block(block, f"blocks[{index}]")
    if not any(_says_something(block) for block in blocks):
        raise _error("EmptyContent", "blocks", "has no visible character", "Give at least one.")


def _block(obj: object, path: str) -> None:
    block = _mapping(obj, path)
    if "type" not in block:
        raise _error("MissingKey", path, "has no type", f"Use one of {', '.join(_BLOCKS)}.")
    kind = block["type"]
    check = _BLOCKS.get(kind) if isinstance(kind, str) else None
    if check is None:
        raise _error(
            "UnknownBlock",
            f"{path}.type",
            f"unknown block {_show(kind)}",
            f"Use one of {', '.join(_BLOCKS)}.",
        )
    check(block, path)


def _paragraph(block: Mapping[str, Any], path: str) -> None:
    _keys(block, path, ("type", "runs"))
    _runs(block["runs"], f"{path}.runs")


def _heading(block: Mapping[str, Any], path: str) -> None:
    _keys(block, path, ("type", "level", "runs"))
    level = block["level"]
    if type(level) is not int or not 1 <= level <= 3:
        raise _error("HeadingLevel", f"{path}.level", f"is {_show(level)}", "Use 1, 2 or 3.")
    _runs(block["runs"], f"{path}.runs")


def _list(block: Mapping[str, Any], path: str) -> None:
    _keys(block, path, ("type", "ordered", "items"))
    if not isinstance(block["ordered"], bool):
        raise _wrong_type(block["ordered"], f"{path}.ordered", "true or false")
    items = _array(block["items"], f"{path}.items")
    if not items:
        raise _error("EmptyList", f"{path}.items", "has no item", "Give at least one.")
    for index, item in enumerate(items):
        at = f"{path}.items[{index}]"
        _keys(_mapping(item, at), at, ("runs",))
        _runs(item["runs"], f"{at}.runs")


def _code(block: Mapping[str, Any], path: str) -> None:
    _keys(block, path, ("type", "text", "language"))
    _source_text(block["text"], f"{path}.text")
    if block["language"] is not None:
        _string(block["language"], f"{path}.language")


def _table(block: Mapping[str, Any], path: str) -> None:
    _keys(block, path, ("type", "rows"))
    rows = _array(block["rows"], f"{path}.rows")
    if not rows:
        raise _error("EmptyTable", f"{path}.rows", "has no row", "Give at least one.")
    width = None
    for index, row in enumerate(rows):
        at = f"{path}.rows[{index}]"
        cells = _array(row, at)
        if not cells:
            raise _error("EmptyTable", at, "has no cell", "Give at least one.")
        width = len(cells) if width is None else width
        if len(cells) != width:
            raise _error(
                "NonRectangularTable",
                at,
                f"has {len(cells)} cells, the first row {width}",
                "Make all rows equally wide.",
            )
        for column, cell in enumerate(cells):
            here = f"{at}[{column}]"
            _keys(_mapping(cell, here), here, ("runs",))
            _runs(cell["runs"], f"{here}.runs", may_be_empty=True)


_BLOCKS: dict[str, Callable[[Mapping[str, Any], str], None]] = {
    "paragraph": _paragraph,
    "heading": _heading,
    "list": _list,
    "quote": _paragraph,
    "code": _code,
    "table": _table,
}


def _runs(obj: object, path: str, *, may_be_empty: bool = False) -> None:
    runs = _array(obj, path)
    if not runs and not may_be_empty:
        raise _error("EmptyContent", path, "has no run", "Give at least one.")
    for index, run in enumerate(runs):
        _run(run, f"{path}[{index}]")


def _run(obj: object, path: str) -> None:
    run = _mapping(obj, path)
    _keys(run, path, ("text",), optional=("marks", "link"))
    text = _string(run["text"], f"{path}.text")
    if not text.strip():
        raise _error(
            "EmptyContent", f"{path}.text", "has no visible character", "Join it to the run before it."
        )
    if len(text) > MAX_TEXT:
        raise _too_long(f"{path}.text", len(text), "characters")
    marks = _marks(run.get("marks"), f"{path}.marks")
    link = run.get("link")
    if "code" in marks and (len(marks) > 1 or link is not None):
        other = "a link" if link is not None else "another mark"
        raise _error("InvalidCodeMark", path, f"joins the code mark with {other}", "Let code stand alone.")
    if link is not None:
        _link(_string(link, f"{path}.link"), f"{path}.link")


def _marks(obj: object, path: str) -> list[str]:
    if obj is None:
        return []
    marks = _array(obj, path)
    seen: list[str] = []
    for mark in marks:
        if mark not in MARKS:
            raise _error("UnknownMark", path, f"unknown mark {_show(mark)}", f"Use {', '.join(MARKS)}.")
        if mark in seen:
            raise _error("DuplicateMark", path, f"names {mark} twice", "Name each mark once.")
        seen.append(mark)
    return seen


def _link(link: str, path: str) -> None:
    reason = _link_fault(link)
    if reason:
        raise _error("InvalidLink", path, f"{_show(link)} {reason}", "Use a whole http, https or tg address.")


def _link_fault(link: str) -> str | None:
    if not _LINK.match(link):
        return "does not begin with http:, https: or tg:"
    if _NOT_IN_A_URL.search(link):
        return "holds a character no address may hold"
    try:
        parts = urlsplit(link)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        return f"is not an address ({error})"
    if parts.scheme == "tg":
        return None if link[len("tg:") :].strip("/") else "names nothing"
    return None if host else "has no host"


def _source_text(obj: object, path: str) -> None:
    text = _string(obj, path)
    if not text.strip():
        raise _error("EmptyContent", path, "has no visible character", "Give at least one.")
    if (units := utf16_len(text)) > MAX_TEXT:
        raise _too_long(path, units, "UTF-16 units")


def _says_something(block: Mapping[str, Any]) -> bool:
    """Only a table may be all empty: every other block has a run or text, and these have been checked."""
    return block["type"] != "table" or any(cell["runs"] for row in block["rows"] for cell in row)


def _mapping(obj: object, path: str) -> Mapping[str, Any]:
    if not isinstance(obj, Mapping):
        raise _wrong_type(obj, path, "an object")
    return obj


def _array(obj: object, path: str) -> list[Any] | tuple[Any, ...]:
    if not isinstance(obj, list | tuple):
        raise _wrong_type(obj, path, "an array")
    return obj


def _string(obj: object, path: str) -> str:
    if not isinstance(obj, str):
        raise _wrong_type(obj, path, "text")
    if not obj.isascii() and _SURROGATE.search(obj):
        raise _error("InvalidText", path, "holds half of a surrogate pair", "Write the whole character.")
    return obj


def _keys(
    obj: Mapping[str, Any], path: str, required: tuple[str, ...], optional: tuple[str, ...] = ()
) -> None:
    known = required + optional
    for key in obj:
        if key not in known:
            raise _error("UnknownKey", path, f"unknown key {_show(key)}", f"Known here: {', '.join(known)}.")
    for key in required:
        if key not in obj:
            raise _error("MissingKey", path, f"has no {key}", f"Needed here: {', '.join(required)}.")


def _too_long(path: str, length: int, unit: str) -> ContentError:
    return _error(
        "SourceTextTooLong", path, f"has {length:,} {unit}, at most {MAX_TEXT:,} are allowed", "Split it."
    )


def _wrong_type(obj: object, path: str, wanted: str) -> ContentError:
    return _error("WrongType", path, f"must be {wanted}, not {_show(obj)}", None)


def _error(kind: str, path: str, message: str, fix: str | None) -> ContentError:
    return ContentError(kind, message, where=path or "content", fix=fix)


def _show(value: object) -> str:
    """A value in a message: short, on one line, encodable."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, list | tuple):
        return "an array"
    text = ascii(value) if isinstance(value, str) and _SURROGATE.search(value[:80]) else repr(value)
    return text if len(text) <= 80 else f"{text[:79]}…"
