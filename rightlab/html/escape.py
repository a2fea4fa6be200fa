"""Other people's text made safe to show: in HTML, in a terminal, beside other text.

Whatever comes in (a 10 MB cell, terminal escapes, text that turns the line around, towers of accents) is
shown as text, on its own, and says when it was cut.
"""

import html
import re
import unicodedata

__all__ = ["attribute", "clean", "clip", "escape", "fit_escaped", "one_line", "size_of"]

MAX_MARKS = 6
"""Combining marks shown on one character; scripts in use need fewer."""

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_TURNS = re.compile("[\u202a-\u202e\u2066-\u2069]")
_RIGHT_TO_LEFT = ("R", "AL", "AN")
_BREAKS = re.compile("[\r\n\t\u2028\u2029]+")


def clean(text: str) -> str:
    """``text`` with what would act instead of show made visible.

    Control characters become their pictures (U+0007 is ``␇``), characters that turn the writing direction
    become ``[U+202E]``, half surrogate pairs U+FFFD, and combining marks beyond six on one character are
    left out.
    """
    if text.isascii():
        return _CONTROL.sub(_picture, text.replace("\r\n", "\n")) if _has_control(text) else text
    text = _SURROGATE.sub("\ufffd", text.replace("\r\n", "\n"))
    text = _TURNS.sub(lambda match: f"[U+{ord(match[0]):04X}]", _CONTROL.sub(_picture, text))
    return _flatten(text)


def clip(text: str, limit: int) -> str:
    """At most ``limit`` characters of ``text``, then how many there are."""
    if len(text) <= limit:
        return text
    return f"{text[:limit].rstrip()}… ({len(text):,} characters)"


def one_line(text: str, limit: int = 500) -> str:
    """``text`` cleaned, on one line, clipped: for titles, captions and cells."""
    return clean(_BREAKS.sub(" ", clip(text, limit))).strip()


def escape(text: str) -> str:
    """``text`` cleaned and escaped, for inside an HTML element.

    Right-to-left text is isolated, so that it cannot reorder what stands beside it.
    """
    escaped = html.escape(clean(text))
    if text.isascii() or not any(unicodedata.bidirectional(char) in _RIGHT_TO_LEFT for char in text):
        return escaped
    return f"<bdi>{escaped}</bdi>"


def attribute(text: str) -> str:
    """``text`` cleaned, on one line, clipped and escaped, for inside a quoted attribute."""
    return html.escape(one_line(text))


def fit_escaped(text: str, room: int) -> tuple[str, int]:
    """As much of ``text``, cleaned and escaped, as fits ``room`` bytes: (HTML, characters of ``text``
    shown).
    """
    room = max(room, 0)
    low, high = 0, min(len(text), room)
    best = html.escape(clean(text[:high]))
    if size_of(best) <= room:
        return best, high
    while low < high:
        middle = (low + high + 1) // 2
        if size_of(html.escape(clean(text[:middle]))) <= room:
            low = middle
        else:
            high = middle - 1
    return html.escape(clean(text[:low])), low


def size_of(text: str) -> int:
    """Bytes of ``text`` in UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


def _has_control(text: str) -> bool:
    return _CONTROL.search(text) is not None or "\r\n" in text


def _picture(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else "\ufffd"


def _flatten(text: str) -> str:
    out = []
    marks = 0
    for char in text:
        marks = marks + 1 if char > "\u02ff" and unicodedata.category(char) in ("Mn", "Me") else 0
        if marks <= MAX_MARKS:
            out.append(char)
    return text if len(out) == len(text) else "".join(out)
