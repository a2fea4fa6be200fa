"""Where a table's rows come from: a list, a data frame, a DuckDB relation or a function; only a page is ever read."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from rightlab.errors import UsageError
from rightlab.html import Table, Value

__all__ = ["CallRows", "FrameRows", "RelationRows", "Rows", "rows_of"]

Row = Sequence[Value]


@runtime_checkable
class Rows(Protocol):
    """``columns``: the keys; ``sortable``: whether ``sort`` is obeyed.

    ``total()`` is None when nobody knows. ``page(start, size, sort)`` gives at most ``size`` rows from ``start`` (0
    based), each with a value per column; ``sort`` is a key, with ``-`` in front for descending, or None.
    """

    @property
    def columns(self) -> Sequence[str]: ...

    @property
    def sortable(self) -> bool: ...

    def total(self) -> int | None: ...

    def page(self, start: int, size: int, sort: str | None) -> Sequence[Row]: ...


class CallRows:
    """Rows from ``page(start, size)``, or ``page(start, size, sort)`` with ``sortable=True``."""

    def __init__(
        self,
        page: Callable[..., Sequence[Row | Mapping[str, Value]]],
        columns: Sequence[str],
        *,
        total: int | Callable[[], int | None] | None = None,
        sortable: bool = False,
    ) -> None:
        self.columns = tuple(columns)
        self.sortable = sortable
        self._page = page
        self._total = total

    def total(self) -> int | None:
        return self._total() if callable(self._total) else self._total

    def page(self, start: int, size: int, sort: str | None) -> Sequence[Row]:
        rows = self._page(start, size, sort) if self.sortable else self._page(start, size)
        return [
            [row.get(key) for key in self.columns] if isinstance(row, Mapping) else row
            for row in list(rows)[:size]
        ]


class FrameRows:
    """Rows of a pandas data frame; sorting is stable and puts missing values last."""

    sortable = True

    def __init__(self, frame: Any) -> None:
        self.columns = tuple(str(name) for name in frame.columns)
        self._frame = frame
        self._sorted: tuple[str | None, Any] = (None, frame)

    def total(self) -> int:
        return len(self._frame)

    def page(self, start: int, size: int, sort: str | None) -> Sequence[Row]:
        if self._sorted[0] != sort:
            self._sorted = (sort, self._frame if sort is None else self._sort(sort))
        page = self._sorted[1].iloc[start : start + size]
        return Table.from_frame(page, caption="", most=size).rows

    def _sort(self, sort: str) -> Any:
        key = self._frame.columns[self.columns.index(sort.removeprefix("-"))]
        return self._frame.sort_values(
            key, ascending=not sort.startswith("-"), kind="stable", na_position="last"
        )


class RelationRows:
    """Rows of a DuckDB relation, asked page by page; nothing else is fetched.

    The relation's connection is used from the thread of the callback: give the view a cursor of its own
    (``connection.cursor()``) when a cell may query the same connection meanwhile.
    """

    sortable = True

    def __init__(self, relation: Any) -> None:
        self.columns = tuple(relation.columns)
        self._relation = relation
        self._total: int | None = None

    def total(self) -> int:
        if self._total is None:
            self._total = int(self._relation.aggregate("count(*)").fetchall()[0][0])
        return self._total

    def page(self, start: int, size: int, sort: str | None) -> Sequence[Row]:
        ordered = self._relation
        if sort is not None:
            key, way = sort.removeprefix("-"), "DESC" if sort.startswith("-") else "ASC"
            # The other columns break ties, so that no row shows on two pages or on none.
            rest = [_quoted(name) for name in self.columns if name != key]
            ordered = ordered.order(", ".join([f"{_quoted(key)} {way} NULLS LAST", *rest]))
        return list(ordered.limit(size, offset=start).fetchall())


def rows_of(source: object) -> Rows:
    """``source`` as rows: :class:`Rows`, a data frame, a DuckDB relation, or a list of mappings.

    :raises UsageError: for anything else.
    """
    if hasattr(source, "iloc"):
        return FrameRows(source)
    if isinstance(source, Rows):
        return source
    if hasattr(source, "fetchall") and hasattr(source, "aggregate"):
        return RelationRows(source)
    if isinstance(source, Sequence) and all(isinstance(row, Mapping) for row in source):
        return _list_rows(source)
    raise UsageError(
        f"a table cannot be made of a {type(source).__name__}",
        fix="Give it a data frame, a DuckDB relation, a list of mappings, or CallRows(function, columns).",
    )


def _list_rows(source: Sequence[Mapping[str, Value]]) -> Rows:
    columns = list(source[0]) if source else []

    def page(start: int, size: int, sort: str | None) -> Sequence[Row]:
        return Table(source, columns, caption="", sort=sort).rows[start : start + size]

    return CallRows(page, columns, total=len(source), sortable=True)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
