"""Where text may be cut without breaking what a reader sees as one character.

The rules are those of Unicode's extended grapheme clusters that the standard library's tables can decide:
combining marks, variation selectors, joiners and emoji modifiers stay with what they change, the two halves
of a flag stay together, CR LF and Hangul syllables are not split.
"""

import unicodedata

__all__ = ["is_boundary", "utf16_index", "utf16_len"]

_ZWNJ = "\u200c"
_ZWJ = "\u200d"


def utf16_len(text: str) -> int:
    """The length of ``text`` in UTF-16 code units, which is how Telegram counts.

    A lone surrogate counts as one unit.
    """
    if text.isascii():
        return len(text)
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def utf16_index(text: str, start: int, units: int) -> int:
    """The greatest ``end`` for which ``text[start:end]`` is at most ``units`` UTF-16 code units long."""
    window = text[start : start + units]
    if window.isascii() or max(window) <= "\uffff":
        return start + len(window)
    end = start
    for char in window:
        units -= 2 if char > "\uffff" else 1
        if units < 0:
            break
        end += 1
    return end


def is_boundary(text: str, index: int, start: int = 0) -> bool:
    """True when ``text`` may be cut before ``index``; ``start`` is the nearest cut known to be good.

    Looks back no further than ``start``.
    """
    if index <= start or index >= len(text):
        return True
    before, after = text[index - 1], text[index]
    if before.isascii() and after.isascii():
        return not (before == "\r" and after == "\n")
    if before in "\r\n" or after in "\r\n":
        return True
    if _extends(after) or _prepends(before):
        return False
    if before == _ZWJ:
        return after.isspace()
    if _is_flag_half(before) and _is_flag_half(after):
        return _flag_halves_before(text, index, start) % 2 == 0
    if unicodedata.combining(before) == 9 and unicodedata.category(after) == "Lo":
        return False
    return not _hangul_joins(before, after)


def _extends(char: str) -> bool:
    """Belongs to the character before it."""
    if char.isascii():
        return False
    return (
        unicodedata.category(char) in ("Mn", "Mc", "Me")
        or char in (_ZWJ, _ZWNJ, "\uff9e", "\uff9f")
        or "\U0001f3fb" <= char <= "\U0001f3ff"
        or "\U000e0020" <= char <= "\U000e007f"
    )


def _prepends(char: str) -> bool:
    """Belongs to the character after it (number signs of the Arabic, Syriac and Kaithi scripts)."""
    return "\u0600" <= char <= "\u0605" or char in "\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd"


def _is_flag_half(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"


def _flag_halves_before(text: str, index: int, start: int) -> int:
    first = index
    while first > start and _is_flag_half(text[first - 1]):
        first -= 1
    return index - first


def _hangul_joins(before: str, after: str) -> bool:
    left, right = _hangul_kind(before), _hangul_kind(after)
    if left == "L":
        return right in ("L", "V", "LV", "LVT")
    if left in ("LV", "V"):
        return right in ("V", "T")
    return left in ("LVT", "T") and right == "T"


def _hangul_kind(char: str) -> str:
    if "\u1100" <= char <= "\u115f" or "\ua960" <= char <= "\ua97c":
        return "L"
    if "\u1160" <= char <= "\u11a7" or "\ud7b0" <= char <= "\ud7c6":
        return "V"
    if "\u11a8" <= char <= "\u11ff" or "\ud7cb" <= char <= "\ud7fb":
        return "T"
    if "\uac00" <= char <= "\ud7a3":
        return "LV" if (ord(char) - 0xAC00) % 28 == 0 else "LVT"
    return ""
