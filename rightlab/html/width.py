"""How wide text stands in a terminal."""

import unicodedata

__all__ = ["pad", "width"]


def width(text: str) -> int:
    """Columns ``text`` takes: wide characters two, marks and joiners none."""
    if text.isascii():
        return len(text)
    return sum(_columns(char) for char in text)


def pad(text: str, columns: int, side: str = "left") -> str:
    """``text`` filled up with spaces to ``columns``, standing ``left``, ``right`` or ``center``."""
    room = max(columns - width(text), 0)
    if side == "right":
        return " " * room + text
    if side == "center":
        return " " * (room // 2) + text + " " * (room - room // 2)
    return text + " " * room


def _columns(char: str) -> int:
    if char.isascii():
        return 1
    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1
