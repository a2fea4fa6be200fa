"""What changed between two texts."""

import time
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from rightlab.html import Diff, diff_lines


def sides(before: str, after: str) -> tuple[list[str], list[str]]:
    lines = diff_lines(before, after)
    return (
        [line.text for line in lines if line.kind != "ins"],
        [line.text for line in lines if line.kind != "del"],
    )


def test_words_inside_a_changed_line_are_marked(read: Callable[[str], str]) -> None:
    diff = Diff("be short and kind\nend\n", "be brief and kind\nend\n", names=("SOUL.md", "variant terse"))
    assert diff.summary == "SOUL.md → variant terse: 1 line added, 1 line removed"
    assert diff.text() == f"{diff.summary}\n- be [-short-] and kind\n+ be {{+brief+}} and kind\n  end"
    markup = diff.html()
    words = read(markup)
    assert ">short</del>" in markup
    assert ">brief</ins>" in markup
    assert "- be short and kind\n+ be brief and kind\n  end" in words


def test_lines_that_share_little_are_marked_whole() -> None:
    assert Diff("alpha beta\n", "x = {1: 2}\n").text().split("\n")[1:] == ["- alpha beta", "+ x = {1: 2}"]


def test_no_difference_is_said() -> None:
    assert Diff("a\n", "a\n").text() == "before → after: no difference"
    assert "<pre" not in Diff("a", "a").html()


def test_added_and_removed_lines_and_empty_texts() -> None:
    assert Diff("", "a\nb\n").summary == "before → after: 2 lines added, 0 lines removed"
    assert Diff("a\n", "").summary == "before → after: 0 lines added, 1 line removed"


def test_a_missing_last_line_break_is_a_difference() -> None:
    assert "no line break at the end" in Diff("a\n", "a").text()


def test_what_is_the_same_is_folded_and_counted() -> None:
    same = "".join(f"line {n}\n" for n in range(50))
    text = Diff(same + "old\n" + same, same + "new\n" + same).text().split("\n")
    assert text[1] == "  ⋯ 47 lines the same"
    assert text[-1] == "  ⋯ 47 lines the same"
    assert len(text) == 1 + 1 + 3 + 2 + 3 + 1


def test_big_texts_take_a_moment() -> None:
    old = "\n".join(f"row {n % 977} x" for n in range(20_000))
    new = "\n".join(f"row {n % 991} y" for n in range(20_000))
    began = time.perf_counter()
    assert len(Diff(old, new).html().encode()) <= 100_000
    assert Diff("x" * 3_000_000, "y" * 3_000_000).added == 1
    assert Diff("a b " * 50_000, "a c " * 50_000).added == 1
    assert time.perf_counter() - began < 10


def test_change_in_a_big_text_is_found_by_its_edges() -> None:
    old = [f"row {n}" for n in range(50_000)]
    new = [*old[:25_000], "changed", *old[25_001:]]
    diff = Diff("\n".join(old), "\n".join(new))
    assert (diff.added, diff.removed) == (1, 1)


@given(
    st.lists(st.sampled_from(["a", "b b", "c d e", ""]), max_size=12),
    st.lists(st.sampled_from(["a", "b c", "c d f", ""]), max_size=12),
)
def test_both_texts_can_be_read_back(old: list[str], new: list[str]) -> None:
    before, after = ("".join(f"{line}\n" for line in lines) for lines in (old, new))
    assert sides(before, after) == (old, new)
