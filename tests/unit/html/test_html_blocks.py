"""Tables, pages and parts: what they say, in both forms, and that nothing hostile gets out."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rightlab.errors import HomeError, UsageError
from rightlab.html import (
    Band,
    Bar,
    Block,
    Bullets,
    Code,
    Column,
    Details,
    Diff,
    Empty,
    Footer,
    Link,
    Note,
    Page,
    Pairs,
    Paragraph,
    Raw,
    Stack,
    Styled,
    Table,
    clean,
    duration,
    escape,
    mimebundle,
    money,
    register_widget,
    tokens,
    width,
)

Read = Callable[[str], str]
NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)

HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'; </pre></td></table><style>*{display:none}</style>",
    "<!-- <![CDATA[ ]]> -->",
    "&lt;b&gt; &amp; &#x3c;",
    "\u202egnp.exe \u2066x",
    "שלום עולם",
    "Z\u0310\u0321\u035b\u0310\u0321\u035b" * 40,
    "\x1b[31mred\x1b[0m \x07\x00\x9b",
    "line\r\nbreak\rback\u2028sep",
    "half \ud83d pair",
    "👨‍👩‍👧‍👦 🇩🇪",
    "x" * 10_000,
]


def every_block(text: str) -> list[Block]:
    """One of each, with ``text`` wherever other people's text may stand."""
    return [
        Table([{"a": text, text[:20]: 5}], caption=text, sort="a"),
        Table([], ["a"], caption=text, empty=text),
        Table(
            [[Styled(text, "mark"), Link(text, text)]],
            [Column("x", text, unit=text, format=None), "y"],
            caption="c",
        ),
        Code(text, title=text),
        Code(text, wrap=False),
        Details(text, Paragraph(text, " ", Styled(text, "code")), open=True),
        Pairs({text: text, "n": None}),
        Bullets([text, 5], ordered=True),
        Note(text, kind="warning", fix=text),
        Bar(text, 3, 10),
        Band(text, 1, 2, 4, value=3, names=(text, "b", "c")),
        Diff(text, text + "\nmore", names=(text, "after")),
        Diff("some words here " + text, "some words there " + text),
        Page(text, text, Paragraph(text), footer=Footer(n=1, method=text, source=text, more=(text,))),
        Page(text, error=ValueError(text)),
        Page(text, loading=text),
        Page(text, empty=Empty(text, text)),
    ]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_only_ever_text(text: str, read: Read) -> None:
    for block in every_block(text):
        words = read(block.html())
        assert "\x1b" not in words
        assert not set(words) & set("\x00\x07\x9b\u202e\u2066\r")
        twin = block.text()
        twin.encode("utf-8")
        assert not set(twin) & set("\x00\x07\x1b\x9b\u202e\u2066\r")


@given(st.text(max_size=80))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_any_text_is_only_ever_text(read: Read, text: str) -> None:
    for block in every_block(text or "x"):
        read(block.html())
        block.text().encode("utf-8")


@pytest.mark.parametrize("limit", [700, 2_000, 20_000, 100_000])
def test_no_block_passes_its_byte_limit(limit: int, read: Read) -> None:
    huge = "<&é😀" * 500_000
    many = ["<&>" * 50 + str(n) for n in range(3_000)]
    blocks: list[Block] = [
        *every_block(huge),
        Table([{"a": line, "b": line} for line in many], caption="c", most=3_000),
        Bullets(many),
        Pairs([(line, line) for line in many]),
        Stack(*(Paragraph(line) for line in many)),
        Details("s", Code(huge), Code(huge)),
        Diff("\n".join(many), "\n".join(reversed(many))),
        Page(
            "t",
            "s",
            Code(huge),
            Table([{"a": line} for line in many], caption="c"),
            footer=Footer(n=3, source="kept"),
        ),
    ]
    for block in blocks:
        markup = block.html(limit)
        assert len(markup.encode()) <= limit, block
        read(markup)
        assert len(block.text(limit).encode()) <= limit, block
    assert "source: kept" in blocks[-1].html(limit) or limit < 1_000


