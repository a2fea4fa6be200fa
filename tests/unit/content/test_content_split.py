"""Cutting text into messages (spec agent-runtime B.9; pains section 1)."""

import itertools
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rightlab.content import MESSAGE_UNITS, RichContent, split_text, text_parts, utf16_len
from rightlab.errors import UsageError


def gaps(text: str, chunks: list[str]) -> list[str]:
    """What is missing from ``text`` when the chunks are found in it in order."""
    missing, at = [], 0
    for chunk in chunks:
        found = text.index(chunk, at)
        missing.append(text[at:found])
        at = found + len(chunk)
    return [*missing, text[at:]]


def assert_kept(text: str, chunks: list[str], limit: int) -> None:
    assert all(0 < utf16_len(chunk) <= limit and not chunk.isspace() for chunk in chunks)
    assert all(gap == "" or gap.isspace() for gap in gaps(text, chunks))
    dropped = [gap for gap in gaps(text, chunks) if gap]
    if not dropped:
        assert "".join(chunks) == text


@pytest.mark.parametrize("before", range(4090, 4098))
def test_pain_H11466_emoji_boundary(before: int) -> None:
    """H#11466: 4,096 UTF-16 units exactly at an emoji."""
    text = "x" * before + "😀" + "y" * 10
    chunks = split_text(text)
    assert "".join(chunks) == text
    assert all(utf16_len(chunk) <= 4096 for chunk in chunks)
    for chunk in chunks:
        chunk.encode("utf-8")
    if before == 4095:
        assert chunks == ["x" * 4095, "😀" + "y" * 10]
    if before == 4094:
        assert chunks[0] == "x" * 4094 + "😀"


def test_pain_HPR55593_H28558_plain_text_is_counted_as_it_is_sent() -> None:
    """H PR#55593, H#28558: nothing is escaped after the split, so 4,096 marks are one message."""
    [part] = text_parts(RichContent.from_text("!" * 4096))
    assert part.text == "!" * 4096
    assert [utf16_len(part.text) for part in text_parts(RichContent.from_text("<&>" * 2000))] == [4096, 1904]


def test_pain_NB262_long_answers_arrive_whole() -> None:
    """NB#262: 10k plain text."""
    text = " ".join(f"word{n}" for n in range(1250))
    assert utf16_len(text) > 10_000
    parts = text_parts(RichContent.from_text(text))
    assert [part.index for part in parts] == [0, 1, 2]
    assert {part.kind for part in parts} == {"text"}
    assert "".join(part.text for part in parts) == text


def test_pain_picoclaw244_there_is_always_a_part_that_can_be_sent() -> None:
    """sipeed/picoclaw#244: the last resort is plain text and never empty, whatever the content."""
    for obj in (
        {"text": "**[x](`<b>&"},
        {"blocks": [{"type": "table", "rows": [[{"runs": []}, {"runs": [{"text": "."}]}]]}]},
    ):
        parts = text_parts(RichContent.model_validate(obj))
        assert parts
        assert all(part.text.strip() for part in parts)


def test_pain_pichat10_librefang2754_parts_hold_no_markup_to_leave_open() -> None:
    """earendil-works/pi-chat#10, librefang/librefang#2754: plain parts carry text, no marks."""
    content = RichContent.model_validate(
        {"blocks": [{"type": "paragraph", "runs": [{"text": "b" * 9000, "marks": ["bold"]}]}]}
    )
    assert "".join(part.text for part in text_parts(content)) == "b" * 9000


def test_pain_trinity2277_special_characters_are_literal() -> None:
    """Abilityai/trinity#2277: & < > in an answer cost nothing."""
    [part] = text_parts(RichContent.from_text("if a < b && c > d: <b>"))
    assert part.text == "if a < b && c > d: <b>"


def test_white_space_alone_is_never_a_chunk() -> None:
    text = "a" * 4096 + " " * 4096 + "\n" * 4096 + "b"
    assert split_text(text) == ["a" * 4096, "b"]
    assert split_text("") == split_text(" \n\t") == []
    assert split_text("x" * 4096 + "\n") == ["x" * 4096]


def test_a_line_break_then_a_space_near_the_end_is_preferred() -> None:
    assert split_text("x" * 4000 + "\n" + "y" * 4000) == ["x" * 4000 + "\n", "y" * 4000]
    assert split_text("x" * 4000 + " " + "y" * 4000) == ["x" * 4000 + " ", "y" * 4000]
    assert split_text("x" * 1000 + "\n" + "y" * 4000)[0] == "x" * 1000 + "\n" + "y" * 3095
    assert split_text("x" * 4000 + "\n" + "y" * 50 + " " + "z" * 4000)[0] == "x" * 4000 + "\n"


CLUSTERS = [
    "👨‍👩‍👧‍👦",
    "🇩🇪",
    "👍🏽",
    "e\u0301",
    "❤️",
    "1️⃣",
    "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
    "각",
    "\u1112\u1161\u11ab",
    "\r\n",
    "ก็",
    "क्षि",
]


