"""Everything people see on a terminal is printed here: results on stdout, one clear line per error on stderr."""

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

__all__ = ["Texted", "document", "error", "line", "lines", "note", "show", "table"]


class Texted(Protocol):
    def text(self) -> str: ...


def _write(stream: Any, text: str) -> None:
    if stream is None:  # closed by the caller
        return
    try:
        stream.write(text + "\n")
        stream.flush()
    except UnicodeEncodeError:
        stream.write(text.encode("ascii", "backslashreplace").decode() + "\n")


def line(text: str = "") -> None:
    """One line of result."""
    _write(sys.stdout, text)


def lines(texts: Iterable[str]) -> None:
    for text in texts:
        line(text)


def show(view: Texted) -> None:
    """The text twin of a view."""
    line(view.text())


def document(value: Any) -> None:
    """The one JSON document of ``--json``."""
    _write(sys.stdout, json.dumps(value, ensure_ascii=False, indent=2, default=str))


def note(text: str) -> None:
    """Something a person should know that is not the result (stderr)."""
    _write(sys.stderr, text)


def error(text: str) -> None:
    """The one line of a failure (stderr)."""
    _write(sys.stderr, "rightlab: " + " ".join(text.split()))


def table(columns: Sequence[str], rows: Sequence[Sequence[object]], *, empty: str) -> None:
    """A plain aligned table, or ``empty`` (what would fill it) when there are no rows."""
    if not rows:
        line(empty)
        return
    from rightlab.html import pad, width

    cells = [list(columns), *([str(cell) for cell in row] for row in rows)]
    widths = [max(width(row[at]) for row in cells) for at in range(len(columns))]
    for row in cells:
        line("  ".join(pad(cell, size) for cell, size in zip(row, widths, strict=True)).rstrip())
