"""What every shown thing can do: HTML, its text twin, a byte limit, and a hook for live widgets."""

import html
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

from rightlab.html.escape import clean, size_of
from rightlab.html.format import size

__all__ = ["LIMIT", "Block", "Raw", "join_html", "mimebundle", "notice_html", "register_widget"]

LIMIT = 100_000
"""Bytes one shown object may take in a notebook, in each of its two forms (design 11)."""

ROOM = 300
"""Bytes kept free for saying that something was cut."""

FAINT = "rgba(127,127,127,0.15)"
LINE = "1px solid rgba(127,127,127,0.4)"


class Block(ABC):
    """Something shown: in a notebook as HTML, in a terminal or to a screen reader as text.

    Subclasses implement ``_html(limit)`` and ``_text()``. ``_html`` keeps to ``limit`` bytes by leaving
    things out and saying so; it never cuts markup.
    """

    def html(self, limit: int = LIMIT) -> str:
        """Static HTML of at most ``limit`` bytes. Only markup that survives JupyterLab's sanitiser."""
        out = self._html(limit)
        return out if size_of(out) <= limit else notice_html(f"Not shown: it needs more than {size(limit)}.")

    def text(self, limit: int = LIMIT) -> str:
        """The same content as text of at most ``limit`` bytes, without trailing white space."""
        return _cut(self._text().rstrip(), limit)

    @abstractmethod
    def _html(self, limit: int) -> str: ...

    @abstractmethod
    def _text(self) -> str: ...

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        return self.html()

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return mimebundle(self, self, include, exclude)


class Raw(Block):
    """Markup of our own making beside its text twin. Never other people's text: that goes through
    ``escape``.
    """

    def __init__(self, markup: str, text: str) -> None:
        self._markup = markup
        self._twin = text

    def _html(self, limit: int) -> str:
        return self._markup if size_of(self._markup) <= limit else notice_html("Not shown: too large.")

    def _text(self) -> str:
        return self._twin


Widget = Callable[[Any], dict[str, Any]]
_widgets: dict[type, Widget] = {}


def register_widget(shown: type, widget: Widget | None) -> None:
    """Let ``widget(owner)`` add its MIME types when an object of class ``shown`` is displayed; None takes
    it back.

    The views register here, so that nothing below imports them.
    """
    if widget is None:
        _widgets.pop(shown, None)
    else:
        _widgets[shown] = widget


def mimebundle(owner: object, block: Block, include: Any = None, exclude: Any = None) -> dict[str, Any]:
    """What IPython shows for ``owner``: ``block`` as text/html and text/plain, and a live widget where one
    is known.

    A widget that fails leaves the static forms alone: looking at something must not fail.
    """
    bundle: dict[str, Any] = {"text/html": block.html(), "text/plain": block.text()}
    make = next((_widgets[kind] for kind in type(owner).__mro__ if kind in _widgets), None)
    if make is not None:
        try:
            bundle = {**make(owner), **bundle}
        except Exception as error:
            reason = f"The live view failed ({type(error).__name__}: {error})."[:300]
            bundle["text/html"] += notice_html(reason)
            bundle["text/plain"] += f"\n{clean(reason)}"
    if include:
        bundle = {kind: data for kind, data in bundle.items() if kind in include}
    if exclude:
        bundle = {kind: data for kind, data in bundle.items() if kind not in exclude}
    return bundle


def notice_html(text: str) -> str:
    """A visible line of ours, such as that something was left out."""
    return f"<p><em>{html.escape(clean(text))}</em></p>"


def join_html(blocks: Iterable[Block], limit: int) -> str:
    """Blocks below each other within ``limit`` bytes; what no longer fits is counted in a notice."""
    waiting = list(blocks)
    left = limit - ROOM
    out = []
    while waiting and left > ROOM:
        piece = waiting[0].html(left)
        out.append(piece)
        left -= size_of(piece)
        waiting.pop(0)
    if waiting:
        out.append(notice_html(f"Not shown: {len(waiting)} more, the limit is {size(limit)}."))
    return "".join(out)


def _cut(text: str, limit: int) -> str:
    if size_of(text) <= limit:
        return text
    notice = f"\n… cut at {size(limit)} of {size(size_of(text))}"
    kept = text.encode("utf-8", "replace")[: max(limit - size_of(notice), 0)].decode("utf-8", "ignore")
    return kept.rstrip() + notice