@pytest.mark.parametrize("cluster", CLUSTERS)
@pytest.mark.parametrize("offset", range(0, 16))
def test_what_reads_as_one_character_stays_whole(cluster: str, offset: int) -> None:
    text = "x" * (64 - offset) + cluster * 3 + "tail"
    chunks = split_text(text, 64)
    assert "".join(chunks) == text
    edges = set(itertools.accumulate(len(chunk) for chunk in chunks))
    start = 64 - offset
    inside = {start + k * len(cluster) + j for k in range(3) for j in range(1, len(cluster))}
    assert not edges & inside


def test_flags_are_paired_from_the_start_of_their_row() -> None:
    chunks = split_text("🇩🇪🇫🇷🇮🇹" * 40, 50)
    assert all(utf16_len(chunk) % 4 == 0 for chunk in chunks)


def test_a_family_chain_longer_than_a_message_is_cut_between_scalars() -> None:
    text = "hi " + "👩‍" * 3000 + "!"
    chunks = split_text(text)
    assert "".join(chunks) == text
    assert chunks[0] == "hi "
    assert all(utf16_len(chunk) <= 4096 for chunk in chunks)
    for chunk in chunks:
        chunk.encode("utf-8")


@pytest.mark.parametrize(
    "text",
    [
        "Z" + "\u0310\u0321\u035b" * 4000,
        "w" * 10_000,
        "\u202eabc" * 3000,
        "👨‍👩‍👧‍👦" * 100,
        "<b>&amp;" * 2000,
    ],
)
def test_hostile_text(text: str) -> None:
    chunks = split_text(text)
    assert_kept(text, chunks, MESSAGE_UNITS)
    assert "".join(chunks) == text


def test_half_a_pair_in_the_text_counts_one_and_does_not_crash() -> None:
    text = "a\ud83d" * 3000
    assert utf16_len(text) == 6000
    assert "".join(split_text(text)) == text


def test_a_limit_no_character_fits_is_refused() -> None:
    with pytest.raises(UsageError, match="cannot hold a character"):
        split_text("x", 1)
    assert split_text("😀😀", 2) == ["😀", "😀"]


ODD = st.one_of(st.characters(), st.sampled_from([*CLUSTERS, " ", "\n", "\u200d", "\ufe0f", "😀", "🇩"]))


@given(st.lists(ODD, max_size=120).map("".join), st.integers(2, 40))
def test_any_text_at_any_limit_is_kept(text: str, limit: int) -> None:
    assert_kept(text, split_text(text, limit), limit)


@given(st.text(max_size=400), st.integers(1, 60))
@settings(max_examples=50)
def test_any_long_text_is_kept(text: str, times: int) -> None:
    assert_kept(text * times, split_text(text * times), MESSAGE_UNITS)


visible = st.text(min_size=1, max_size=300).filter(lambda text: bool(text.strip()))
run = st.builds(
    lambda text, style: {"text": text, **style},
    visible,
    st.sampled_from(
        [
            {},
            {"marks": None, "link": None},
            {"marks": ["bold", "italic", "strikethrough"], "link": "https://a.example/b"},
            {"marks": ["code"]},
            {"link": "tg://user?id=5"},
        ]
    ),
)
run_list = st.lists(run, min_size=1, max_size=6)
block: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.builds(lambda runs: {"type": "paragraph", "runs": runs}, run_list),
    st.builds(
        lambda level, runs: {"type": "heading", "level": level, "runs": runs}, st.integers(1, 3), run_list
    ),
    st.builds(
        lambda ordered, items: {
            "type": "list",
            "ordered": ordered,
            "items": [{"runs": runs} for runs in items],
        },
        st.booleans(),
        st.lists(run_list, min_size=1, max_size=4),
    ),
    st.builds(lambda runs: {"type": "quote", "runs": runs}, run_list),
    st.builds(
        lambda text, times, language: {"type": "code", "text": text * times, "language": language},
        visible,
        st.integers(1, 50),
        st.none() | st.just("python"),
    ),
    st.builds(
        lambda runs, rows, width: {
            "type": "table",
            "rows": [[{"runs": runs}, *[{"runs": []}] * width]] * rows,
        },
        run_list,
        st.integers(1, 4),
        st.integers(0, 3),
    ),
)


@given(st.lists(block, min_size=1, max_size=8))
@settings(max_examples=150, deadline=None)
def test_any_tree_becomes_messages_that_fit_and_keep_the_text(tree: list[dict[str, Any]]) -> None:
    content = RichContent.model_validate({"blocks": tree})
    parts = text_parts(content)
    assert [part.index for part in parts] == list(range(len(parts)))
    assert_kept(content.plain_text(), [part.text for part in parts], MESSAGE_UNITS)
    assert parts
    assert RichContent.model_validate(content.to_json()) == content


def test_ten_million_characters_are_cut_in_a_moment() -> None:
    for text in ("lorem ipsum " * 800_000, "😀" * 1_000_000, "🇩🇪" * 200_000):
        began = time.perf_counter()
        chunks = split_text(text)
        assert time.perf_counter() - began < 5
        assert sum(map(len, chunks)) == len(text)
