"""Double-quoted YAML scalars that hold any text."""

import re

__all__ = ["quote"]

_NAMED = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
# What YAML 1.2 calls not printable, what some parser takes for a line break or a mark, and lone surrogates.
_SPECIAL = re.compile(
    '[\\\\"\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff\u202a-\u202e\u2066-\u2069]'
)


def quote(text: str) -> str:
    """``text`` as a one-line double-quoted scalar any YAML parser reads back; lone surrogates become U+FFFD.

    Besides the control characters also the bidirectional ones are escaped: they would reorder the line for
    whoever reads it.
    """
    return '"' + _SPECIAL.sub(_escape, text) + '"'


def _escape(hit: "re.Match[str]") -> str:
    char = hit[0]
    if char in _NAMED:
        return _NAMED[char]
    code = ord(char)
    if 0xD800 <= code <= 0xDFFF:
        return "\ufffd"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
