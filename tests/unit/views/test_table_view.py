"""The paged table: any source, one page in the kernel's messages, rows picked by key."""

import json
from typing import Any

import pytest

from rightlab.errors import UsageError
from rightlab.html import Column, money
from rightlab.views import CallRows, FrameRows, RelationRows, TableView, rows_of


def frame(n: int = 10_000) -> Any:
    import pandas

    return pandas.DataFrame(
        {"turn": range(n), "cost": [None if i % 7 == 0 else (i * 37 % 1000) / 1000 for i in range(n)]}
    )


def relation(n: int = 10_000) -> Any:
    import duckdb

    return duckdb.connect().sql(f'SELECT i AS turn, (i * 37 % 1000) AS "cost ""x""" FROM range({n}) t(i)')


@pytest.mark.parametrize("make", [frame, relation], ids=["frame", "relation"])
def test_ten_thousand_rows_page_by_page(wire: Any, make: Any) -> None:
    view = TableView(make(), caption="Turns", size=50)
    grid = view.grid
    assert (grid.total, len(grid.rows), grid.rows[0][0]) == (10_000, 50, "0")
    grid.start = 9_950
    assert [row[0] for row in grid.rows] == [f"{i:,}" for i in range(9_950, 10_000)]
    assert view.state_bytes < 100_000


@pytest.mark.parametrize("make", [frame, relation], ids=["frame", "relation"])
def test_sorted_pages_hold_every_row_once(wire: Any, make: Any) -> None:
    rows = rows_of(make(1_000))
    for sort in (rows.columns[1], "-" + rows.columns[1]):
        seen = [row[0] for start in range(0, 1_000, 50) for row in rows.page(start, 50, sort)]
        assert sorted(seen) == list(range(1_000))
        values = [row[1] for start in range(0, 1_000, 50) for row in rows.page(start, 50, sort)]
        known = [value for value in values if value is not None]
        assert known == sorted(known, reverse=sort.startswith("-"))
        assert values[: len(known)] == known


def test_a_callable_is_asked_for_one_page_only(wire: Any) -> None:
    asked: list[tuple[int, int]] = []

    def page(start: int, size: int) -> list[dict[str, int]]:
        asked.append((start, size))
        return [{"n": start + i} for i in range(min(size, 120 - start))]

    view = TableView(CallRows(page, ["n"]), caption="Unknown length", size=50)
    assert (asked, view.grid.total) == ([(0, 50)], -1)
    assert view.grid.columns[0]["sortable"] is False
    view.grid.start = 100
    assert asked == [(0, 50), (100, 50)]
    assert len(view.grid.rows) == 20
    assert "50" in view._repr_mimebundle_()["text/plain"] or view.grid.rows


def test_static_forms_hold_the_page_and_count_the_rest(wire: Any) -> None:
    view = TableView(frame(300), [Column("turn"), Column("cost", format=money)], caption="Turns")
    bundle = view._repr_mimebundle_()
    assert "50 of 300 rows" in bundle["text/html"]
    assert "50 of 300 rows" in bundle["text/plain"]
    assert "unknown" in bundle["text/plain"]
    assert "application/vnd.jupyter.widget-view+json" in bundle


def test_rows_are_picked_by_key_and_stay_picked(wire: Any) -> None:
    told: list[list[str]] = []
    view = TableView(frame(200), caption="Turns", select="many", key="turn", on_select=told.append)
    view.grid.selected = ["3", "7"]
    view.grid.start = 100
    assert view.selected == ["3", "7"]
    assert told == [["3", "7"]]
    assert view.grid.row_keys[0] == "100"


def test_a_table_that_shrank_shows_its_last_page(wire: Any) -> None:
    rows = [{"n": i} for i in range(120)]
    source = CallRows(lambda start, size: rows[start : start + size], ["n"], total=lambda: len(rows))
    view = TableView(source, caption="Shrinks", size=50)
    view.grid.start = 100
    del rows[60:]
    view.refresh()
    assert (view.grid.start, len(view.grid.rows)) == (50, 10)
    rows.clear()
    view.refresh()
    assert (view.grid.start, view.grid.rows, view.grid.total) == (0, [], 0)


def test_a_source_that_fails_is_an_error_state_and_recovers(wire: Any) -> None:
    broken = [False]

    def page(start: int, size: int) -> list[list[int]]:
        if broken[0]:
            raise RuntimeError("no such file")
        return [[1]]

    view = TableView(CallRows(page, ["n"], total=1), caption="Turns")
    broken[0] = True
    view.refresh()
    assert "no such file" in view._repr_mimebundle_()["text/plain"]
    broken[0] = False
    view.refresh()
    assert "no such file" not in view._repr_mimebundle_()["text/plain"]


def test_wide_and_long_values_keep_the_state_limit_and_say_so(wire: Any) -> None:
    wide = [{f"column {c}": "\U0001f600" * 5_000 for c in range(12)} for _ in range(200)]
    view = TableView(wide, caption="Wide", size=200)
    assert view.state_bytes <= 100_000
    assert view.grid.notice
    assert len(json.dumps(view.grid.rows)) <= 60_000


def test_a_page_is_never_longer_than_two_hundred_rows(wire: Any) -> None:
    assert len(TableView(frame(1_000), caption="Turns", size=5_000).grid.rows) == 200


def test_empty_sources(wire: Any) -> None:
    assert TableView([], caption="None").grid.total == 0
    assert TableView(frame(0), caption="None").grid.rows == []
    assert TableView(relation(0), caption="None").grid.rows == []


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (lambda: TableView(17, caption="x"), "cannot be made of a int"),
        (lambda: TableView(frame(3), ["nope"], caption="x"), "no column 'nope'"),
        (lambda: TableView(frame(3), caption="x", key="nope"), "no column 'nope'"),
        (lambda: TableView(frame(3), caption="x", sort="-nope"), "cannot sort by"),
    ],
)
def test_wrong_use_is_one_clear_line(wire: Any, build: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        build()


def test_kinds_of_sources() -> None:
    assert isinstance(rows_of(frame(1)), FrameRows)
    assert isinstance(rows_of(relation(1)), RelationRows)
    own = CallRows(lambda start, size: [], [])
    assert rows_of(own) is own
