"""The small parts a page is made of: lines, pairs, code, folded details."""

from collections.abc import Iterable, Mapping
from typing import Literal

from rightlab.html.base import FAINT, LINE, ROOM, Block, join_html
from rightlab.html.escape import clean, clip, escape, fit_escaped, one_line, size_of
from rightlab.html.format import count
from rightlab.html.inline import Value, value_html, value_text
from rightlab.html.width import pad, width

__all__ = ["Bullets", "Code", "Details", "Note", "Pairs", "Paragraph", "Stack"]

CHARS = 2_000


class Paragraph(Block):
    """A line or a few, of plain text or of values that stand beside each other."""

    def __init__(self, *values: Value) -> None:
        self.values = values

    def _html(self, limit: int) -> str:
        return f"<p>{''.join(_spaced(value, value_html(value, CHARS)) for value in self.values)}</p>"

    def _text(self) -> str:
        return "".join(_spaced(value, value_text(value, CHARS)) for value in self.values)


_SIGNS = {"note": "ℹ", "good": "✓", "warning": "⚠", "error": "✗"}
_SHADES = {
    "note": FAINT,
    "good": "rgba(46,160,67,0.15)",
    "warning": "rgba(210,153,34,0.2)",
    "error": "rgba(248,81,73,0.2)",
}


class Note(Block):
    """One thing to notice. ``fix`` says what to do about it. The kind is a word and a sign, the shade comes
    second.
    """

    def __init__(
        self, text: str, *, kind: Literal["note", "good", "warning", "error"] = "note", fix: str | None = None
    ) -> None:
        self.message = text
        self.kind = kind
        self.fix = fix

    def _html(self, limit: int) -> str:
        fix = f"<br>What to do: {escape(one_line(self.fix, CHARS))}" if self.fix else ""
        return (
            f'<p style="border-left:4px solid {_SHADES[self.kind]};background-color:{_SHADES[self.kind]};'
            f'padding:4px 8px"><strong>{_SIGNS[self.kind]} {self.kind.capitalize()}:</strong> '
            f"{escape(one_line(self.message, CHARS))}{fix}</p>"
        )

    def _text(self) -> str:
        fix = f"\n  What to do: {one_line(self.fix, CHARS)}" if self.fix else ""
        return f"{_SIGNS[self.kind]} {self.kind.capitalize()}: {one_line(self.message, CHARS)}{fix}"


class Pairs(Block):
    """Names and values below each other."""

    def __init__(self, pairs: Mapping[str, Value] | Iterable[tuple[str, Value]]) -> None:
        self.pairs = list(pairs.items() if isinstance(pairs, Mapping) else pairs)

    def _html(self, limit: int) -> str:
        left = limit - ROOM * 2
        rows: list[str] = []
        for name, value in self.pairs:
            row = (
                f'<tr><th scope="row" style="text-align:left;font-weight:bold">{escape(one_line(name))}</th>'
                f'<td style="text-align:left">{value_html(value)}</td></tr>'
            )
            left -= size_of(row)
            if left < 0:
                rows.append(
                    f'<tr><td colspan="2"><em>Not shown: {len(self.pairs) - len(rows)} more.</em></td></tr>'
                )
                break
            rows.append(row)
        return f'<table style="border-collapse:collapse;width:auto"><tbody>{"".join(rows)}</tbody></table>'

    def _text(self) -> str:
        names = [one_line(name) for name, _ in self.pairs]
        wide = max(map(width, names), default=0)
        return "\n".join(
            f"{pad(name, wide)}  {value_text(value)}"
            for name, (_, value) in zip(names, self.pairs, strict=True)
        )


class Bullets(Block):
    """Lines with a dot, or numbered."""

    def __init__(self, items: Iterable[Value], *, ordered: bool = False) -> None:
        self.items = list(items)
        self.ordered = ordered

    def _html(self, limit: int) -> str:
        left = limit - ROOM
        items: list[str] = []
        for item in self.items:
            line = f"<li>{value_html(item)}</li>"
            left -= size_of(line)
            if left < 0:
                items.append(f"<li><em>Not shown: {len(self.items) - len(items)} more.</em></li>")
                break
            items.append(line)
        tag = "ol" if self.ordered else "ul"
        return f"<{tag}>{''.join(items)}</{tag}>"

    def _text(self) -> str:
        marks = (f"{n}. " if self.ordered else "- " for n in range(1, len(self.items) + 1))
        return "\n".join(mark + value_text(item) for mark, item in zip(marks, self.items, strict=True))


class Code(Block):
    """Text exactly as it is, line breaks and all; long text is cut and says so. ``title`` names it."""

    def __init__(self, source: str, *, title: str | None = None, wrap: bool = True) -> None:
        self.source = source
        self.title = title
        self.wrap = wrap

    def _html(self, limit: int) -> str:
        title = f"<p><strong>{escape(one_line(self.title))}</strong></p>" if self.title else ""
        body, shown = fit_escaped(self.source, limit - size_of(title) - ROOM)
        style = (
            f"white-space:{'pre-wrap' if self.wrap else 'pre'};overflow-x:auto;padding:4px 8px;border:{LINE}"
        )
        # A parser drops one line break right after <pre>: give it one of ours.
        return f'{title}<pre style="{style}">\n{body}</pre>{self._notice(shown)}'

    def _notice(self, shown: int) -> str:
        if shown >= len(self.source):
            return ""
        return f"<p><em>Cut here: {count(shown)} of {count(len(self.source))} characters.</em></p>"

    def _text(self) -> str:
        title = f"{one_line(self.title)}\n" if self.title else ""
        return title + clean(clip(self.source, 200_000))


class Stack(Block):
    """Blocks below each other."""

    def __init__(self, *blocks: Block) -> None:
        self.blocks = blocks

    def _html(self, limit: int) -> str:
        return join_html(self.blocks, limit)

    def _text(self) -> str:
        return "\n\n".join(text for block in self.blocks if (text := block.text()))


class Details(Block):
    """Folded away under a line that says what is inside; needs no script. The text twin shows it all."""

    def __init__(self, summary: str, *blocks: Block, open: bool = False) -> None:
        self.summary = summary
        self.blocks = blocks
        self.open = open

    def _html(self, limit: int) -> str:
        start = f"<details{' open' if self.open else ''}><summary>{escape(one_line(self.summary))}</summary>"
        inside = join_html(self.blocks, limit - size_of(start) - ROOM)
        return f'{start}<div style="margin-left:16px">{inside}</div></details>'

    def _text(self) -> str:
        body = Stack(*self.blocks).text()
        return f"▸ {one_line(self.summary)}\n" + "\n".join(f"  {line}".rstrip() for line in body.split("\n"))


def _spaced(value: Value, shown: str) -> str:
    """``shown`` with the spaces back by which ``value`` keeps its distance from its neighbours."""
    if not isinstance(value, str) or not value:
        return shown
    if not value.strip():
        return " "
    return f"{' ' if value[0].isspace() else ''}{shown}{' ' if value[-1].isspace() else ''}"
