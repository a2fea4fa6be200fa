"""The frame every view stands in (spec views): title, the sentence that answers, body, footer."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from rightlab.errors import RightlabError
from rightlab.html.base import LINE, ROOM, Block, join_html
from rightlab.html.escape import escape, one_line, size_of
from rightlab.html.format import ago, count, when
from rightlab.html.parts import Note, Stack

__all__ = ["Empty", "Footer", "Page"]

SENTENCE_CHARS = 1_000


@dataclass(frozen=True, slots=True)
class Empty:
    """Nothing to show: ``what`` is missing and ``fill``, what would fill it and how."""

    what: str
    fill: str


@dataclass(frozen=True, slots=True)
class Footer:
    """Where the numbers come from: how many, by which method, how old, whose.

    ``as_of`` (aware) is shown as its distance from ``now`` and exactly in ``zone``; ``source`` names what
    made the data, "scripted model" when that did; ``more`` are further facts such as the window.
    """

    n: int | None = None
    method: str | None = None
    as_of: datetime | None = None
    now: datetime | None = None
    zone: str = "UTC"
    source: str | None = None
    more: tuple[str, ...] = ()

    def facts(self) -> list[str]:
        facts = []
        if self.n is not None:
            facts.append(f"n = {count(self.n)}")
        if self.method:
            facts.append(self.method)
        facts.extend(self.more)
        if self.as_of is not None:
            exact = when(self.as_of, self.zone, seconds=True)
            facts.append(f"data from {exact}" + (f" ({ago(self.as_of, self.now)})" if self.now else ""))
        if self.source:
            facts.append(f"source: {self.source}")
        return [one_line(fact) for fact in facts]


class Page(Block):
    """One view. ``title`` says what, which agent, window and zone; ``sentence`` answers the view's question.

    One state is shown: an error before loading before empty before the content. A footer is always kept, also
    when the body is cut at the byte limit.
    """

    def __init__(
        self,
        title: str,
        sentence: str = "",
        *body: Block,
        footer: Footer | None = None,
        error: BaseException | str | None = None,
        loading: str | None = None,
        empty: Empty | None = None,
    ) -> None:
        self.title = title
        self.sentence = sentence
        self.body = body
        self.footer = footer
        self.error = error
        self.loading = loading
        self.empty = empty

    @property
    def state(self) -> Literal["error", "loading", "empty", "content"]:
        if self.error is not None:
            return "error"
        if self.loading is not None:
            return "loading"
        return "empty" if self.empty is not None else "content"

    def _blocks(self) -> tuple[Block, ...]:
        if self.error is not None:
            return (_error_note(self.error),)
        if self.loading is not None:
            return (Note(f"Loading: {self.loading}"),)
        if self.empty is not None:
            return (Note(self.empty.what, fix=self.empty.fill),)
        return self.body

    def _html(self, limit: int) -> str:
        start = (
            f'<div style="border-left:{LINE};padding-left:12px">'
            f'<p style="font-weight:bold;font-size:115%;margin:0">{escape(one_line(self.title))}</p>'
        )
        if self.sentence and self.state == "content":
            start += f"<p>{escape(one_line(self.sentence, SENTENCE_CHARS))}</p>"
        end = "</div>"
        if self.footer is not None and (facts := self.footer.facts()):
            end = f'<p style="border-top:{LINE};font-size:90%">{escape(" · ".join(facts))}</p></div>'
        inside = join_html(self._blocks(), limit - size_of(start) - size_of(end) - ROOM)
        return start + inside + end

    def _text(self) -> str:
        lines = [one_line(self.title)]
        if self.sentence and self.state == "content":
            lines.append(one_line(self.sentence, SENTENCE_CHARS))
        if body := Stack(*self._blocks()).text():
            lines.extend(["", body])
        if self.footer is not None and (facts := self.footer.facts()):
            lines.extend(["", " · ".join(facts)])
        return "\n".join(lines)


def _error_note(error: BaseException | str) -> Note:
    if isinstance(error, RightlabError):
        where = f"{error.where}: " if error.where else ""
        return Note(f"{where}{error.message}", kind="error", fix=error.fix)
    if isinstance(error, BaseException):
        return Note(f"{type(error).__name__}: {error}", kind="error")
    return Note(error, kind="error")
