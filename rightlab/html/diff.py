"""What changed between two texts: lines, and the words inside changed lines."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

from rightlab.html.base import LINE, ROOM, Block
from rightlab.html.escape import clean, escape, one_line, size_of
from rightlab.html.format import count, plural

__all__ = ["Diff", "Line", "diff_lines"]

CONTEXT = 3
WORK = 4_000_000
"""Line pairs compared at most; beyond, the differing middle is shown as replaced whole."""

LINE_CHARS = 4_000
WORD_PAIRS = 250_000

_WORDS = re.compile(r"\s+|\w+|[^\w\s]")
_STYLES = {
    "del": "background-color:rgba(248,81,73,0.2);text-decoration:line-through",
    "ins": "background-color:rgba(46,160,67,0.2);text-decoration:none",
}

Piece = tuple[bool, str]


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a diff: kept, taken out or put in. ``pieces`` are (changed, text)."""

    kind: Literal["same", "del", "ins"]
    pieces: tuple[Piece, ...]

    @property
    def text(self) -> str:
        return "".join(text for _, text in self.pieces)


def diff_lines(before: str, after: str) -> list[Line]:
    """Every line of both texts in reading order; a last line without its line break is said to have none."""
    old, new = _lines(before), _lines(after)
    start = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        start += 1
    end = 0
    while end < min(len(old), len(new)) - start and old[-1 - end] == new[-1 - end]:
        end += 1
    middle_old, middle_new = old[start : len(old) - end], new[start : len(new) - end]
    return [
        *(_whole("same", text) for text in old[:start]),
        *_middle(middle_old, middle_new),
        *(_whole("same", text) for text in old[len(old) - end :]),
    ]


def _lines(text: str) -> list[str]:
    if not text:
        return []
    lines = text.split("\n")
    if lines[-1] == "":
        return lines[:-1]
    return [*lines[:-1], f"{lines[-1]} (no line break at the end)"]


def _middle(old: list[str], new: list[str]) -> Iterator[Line]:
    if len(old) * len(new) > WORK:
        yield from (_whole("del", text) for text in old)
        yield from (_whole("ins", text) for text in new)
        return
    for tag, old_at, old_to, new_at, new_to in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            yield from (_whole("same", text) for text in old[old_at:old_to])
        elif tag == "replace" and old_to - old_at == new_to - new_at:
            pairs = [_words(*pair) for pair in zip(old[old_at:old_to], new[new_at:new_to], strict=True)]
            yield from (line for line, _ in pairs)
            yield from (line for _, line in pairs)
        else:
            yield from (_whole("del", text) for text in old[old_at:old_to])
            yield from (_whole("ins", text) for text in new[new_at:new_to])


def _words(old: str, new: str) -> tuple[Line, Line]:
    """Two lines that took each other's place, the differing words marked; unlike lines are marked whole."""
    left, right = _WORDS.findall(old), _WORDS.findall(new)
    matcher = SequenceMatcher(None, left, right, autojunk=False)
    if len(left) * len(right) > WORD_PAIRS or matcher.ratio() < 0.4:
        return _whole("del", old), _whole("ins", new)
    gone: list[Piece] = []
    come: list[Piece] = []
    for tag, left_at, left_to, right_at, right_to in matcher.get_opcodes():
        if left_to > left_at:
            gone.append((tag != "equal", "".join(left[left_at:left_to])))
        if right_to > right_at:
            come.append((tag != "equal", "".join(right[right_at:right_to])))
    return Line("del", tuple(gone)), Line("ins", tuple(come))


def _whole(kind: Literal["same", "del", "ins"], text: str) -> Line:
    return Line(kind, ((kind != "same", text),))


class Diff(Block):
    """Two texts compared. ``before`` and ``after`` may be named; unchanged stretches are folded to
    ``context`` lines.
    """

    def __init__(
        self, before: str, after: str, *, names: tuple[str, str] = ("before", "after"), context: int = CONTEXT
    ) -> None:
        self.before = before
        self.after = after
        self.names = names
        self.context = context
        self.lines = diff_lines(before, after)

    @property
    def added(self) -> int:
        return sum(line.kind == "ins" for line in self.lines)

    @property
    def removed(self) -> int:
        return sum(line.kind == "del" for line in self.lines)

    @property
    def summary(self) -> str:
        """One line in words, such as ``before → after: 2 lines added, 1 line removed``."""
        names = " → ".join(one_line(name, 80) for name in self.names)
        if self.before == self.after:
            return f"{names}: no difference"
        return f"{names}: {plural(self.added, 'line')} added, {plural(self.removed, 'line')} removed"

    def _html(self, limit: int) -> str:
        head = f"<p><strong>{escape(self.summary)}</strong></p>"
        if self.before == self.after:
            return head
        left = limit - size_of(head) - ROOM * 2
        rows: list[str] = []
        shown = list(self._folded())
        for item in shown:
            row = _skipped(item) if isinstance(item, int) else _line_html(item)
            left -= size_of(row) + 1
            if left < 0:
                rows.append(f"… cut here: {count(len(shown) - len(rows))} lines more")
                break
            rows.append(row)
        style = f"white-space:pre-wrap;overflow-x:auto;padding:4px 8px;border:{LINE}"
        return f'{head}<pre style="{style}">\n{chr(10).join(rows)}</pre>'

    def _text(self) -> str:
        if self.before == self.after:
            return self.summary
        lines = (_skipped(item) if isinstance(item, int) else _line_text(item) for item in self._folded())
        return "\n".join([self.summary, *lines])

    def _folded(self) -> Iterator[Line | int]:
        """The lines near a change, and how many are left out between them."""
        near = {
            at + by
            for at, line in enumerate(self.lines)
            if line.kind != "same"
            for by in range(-self.context, self.context + 1)
        }
        skipped = 0
        for at, line in enumerate(self.lines):
            if at in near:
                if skipped:
                    yield skipped
                    skipped = 0
                yield line
            else:
                skipped += 1
        if skipped:
            yield skipped


def _skipped(lines: int) -> str:
    return f"  ⋯ {plural(lines, 'line')} the same"


_SIGNS = {"same": " ", "del": "-", "ins": "+"}


def _line_html(line: Line) -> str:
    if line.kind == "same":
        return f"  {escape(line.text[:LINE_CHARS])}{_rest(line)}"
    style = _STYLES[line.kind]
    pieces = "".join(
        f'<{line.kind} style="{style}">{escape(text)}</{line.kind}>' if changed else escape(text)
        for changed, text in _clipped(line)
    )
    return f"{_SIGNS[line.kind]} {pieces}{_rest(line)}"


def _line_text(line: Line) -> str:
    pieces = _clipped(line)
    if line.kind == "same" or all(changed for changed, _ in pieces):
        return f"{_SIGNS[line.kind]} {clean(''.join(text for _, text in pieces))}{_rest(line)}"
    open_, close = ("[-", "-]") if line.kind == "del" else ("{+", "+}")
    marked = "".join(f"{open_}{clean(text)}{close}" if changed else clean(text) for changed, text in pieces)
    return f"{_SIGNS[line.kind]} {marked}{_rest(line)}"


def _clipped(line: Line) -> list[Piece]:
    left = LINE_CHARS
    pieces = []
    for changed, text in line.pieces:
        if left <= 0:
            break
        pieces.append((changed, text[:left]))
        left -= len(text)
    return pieces


def _rest(line: Line) -> str:
    length = sum(len(text) for _, text in line.pieces)
    return "" if length <= LINE_CHARS else f"… ({count(length)} characters)"
