"""Tables: a caption, units in the headings, numbers to the right, and how many rows there are."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal, Self

from rightlab.errors import UsageError
from rightlab.html.base import FAINT, LIMIT, LINE, ROOM, Block
from rightlab.html.escape import escape, one_line, size_of
from rightlab.html.format import count, size
from rightlab.html.inline import CELL_CHARS, Value, value_html, value_text
from rightlab.html.width import pad, width

__all__ = ["ROWS", "Column", "Table"]

ROWS = 200
"""Rows a table shows at once (spec views); the rest is counted."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column: the ``key`` of its values in a row, its heading, unit, side and way of writing a value.

    ``align`` None means: numbers right, the rest left. ``format`` turns a value into text (or a styled
    value) and is also asked for None, so that ``money`` can say ``unknown``.
    """

    key: str
    title: str | None = None
    unit: str | None = None
    align: Literal["left", "right", "center"] | None = None
    format: Callable[[Any], Value] | None = None

    @property
    def heading(self) -> str:
        title = self.key.replace("_", " ") if self.title is None else self.title
        return f"{title} ({self.unit})" if self.unit else title

    def shown(self, value: Value) -> Value:
        return value if self.format is None else self.format(value)


class Table(Block):
    """Rows under headings.

    ``rows`` are mappings (by column key) or sequences (by position); ``columns`` are :class:`Column` or
    keys and default to the keys of the first row. ``total`` is how many rows there are when ``rows`` is one
    page of them. Rows stand in the given order unless ``sort`` names a key (``"-cost"``: descending): equal
    values keep their order, unknown ones come last. ``empty`` is said instead of a table without rows.
    """

    def __init__(
        self,
        rows: Iterable[Mapping[str, Value] | Sequence[Value]],
        columns: Sequence[Column | str] | None = None,
        *,
        caption: str,
        sort: str | None = None,
        total: int | None = None,
        most: int = ROWS,
        empty: str = "Nothing yet.",
        row_headers: bool = True,
    ) -> None:
        given = list(rows)
        if columns is None:
            if given and not isinstance(given[0], Mapping):
                raise UsageError("rows without keys need columns", where=f"table {caption!r}")
            columns = [str(key) for key in given[0]] if given and isinstance(given[0], Mapping) else []
        self.columns = tuple(Column(column) if isinstance(column, str) else column for column in columns)
        self.caption = caption
        self.rows: list[tuple[Value, ...]] = [self._values(row) for row in given]
        self.total = max(total or 0, len(self.rows))
        self.most = most
        self.empty = empty
        self.row_headers = row_headers
        self.sort = sort
        if sort is not None:
            self._order(sort)

    @classmethod
    def from_frame(cls, frame: Any, columns: Sequence[Column | str] | None = None, **options: Any) -> Self:
        """A table of a pandas data frame's columns, without its index."""
        names = list(columns) if columns is not None else [str(name) for name in frame.columns]
        keys = [column if isinstance(column, str) else column.key for column in names]
        positions = {str(name): index for index, name in enumerate(frame.columns)}
        if missing := [key for key in keys if key not in positions]:
            raise UsageError(f"the frame has no column {missing[0]!r}", fix=f"It has {', '.join(positions)}.")
        picked = [positions[key] for key in keys]
        if options.get("sort") is None:
            options["total"] = max(options.get("total") or 0, len(frame))
            frame = frame.head(options.get("most", ROWS))
        records = frame.itertuples(index=False, name=None)
        return cls([[_scalar(record[at]) for at in picked] for record in records], names, **options)

    def _values(self, row: Mapping[str, Value] | Sequence[Value]) -> tuple[Value, ...]:
        if isinstance(row, Mapping):
            return tuple(row.get(column.key) for column in self.columns)
        if len(row) != len(self.columns):
            raise UsageError(
                f"a row has {len(row)} values for {len(self.columns)} columns",
                where=f"table {self.caption!r}",
            )
        return tuple(row)

    def _order(self, sort: str) -> None:
        key = sort.removeprefix("-")
        at = next((index for index, column in enumerate(self.columns) if column.key == key), None)
        if at is None:
            raise UsageError(f"no column {key!r} to sort by", where=f"table {self.caption!r}")
        known = [row for row in self.rows if _is_known(row[at])]
        unknown = [row for row in self.rows if not _is_known(row[at])]
        known.sort(key=lambda row: _sort_key(row[at]), reverse=sort.startswith("-"))
        self.rows = known + unknown

    def _sides(self) -> list[str]:
        sides: list[str] = []
        for index, column in enumerate(self.columns):
            values = [row[index] for row in self.rows[: self.most] if row[index] is not None]
            numeric = bool(values) and all(_is_number(value) for value in values)
            sides.append(column.align or ("right" if numeric else "left"))
        return sides

    def _html(self, limit: int = LIMIT) -> str:
        if not self.rows:
            return (
                f"<p><strong>{escape(one_line(self.caption))}</strong><br>{escape(one_line(self.empty))}</p>"
            )
        sides = self._sides()
        head = "".join(
            f'<th scope="col" style="text-align:{side}{_marker(self.sort, column)[0]}">'
            f"{escape(one_line(column.heading))}{_marker(self.sort, column)[1]}</th>"
            for side, column in zip(sides, self.columns, strict=True)
        )
        tail = "</tbody></table></div>"
        left = limit - size_of(head) - ROOM * 3
        body = []
        for row in self.rows[: self.most]:
            line = self._row_html(row, sides)
            left -= size_of(line)
            if left < 0:
                break
            body.append(line)
        caption = self._caption_html(len(body), limit)
        start = (
            '<div style="overflow-x:auto"><table style="border-collapse:collapse;width:auto">'
            f'<caption style="text-align:left;caption-side:top">{caption}</caption>'
            f'<thead><tr style="border-bottom:{LINE}">{head}</tr></thead><tbody>'
        )
        return start + "".join(body) + tail

    def _caption_html(self, shown: int, limit: int) -> str:
        return f"<strong>{escape(one_line(self.caption))}</strong>" + (
            f" · {escape(notice)}" if (notice := self._notice(shown, limit)) else ""
        )

    def _notice(self, shown: int, limit: int | None) -> str:
        if shown >= self.total:
            return "1 row" if self.total == 1 else f"{count(self.total)} rows"
        why = (
            f" (the limit is {size(limit)})"
            if limit is not None and shown < min(self.most, len(self.rows))
            else ""
        )
        return f"{count(shown)} of {count(self.total)} rows{why}"

    def _row_html(self, row: tuple[Value, ...], sides: list[str]) -> str:
        cells = []
        for index, (column, value, side) in enumerate(zip(self.columns, row, sides, strict=True)):
            shown = value_html(column.shown(value))
            if index == 0 and self.row_headers:
                cells.append(f'<th scope="row" style="text-align:{side};font-weight:normal">{shown}</th>')
            else:
                cells.append(f'<td style="text-align:{side}">{shown}</td>')
        return f"<tr>{''.join(cells)}</tr>"

    def _text(self) -> str:
        if not self.rows:
            return f"{one_line(self.caption)}\n{one_line(self.empty)}"
        sides = self._sides()
        shown = self.rows[: self.most]
        heads = [one_line(column.heading) + _marker(self.sort, column)[1] for column in self.columns]
        cells = [
            [
                value_text(column.shown(value), CELL_CHARS)
                for column, value in zip(self.columns, row, strict=True)
            ]
            for row in shown
        ]
        widths = [max(width(line[index]) for line in (heads, *cells)) for index in range(len(heads))]
        lines = [
            "  ".join(
                pad(cell, wide, side) for cell, wide, side in zip(line, widths, sides, strict=True)
            ).rstrip()
            for line in (heads, ["─" * wide for wide in widths], *cells)
        ]
        return "\n".join([f"{one_line(self.caption)} · {self._notice(len(shown), None)}", *lines])


def _marker(sort: str | None, column: Column) -> tuple[str, str]:
    """Style and sign of the column the rows are sorted by."""
    if sort is None or sort.removeprefix("-") != column.key:
        return "", ""
    return f";background-color:{FAINT}", " ↓" if sort.startswith("-") else " ↑"


def _is_number(value: Value) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _is_known(value: Value) -> bool:
    return value is not None and not (isinstance(value, float) and math.isnan(value))


def _sort_key(value: Value) -> tuple[int, Any]:
    """Numbers before times before text, each among its own kind."""
    if isinstance(value, int | float | Decimal):
        return (0, value)
    if hasattr(value, "timestamp"):
        return (1, value.timestamp())
    return (2, value_text(value).casefold())


def _scalar(value: Any) -> Value:
    """A data frame's value as Python's own; missing ones as None."""
    if type(value).__name__ in ("NoneType", "NAType", "NaTType") or value != value:
        return None
    return value.item() if hasattr(value, "item") and getattr(value, "ndim", 0) == 0 else value
