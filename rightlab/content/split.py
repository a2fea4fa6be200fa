"""Cutting long text into what one message may hold (spec agent-runtime 2.2, B.9)."""

from rightlab.content.graphemes import is_boundary, utf16_index
from rightlab.errors import UsageError

__all__ = ["MESSAGE_UNITS", "split_text"]

MESSAGE_UNITS = 4096
"""UTF-16 code units one plain Telegram message may hold."""


def split_text(text: str, limit: int = MESSAGE_UNITS) -> list[str]:
    """Cut ``text`` into chunks of at most ``limit`` UTF-16 code units.

    The chunks in order are exactly ``text``, except that a chunk of white space alone is left out. A cut
    never falls inside a surrogate pair, and inside what a reader sees as one character only when that alone
    exceeds ``limit``. Chunks are filled to the last allowed boundary; a line break in the last eighth of a
    chunk, or a space in its last sixteenth, is taken instead (the break stays at the chunk's end).

    :raises UsageError: when ``limit`` is below 2, the room one character may need.
    """
    if limit < 2:
        raise UsageError(
            f"a message limit of {limit} UTF-16 units cannot hold a character", fix="Use 2 or more."
        )
    chunks = []
    start = 0
    while start < len(text):
        end = _cut(text, start, limit)
        chunk = text[start:end]
        if not chunk.isspace():
            chunks.append(chunk)
        start = end
    return chunks


def _cut(text: str, start: int, limit: int) -> int:
    full = utf16_index(text, start, limit)
    if full >= len(text):
        return full
    end = full
    while end > start and not is_boundary(text, end, start):
        end -= 1
    if end == start:
        return full
    for mark, room in (("\n", limit // 8), (" ", limit // 16)):
        at = text.rfind(mark, max(start, end - room), end)
        if at >= 0 and is_boundary(text, at + 1, start) and not text[start : at + 1].isspace():
            return at + 1
    return end
