"""Static HTML and its text twin: what every rich display of rightlab stands on.

Everything here is plain data in, escaped markup out: no scripts, style sheets, ids, SVG, CSS variables or
text colours, so it reads the same in an untrusted notebook, on GitHub, in an e-mail, in light and in dark.
"""

from rightlab.html.bar import Band, Bar
from rightlab.html.base import LIMIT, Block, Raw, mimebundle, register_widget
from rightlab.html.diff import Diff, diff_lines
from rightlab.html.escape import attribute, clean, clip, escape, one_line
from rightlab.html.format import (
    UNKNOWN,
    ago,
    count,
    duration,
    money,
    percent,
    plural,
    size,
    tokens,
    when,
    zone,
)
from rightlab.html.inline import Link, Styled, Value
from rightlab.html.notebook import static_form
from rightlab.html.page import Empty, Footer, Page
from rightlab.html.parts import Bullets, Code, Details, Note, Pairs, Paragraph, Stack
from rightlab.html.table import ROWS, Column, Table
from rightlab.html.width import pad, width

__all__ = [
    "LIMIT",
    "ROWS",
    "UNKNOWN",
    "Band",
    "Bar",
    "Block",
    "Bullets",
    "Code",
    "Column",
    "Details",
    "Diff",
    "Empty",
    "Footer",
    "Link",
    "Note",
    "Page",
    "Pairs",
    "Paragraph",
    "Raw",
    "Stack",
    "Styled",
    "Table",
    "Value",
    "ago",
    "attribute",
    "clean",
    "clip",
    "count",
    "diff_lines",
    "duration",
    "escape",
    "mimebundle",
    "money",
    "one_line",
    "pad",
    "percent",
    "plural",
    "register_widget",
    "size",
    "static_form",
    "tokens",
    "when",
    "width",
    "zone",
]
