"""Many rows, one page at a time: the kernel sorts and pages, the notebook only ever holds what it shows."""

import json
from collections.abc import Callable, Sequence
from typing import Any, Literal

import ipywidgets

from rightlab.errors import UsageError
from rightlab.html import ROWS, Block, Column, Table, Value
from rightlab.html.inline import value_text
from rightlab.views.grid import Grid
from rightlab.views.rows import rows_of
from rightlab.views.view import BODY_LIMIT, View

__all__ = ["TableView"]

CELL_CHARS = (400, 120, 40, 12)


class TableView(View):
    """A table of any length over ``source`` (see :func:`rightlab.views.rows_of`).

    ``size`` rows a page, at most 200. ``sort`` names the column of the first order. With ``select`` "one" or "many"
    rows can be picked; they are told apart by the column ``key`` (default the first), and ``on_select`` is called
    with the keys' values as text, in the thread of the callback. What is picked stays picked on other pages.
    """

    title = "Table"

    def __init__(
        self,
        source: object,
        columns: Sequence[Column | str] | None = None,
        *,
        caption: str,
        size: int = 50,
        sort: str | None = None,
        select: Literal["none", "one", "many"] = "none",
        key: str | None = None,
        on_select: Callable[[list[str]], object] | None = None,
    ) -> None:
        self._rows = rows_of(source)
        known = list(self._rows.columns)
        self._columns = [Column(one) if isinstance(one, str) else one for one in columns or known]
        for wanted in (*(one.key for one in self._columns), *([key] if key else ())):
            if wanted not in known:
                raise UsageError(
                    f"no column {wanted!r}", where=f"table {caption!r}", fix=f"It has {', '.join(known)}."
                )
        if sort is not None and (not self._rows.sortable or sort.removeprefix("-") not in known):
            raise UsageError(f"cannot sort by {sort!r}", where=f"table {caption!r}")
        self._at = [known.index(one.key) for one in self._columns]
        self._key_at = known.index(key) if key else (self._at[0] if self._at else 0)
        self._caption = caption
        self._first: Table = Table([], self._columns, caption=caption)
        self._on_select = on_select
        self.grid = Grid(caption=caption, size=max(1, min(size, ROWS)), sort=sort or "", select=select)
        self.grid.observe(self._on_turn, ["start", "sort"])
        self.grid.observe(self._on_pick, ["selected"])
        super().__init__()

    @property
    def selected(self) -> list[str]:
        """The keys of the picked rows."""
        return list(self.grid.selected)

    def blocks(self) -> Sequence[Block]:
        """None of its own: reads the grid's page again. A failing source becomes the error state."""
        self._load()
        return ()

    def fixtures(self) -> Sequence[ipywidgets.Widget]:
        return (self.grid,)

    def static(self) -> Block:
        return super().static() if self._shown else self._first

    def _on_turn(self, _: object) -> None:
        # Both may change in one message; the second notice finds the page loaded and sends nothing.
        self.refresh()

    def _on_pick(self, change: Any) -> None:
        if self._on_select is not None:
            self._on_select(list(change["new"]))

    def _load(self) -> None:
        grid = self.grid
        total = self._rows.total()
        if total is not None and grid.start >= max(total, 1):
            grid.start = (total - 1) // grid.size * grid.size if total else 0
        found = self._rows.page(grid.start, grid.size, grid.sort or None)
        texts, keys, notice = self._texts(found)
        picked = [[row[at] for at in self._at] for row in found]
        self._first = Table(picked, self._columns, caption=self._caption, total=total, sort=None)
        with grid.hold_sync():
            grid.columns = [self._heading(index, picked) for index in range(len(self._columns))]
            grid.row_keys = keys
            grid.rows = texts
            grid.total = -1 if total is None else total
            grid.notice = notice

    def _texts(self, found: Sequence[Sequence[Value]]) -> tuple[list[list[str]], list[str], str]:
        """The page as text, its keys and a notice: long values are cut first, rows only when that is not enough."""
        shown = [
            [column.shown(row[at]) for column, at in zip(self._columns, self._at, strict=True)]
            for row in found
        ]
        keys = [value_text(row[self._key_at]) for row in found]
        left = BODY_LIMIT - len(json.dumps(keys))
        for chars in CELL_CHARS:
            texts = [[value_text(value, chars) for value in row] for row in shown]
            if len(json.dumps(texts)) <= left:
                return texts, keys, "" if chars == CELL_CHARS[0] else f"values cut at {chars} characters"
        while texts and len(json.dumps(texts)) > left:
            del texts[len(texts) * 3 // 4 :]
        return texts, keys[: len(texts)], f"{len(found) - len(texts)} more rows do not fit this page"

    def _heading(self, index: int, rows: Sequence[Sequence[Value]]) -> dict[str, Any]:
        column = self._columns[index]
        values = [row[index] for row in rows if row[index] is not None]
        number = bool(values) and all(
            isinstance(one, int | float) and not isinstance(one, bool) for one in values
        )
        side = column.align or ("right" if number else "left")
        return {"key": column.key, "title": column.heading, "side": side, "sortable": self._rows.sortable}
