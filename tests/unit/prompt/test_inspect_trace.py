"""Cutting a recorded prompt into its sections (mapping by size and hash)."""

import hashlib
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from rightlab.prompt import PromptRegistry
from rightlab.prompt.inspect import Listed, listed, locate, trace

section_bytes = st.binary(min_size=1, max_size=60) | st.text("ab\n#é ", min_size=1, max_size=60).map(
    str.encode
)


def of(parts: list[bytes]) -> tuple[Listed, ...]:
    return tuple(
        Listed(f"s{at}", f"{at}.md", len(data), hashlib.sha256(data).hexdigest(), data.partition(b"\n")[0])
        for at, data in enumerate(parts)
    )


@given(st.lists(section_bytes, min_size=1, max_size=8))
def test_every_prompt_is_cut_where_it_was_joined(parts):
    """For any bytes, blank lines at the ends of sections and repeated sections included."""
    data = b"\n\n".join(parts)
    slices = locate(data, of(parts))
    assert [data[one.start : one.end] for one in slices] == parts
    assert all(one.exact for one in slices)
    assert [one.name for one in slices] == [f"s{at}" for at in range(len(parts))]


@given(
    st.lists(section_bytes, min_size=1, max_size=6),
    st.integers(0, 5),
    st.binary(min_size=1, max_size=80),
)
def test_a_section_changed_on_the_way_is_what_is_left_between_the_others(parts, at, changed):
    """A file may be written between the host's assembly and the guest script; invalid UTF-8 arrives replaced."""
    at %= len(parts)
    sent = [*parts[:at], changed, *parts[at + 1 :]]
    data = b"\n\n".join(sent)
    slices = locate(data, of(parts))
    # Nothing is lost but blank lines: of a changed text that looks like its neighbours no more can be told.
    for left, right in pairwise([0, *(at for one in slices for at in (one.start, one.end)), len(data)]):
        assert left <= right
    gaps = [0, *(one.end for one in slices)], [*(one.start for one in slices), len(data)]
    assert all(not data[end:start].strip(b"\n") for end, start in zip(*gaps, strict=True))
    if len({*parts, changed}) == len(parts) + 1 and b"\n" not in b"".join(sent):
        assert [data[one.start : one.end] for one in slices] == sent
        assert [one.exact for one in slices] == [index != at for index in range(len(parts))]


def test_two_changed_neighbours_are_cut_at_their_first_lines(outline):
    known = outline(a="## A\none", b="## B\ntwo", c="## C\nthree", d="last")
    data = b"## A\none\n\n## B\nother\n\nwith a blank line\n\n## C\nalso other\n\nlast"
    slices = locate(data, known)
    assert [(one.name, data[one.start : one.end], one.exact) for one in slices] == [
        ("a", b"## A\none", True),
        ("b", b"## B\nother\n\nwith a blank line", False),
        ("c", b"## C\nalso other", False),
        ("d", b"last", True),
    ]


def test_what_cannot_be_told_apart_stays_together(outline):
    known = outline(heads=False, a="one", b="two", c="three")
    slices = locate(b"one\n\nx\n\ny", known)
    assert [(one.name, one.exact) for one in slices] == [("a", True), ("b, c", False)]


def test_a_section_that_went_away_leaves_nothing(outline):
    slices = locate(b"one\n\nthree", outline(a="one", b="two", c="three"))
    assert [one.name for one in slices] == ["a", "c"]


def test_text_of_nobody_is_named_so(outline):
    assert [one.name for one in locate(b"one\n\nmore", outline(a="one"))] == ["a", "(not matched)"]


def test_a_huge_prompt_full_of_blank_lines_is_no_trouble(outline):
    import time

    data = b"\n" * 5_000_000 + b"x"
    began = time.monotonic()
    locate(data, outline(a="y" * 50, b="z" * 4_999_999))
    assert time.monotonic() - began < 5


async def test_the_block_with_the_prompt_is_found(make_request):
    registry = PromptRegistry()
    registry.section("extra", 10, "## Extra\n\nmore")
    assembly = await registry.assemble()
    found = trace(make_request(assembly.render()), listed(assembly))
    assert found.system.path == "system[1]"
    assert [(part.name, part.exact) for part, _ in found.sections()] == [
        ("harness:identity", True),
        ("extra", True),
    ]
    assert [data for _, data in found.sections()] == [part.data for part in assembly.parts()]
    assert found.system.section_at(found.system.data.index(b"more")).name == "extra"


def test_without_a_list_no_sections_are_claimed(make_request):
    found = trace(make_request("anything"))
    assert found.prompt is None
    assert list(found.sections()) == []


def test_text_and_its_one_block_are_equal_and_breakpoints_do_not_count(make_request):
    """pains CC#51764, CC#93490: a message replayed as a string instead of blocks is no change."""
    one, other = trace(make_request("p", ["a", "b"])), trace(make_request("p", ["a"]))
    assert one.blocks[-2].digest == other.blocks[-1].digest