def test_a_ten_megabyte_cell_is_clipped_and_says_so(read: Read) -> None:
    table = Table([{"name": "x" * 10_485_760}], caption="Files")
    words = read(table.html())
    assert len(words) < 1_000
    assert "(10,485,760 characters)" in words
    assert "(10,485,760 characters)" in table.text()
    code = Code("<" * 10_485_760)
    assert "of 10,485,760 characters" in read(code.html())


def test_towers_of_accents_are_flattened_and_languages_are_not() -> None:
    assert len(clean("Z" + "\u0310" * 500)) == 7
    for word in ("Việt", "हिन्दी", "שָׁלוֹם", "ก็", "e\u0301"):
        assert clean(word) == word


def test_right_to_left_text_is_isolated() -> None:
    assert escape("שלום") == "<bdi>שלום</bdi>"
    assert escape("a\u202eb") == "a[U+202E]b"


@pytest.mark.parametrize(
    "target",
    [
        "javascript:alert(1)",
        "JaVaScRiPt:alert(1)",
        " javascript:x",
        "data:text/html,x",
        "vbscript:x",
        "//evil.example/x",
        "\x01javascript:x",
        "file:///etc/passwd",
        "x" * 600,
    ],
)
def test_links_to_anywhere_else_are_text(target: str) -> None:
    assert "<a" not in Table([[Link("go", target)]], ["l"], caption="c").html()


@pytest.mark.parametrize(
    "target",
    [
        "https://a.example/x?y=1&z=2",
        "01_prompts.ipynb",
        "notebooks/01.ipynb#x",
        "runs/r1.html",
        "mailto:a@b.example",
    ],
)
def test_links_that_are_links(target: str, read: Read) -> None:
    markup = Table([[Link("go", target)]], ["l"], caption="c").html()
    assert "<a href=" in markup
    read(markup)


def test_table_says_how_many_rows_there_are(read: Read) -> None:
    rows = [{"n": n} for n in range(250)]
    table = Table(rows, caption="Turns")
    words = read(table.html())
    assert "200 of 250 rows" in words
    assert "200 of 250 rows" in table.text()
    assert table.html().count("<tr") == 201
    assert "200 of 12,480 rows" in Table(rows[:200], caption="Turns", total=12_480).text()
    assert "1 row" in Table(rows[:1], caption="Turns").text()


def test_table_cut_by_bytes_says_so(read: Read) -> None:
    words = read(Table([{"text": "é" * 390} for _ in range(200)], caption="Long").html(20_000))
    assert "of 200 rows (the limit is 20.0 kB)" in words


def test_table_in_text_is_aligned() -> None:
    table = Table(
        [
            {"name": "Ünï", "tokens": 12_400, "cost": 0.01234},
            {"name": "漢字", "tokens": 950, "cost": None},
        ],
        ["name", Column("tokens", format=tokens), Column("cost", unit="USD", format=money, align="right")],
        caption="Sections",
    )
    assert table.text() == (
        "Sections · 2 rows\n"
        "name  tokens  cost (USD)\n"
        "────  ──────  ──────────\n"
        "Ünï    12.4k    $0.01234\n"
        "漢字     950     unknown"
    )
    assert {width(line) for line in table.text().split("\n")[1:]} == {24}


def test_table_html_has_caption_scopes_and_sides(read: Read) -> None:
    markup = Table([{"skill": "Fetch", "uses": 3, "last": None}], caption="Skills").html()
    read(markup)
    assert "<caption" in markup
    assert markup.count('scope="col"') == 3
    assert markup.count('scope="row"') == 1
    assert '<td style="text-align:right">3</td>' in markup
    assert '<td style="text-align:left">–</td>' in markup


