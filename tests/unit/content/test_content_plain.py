"""Plain text, platform text and platform paragraphs (spec agent-runtime 2.1)."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rightlab.content import RichContent, normal_form, utf16_len
from rightlab.errors import ContentError


def test_normal_form_of_every_block() -> None:
    content = RichContent.model_validate(
        {
            "blocks": [
                {"type": "heading", "level": 2, "runs": [{"text": "  Title  "}]},
                {
                    "type": "paragraph",
                    "runs": [
                        {"text": "go to "},
                        {"text": "here", "link": "https://a.example"},
                        {"text": " now "},
                    ],
                },
                {
                    "type": "list",
                    "ordered": True,
                    "items": [{"runs": [{"text": "one "}]}, {"runs": [{"text": "two"}]}],
                },
                {"type": "list", "ordered": False, "items": [{"runs": [{"text": "dot"}]}]},
                {"type": "quote", "runs": [{"text": "wise\t\nwords"}]},
                {"type": "code", "text": "a:\n    b  \n", "language": "py"},
                {"type": "table", "rows": [[{"runs": []}]]},
                {
                    "type": "table",
                    "rows": [
                        [{"runs": [{"text": "a"}]}, {"runs": []}],
                        [{"runs": []}, {"runs": [{"text": "d"}]}],
                    ],
                },
            ]
        }
    )
    assert content.plain_text() == (
        "Title\n\ngo to here now\n\n1. one\n2. two\n\n- dot\n\nwise\nwords\n\na:\n    b\n\na\n\td"
    )


def test_text_form_is_normalised_too() -> None:
    assert RichContent.model_validate({"text": "\n a  \nb\t\n\n"}).plain_text() == "a\nb"


def test_platform_paragraphs_leave_the_agents_nodes_alone() -> None:
    said = RichContent.model_validate({"blocks": [{"type": "code", "text": "x  ", "language": None}]})
    both = said.append_paragraph(
        ["💡 learned (", {"text": "rightx-notes", "marks": ["code"]}, ")"]
    ).prepend_paragraph("Note")
    assert both.to_json()["blocks"][1] == said.to_json()["blocks"][0]
    assert both.plain_text() == "Note\n\nx\n\n💡 learned (rightx-notes)"
    assert said.plain_text() == "x"


def test_platform_paragraph_after_plain_text() -> None:
    both = RichContent.model_validate({"text": "a\n\nb"}).append_paragraph("c")
    assert both.to_json()["blocks"][0]["runs"] == [{"text": "a\n\nb", "marks": None, "link": None}]
    assert both.plain_text() == "a\n\nb\n\nc"


def test_a_platform_paragraph_obeys_the_rules() -> None:
    with pytest.raises(ContentError) as caught:
        RichContent.from_text("x").append_paragraph([{"text": "y", "link": "ftp://z"}])
    assert caught.value.where == "blocks[1].runs[0].link"


def test_empty_platform_text_is_refused() -> None:
    for text in ("", " \n", "\u3000" * 40_000):
        with pytest.raises(ContentError) as caught:
            RichContent.from_text(text)
        assert caught.value.kind == "EmptyContent"


def test_half_a_pair_becomes_a_replacement_and_two_halves_one_character() -> None:
    assert RichContent.from_text("a\ud83d!").text == "a\ufffd!"
    assert RichContent.from_text("\ud83d\ude00").text == "😀"


@pytest.mark.parametrize(
    "text",
    [
        "x" * 100_000,
        "😀" * 40_000,
        "word " * 20_000,
        "para\n\n" * 15_000,
        "a\n\n\n\nb\n\n  c  \n\n" * 8_000,
        ("y" * 30_000 + "\n\n") * 4 + "end",
        "\n\n" + "z\r\n\r\n" * 20_000,
    ],
)
def test_long_platform_text_keeps_its_plain_text(text: str) -> None:
    content = RichContent.from_text(text)
    assert content.plain_text() == normal_form(text)
    assert content.blocks
    for block in content.to_json()["blocks"]:
        assert all(utf16_len(run["text"]) <= 32_768 for run in block["runs"])


def test_long_platform_text_is_cut_at_its_gaps() -> None:
    content = RichContent.from_text(("y" * 20_000 + "\n\n") * 3 + "end")
    sizes = [sum(utf16_len(run["text"]) for run in block["runs"]) for block in content.to_json()["blocks"]]
    assert sizes == [20_000, 20_000, 20_005]


@given(
    st.text(alphabet=st.sampled_from("a \n\t😀é"), min_size=1, max_size=60).filter(str.strip),
    st.integers(1, 3),
)
@settings(max_examples=40, deadline=None)
def test_any_long_text_keeps_its_plain_text(pattern: str, scale: int) -> None:
    text = pattern * (33_000 * scale // len(pattern) + 1)
    assert RichContent.from_text(text).plain_text() == normal_form(text)
