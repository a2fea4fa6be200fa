"""Short things that stand inside a line, a cell or a sentence."""

import math
import re
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Literal

from rightlab.html.escape import attribute, escape, one_line
from rightlab.html.format import count, when

__all__ = ["CELL_CHARS", "Link", "Styled", "Value", "value_html", "value_text"]

CELL_CHARS = 400
"""Characters of one value shown in a cell."""

_SAFE_LINK = re.compile(r"^(https?://|mailto:|[A-Za-z0-9_.-]+(/|\.ipynb|\.html|$|#|\?))", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Styled:
    """A value in one style. ``mark`` is highlighted; colour is never the only signal."""

    value: object
    style: Literal["strong", "em", "code", "mark", "kbd", "del", "ins"] = "strong"


@dataclass(frozen=True, slots=True)
class Link:
    """A link to an http(s) address or a file beside the notebook; any other target is shown as plain text."""

    text: str
    target: str


Value = object
"""Whatever a cell may hold: None, bool, numbers, times, text, :class:`Styled`, :class:`Link`."""

_TWINS = {"code": "`", "mark": "*", "strong": "", "em": "", "kbd": "", "del": "~", "ins": "+"}


def value_text(value: Value, chars: int = CELL_CHARS) -> str:
    """One value on one line of text; None is ``–``."""
    if isinstance(value, Styled):
        twin = _TWINS[value.style]
        return f"{twin}{value_text(value.value, chars)}{twin}"
    if isinstance(value, Link):
        return one_line(value.text, chars)
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float | Decimal):
        return count(value) if math.isfinite(value) else str(value)
    if isinstance(value, datetime):
        return when(value) if value.tzinfo else value.isoformat(" ", "minutes")
    if isinstance(value, date):
        return value.isoformat()
    return one_line(value if isinstance(value, str) else _as_text(value), chars)


def value_html(value: Value, chars: int = CELL_CHARS) -> str:
    """One value as escaped inline HTML."""
    if isinstance(value, Styled):
        return f"<{value.style}>{value_html(value.value, chars)}</{value.style}>"
    if isinstance(value, Link) and _is_safe(value.target):
        return f'<a href="{attribute(value.target)}">{escape(one_line(value.text, chars))}</a>'
    return escape(value_text(value, chars))


def _is_safe(target: str) -> bool:
    scheme = target.partition(":")[0].lower() if ":" in target.partition("/")[0] else ""
    return (
        scheme in ("", "http", "https", "mailto")
        and _SAFE_LINK.match(target) is not None
        and len(target) <= 500
    )


def _as_text(value: object) -> str:
    try:
        return str(value)
    except Exception as error:
        return f"({type(value).__name__} that cannot be shown: {type(error).__name__})"