def test_sorting_is_stable_says_its_direction_and_puts_unknown_last() -> None:
    rows: list[dict[str, Any]] = [
        {"k": "a", "v": 2},
        {"k": "b", "v": None},
        {"k": "c", "v": 2},
        {"k": "d", "v": float("nan")},
        {"k": "e", "v": 1},
    ]

    def order(sort: str) -> str:
        return "".join(str(row[0]) for row in Table(rows, caption="c", sort=sort).rows)

    assert (order("v"), order("-v")) == ("eacbd", "acebd")
    assert "v ↓" in Table(rows, caption="c", sort="-v").text()
    assert "v ↑" in Table(rows, caption="c", sort="v").html()
    mixed = [{"v": "x"}, {"v": 3}, {"v": NOW}, {"v": "A"}, {"v": True}]
    assert [row[0] for row in Table(mixed, caption="c", sort="v").rows] == [True, 3, NOW, "A", "x"]
    with pytest.raises(UsageError, match="no column 'z'"):
        Table(rows, caption="c", sort="z")


def test_table_of_sequences_and_wrong_widths() -> None:
    assert "2" in Table([(1, 2)], ["a", "b"], caption="c").text()
    with pytest.raises(UsageError, match="3 values for 2 columns"):
        Table([(1, 2, 3)], ["a", "b"], caption="c")
    with pytest.raises(UsageError, match="need columns"):
        Table([(1, 2)], caption="c")


def test_table_from_a_frame() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {
            "n": [3, 1],
            "x": [0.5, None],
            "s": pandas.array(["a", None], dtype="string"),
            "t": pandas.to_datetime(["2026-11-30T09:00Z", None]),
        }
    )
    table = Table.from_frame(frame, caption="Frame", sort="n")
    assert table.rows == [(1, None, None, None), (3, 0.5, "a", frame["t"][0])]
    assert "2026-11-30 09:00 UTC" in table.text()
    assert [row[0] for row in Table.from_frame(frame, ["s"], caption="c").rows] == ["a", None]
    big = pandas.DataFrame({"n": range(10_000)})
    assert "200 of 10,000 rows" in Table.from_frame(big, caption="c").text()
    with pytest.raises(UsageError, match="no column 'q'"):
        Table.from_frame(frame, ["q"], caption="c")


def test_an_object_whose_str_fails_does_not_break_the_table() -> None:
    class Bad:
        def __str__(self) -> str:
            raise RuntimeError("no")

    assert "(Bad that cannot be shown: RuntimeError)" in Table([[Bad()]], ["a"], caption="c").text()


def test_page_shows_one_state_error_before_loading_before_empty() -> None:
    empty = Empty("No turn yet", "Ask something with %%ask.")
    body = Paragraph("body text")
    pages = [
        Page(
            "t",
            "answer",
            body,
            error=HomeError("not ours", where="/h", fix="Choose another."),
            loading="x",
            empty=empty,
        ),
        Page("t", "answer", body, loading="data.db", empty=empty),
        Page("t", "answer", body, empty=empty),
        Page("t", "answer", body),
    ]
    assert [page.state for page in pages] == ["error", "loading", "empty", "content"]
    wanted = ["Error: /h: not ours", "Loading: data.db", "No turn yet", "body text"]
    for page, words in zip(pages, wanted, strict=True):
        for shown in (page.html(), page.text()):
            assert words.split(": ")[-1] in shown
            assert ("answer" in shown) == (page.state == "content")
            assert sum(word.split(": ")[-1] in shown for word in wanted) == 1
    assert "What to do: Choose another." in pages[0].text()
    assert "What to do: Ask something with %%ask." in pages[2].text()


def test_page_text_twin_whole() -> None:
    page = Page(
        "alice · normal mode",
        "58.2 kB in 3 sections.",
        Table([{"section": "base", "tokens": 1200}], caption="Sections"),
        Details("why", Pairs({"mode": "normal", "cost": Styled("$0.004", "strong")})),
        footer=Footer(
            n=412,
            method="Hazen",
            as_of=NOW - timedelta(minutes=3),
            now=NOW,
            zone="Europe/Berlin",
            source="scripted model",
        ),
    )
    assert page.text() == (
        "alice · normal mode\n"
        "58.2 kB in 3 sections.\n"
        "\n"
        "Sections · 1 row\n"
        "section  tokens\n"
        "───────  ──────\n"
        "base      1,200\n"
        "\n"
        "▸ why\n"
        "  mode  normal\n"
        "  cost  $0.004\n"
        "\n"
        "n = 412 · Hazen · data from 2026-11-30 12:57:00 Europe/Berlin (+01:00) (3 min ago)"
        " · source: scripted model"
    )
    assert str(page) == page.text()


