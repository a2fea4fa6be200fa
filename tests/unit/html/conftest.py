"""A strict reader of our static HTML: what JupyterLab's sanitiser would take away is a failure.

Spec jupyter 1.5. Tags, attributes and style properties are the part of JupyterLab 4.6's allow-list that we
use; a new one has to be looked up there before it is added here.
"""

import re
from collections.abc import Callable
from html.parser import HTMLParser

import pytest

TAGS = {
    *(
        "a",
        "bdi",
        "br",
        "caption",
        "code",
        "del",
        "details",
        "div",
        "em",
        "ins",
        "kbd",
        "li",
        "mark",
        "meter",
    ),
    *("ol", "p", "pre", "span", "strong", "summary", "table", "tbody", "td", "th", "thead", "tr", "ul"),
}
ATTRIBUTES = {
    "*": {"style", "title"},
    "a": {"href"},
    "details": {"open"},
    "meter": {"min", "max", "value"},
    "td": {"colspan"},
    "th": {"scope"},
}
COLOR = r"rgba\(\d{1,3},\d{1,3},\d{1,3},(0?\.\d+|1|0)\)"
LENGTH = r"\d+(px|%)?"
STYLES = {
    "background-color": COLOR,
    "border": rf"1px solid {COLOR}",
    "border-bottom": rf"1px solid {COLOR}",
    "border-collapse": "collapse",
    "border-left": rf"\dpx solid {COLOR}",
    "border-top": rf"1px solid {COLOR}",
    "caption-side": "top",
    "display": "inline-block",
    "font-size": r"\d+%",
    "font-weight": "bold|normal",
    "height": LENGTH,
    "margin": LENGTH,
    "margin-left": LENGTH,
    "overflow-x": "auto",
    "padding": rf"{LENGTH}( {LENGTH})?",
    "padding-left": LENGTH,
    "text-align": "left|right|center",
    "text-decoration": "line-through|none",
    "vertical-align": "top|middle",
    "white-space": "pre-wrap|pre",
    "width": rf"{LENGTH}|auto",
}
VOID = {"br"}


class Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.seen: list[str] = []
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in TAGS, f"<{tag}> does not survive"
        self.seen.append(tag)
        for name, value in attrs:
            assert name in ATTRIBUTES["*"] | ATTRIBUTES.get(tag, set()), f"<{tag} {name}> does not survive"
            if name == "style":
                self.check_style(value or "")
            if name == "href":
                assert re.match(r"(https?://|mailto:|[\w.-])", value or "")
                assert not re.match(r"\s*(javascript|data|vbscript)", value or "", re.IGNORECASE)
        if tag not in VOID:
            self.open.append(tag)

    def check_style(self, style: str) -> None:
        for declaration in style.split(";"):
            name, _, value = declaration.partition(":")
            assert name in STYLES, f"style {name} does not survive or sets a text colour"
            assert re.fullmatch(STYLES[name], value), f"style {declaration} does not survive"

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError("a comment")

    def handle_decl(self, decl: str) -> None:
        raise AssertionError("a declaration")

    def handle_pi(self, data: str) -> None:
        raise AssertionError("a processing instruction")

    def unknown_decl(self, data: str) -> None:
        raise AssertionError("an unknown declaration")


@pytest.fixture
def read() -> Callable[[str], str]:
    """Check one piece of HTML and return its text content."""

    def reading(markup: str) -> str:
        markup.encode("utf-8")
        reader = Reader()
        reader.feed(markup)
        reader.close()
        assert reader.open == [], f"never closed: {reader.open}"
        return "".join(reader.words)

    return reading