def test_html_and_text_say_the_same(read: Read) -> None:
    page = Page(
        "t",
        "s",
        Bar("cached", 970, 1000, format=tokens),
        Band("time", 6_100, 19_000, 71_000, format=duration),
        footer=Footer(n=3),
    )
    words = read(page.html())
    for phrase in ("cached: 970 of 1.0k (97 %)", "P50 6.1 s · P90 19 s · P99 71 s", "n = 3"):
        assert phrase in words
        assert phrase in page.text()


def test_bars_of_unknown_or_nothing_are_words_only(read: Read) -> None:
    for bar in (Bar("x", None, 10), Bar("x", 5, None), Bar("x", 5, 0)):
        assert "<meter" not in bar.html()
        assert "█" not in bar.text()
    assert "unknown" in Bar("x", None, 10).text()
    assert 'value="1.0000"' in Bar("x", 30, 10).html()
    assert "300 %" in Bar("x", 30, 10).text()
    assert "unknown" in Band("x", None, None, None).text()
    assert "●" not in Band("x", None, 1, 2).text()
    assert Band("x", 0, 5, 10).text() == "━━━━━━━━━━●━━━━━━━━━ x: P50 0 · P90 5 · P99 10"


def test_code_keeps_its_first_empty_line_and_indentation(read: Read) -> None:
    source = "\n  if x:\n\ty()\n"
    assert "<pre" in Code(source).html()
    assert read(Code(source).html()) == "\n" + source
    assert Code(source).text() == source.rstrip()


def test_paragraph_keeps_the_spaces_between_its_values(read: Read) -> None:
    block = Paragraph("turn ", Styled(41, "strong"), " cost", " ", "$0.004")
    assert block.text() == "turn 41 cost $0.004"
    assert read(block.html()) == "turn 41 cost $0.004"


def test_mime_bundle_has_both_forms_and_obeys_include_and_exclude() -> None:
    block = Paragraph("hello")
    assert block._repr_mimebundle_() == {"text/html": "<p>hello</p>", "text/plain": "hello"}
    assert set(block._repr_mimebundle_(include=["text/plain"])) == {"text/plain"}
    assert set(block._repr_mimebundle_(exclude=["text/plain"])) == {"text/html"}
    assert block._repr_html_() == "<p>hello</p>"


def test_a_registered_widget_joins_and_a_failing_one_leaves_the_static_forms() -> None:
    class Assembly:
        pass

    class Variant(Assembly):
        pass

    view = {"application/vnd.jupyter.widget-view+json": {"model_id": "1"}}
    try:
        register_widget(Assembly, lambda owner: dict(view))
        bundle = mimebundle(Variant(), Paragraph("x"))
        assert bundle == {**view, "text/html": "<p>x</p>", "text/plain": "x"}

        def fail(owner: object) -> dict[str, Any]:
            raise RuntimeError("<no>")

        register_widget(Assembly, fail)
        bundle = mimebundle(Assembly(), Paragraph("x"))
        assert "RuntimeError: &lt;no&gt;" in bundle["text/html"]
        assert "RuntimeError: <no>" in bundle["text/plain"]
    finally:
        register_widget(Assembly, None)
    assert set(mimebundle(Assembly(), Paragraph("x"))) == {"text/html", "text/plain"}


def test_raw_markup_has_its_twin() -> None:
    assert Raw("<p>x</p>", "x").html() == "<p>x</p>"
    assert Raw("<p>x</p>", "x").text() == "x"
    assert "too large" in Raw("x" * 2_000, "x").html(1_000)
