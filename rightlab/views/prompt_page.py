"""The prompt on the desk as pages: the header, the section table, what was found, and all of it in static form."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from rightlab.clock import SystemClock
from rightlab.html import (
    Block,
    Bullets,
    Code,
    Column,
    Details,
    Footer,
    Note,
    Page,
    Paragraph,
    Stack,
    Table,
    ago,
    count,
    percent,
    plural,
    size,
    tokens,
)

if TYPE_CHECKING:
    from rightlab.views.prompt_desk import PromptDesk
    from rightlab.views.prompt_rows import Row

__all__ = ["HEADINGS", "Within", "cells", "findings", "fitted", "header", "page", "status"]

HEADINGS: tuple[tuple[str, Literal["left", "right"]], ...] = (
    ("#", "right"),
    ("section", "left"),
    ("owner", "left"),
    ("tokens", "right"),
    ("stable", "right"),
    ("cached", "left"),
    ("change", "left"),
)


def cells(desk: "PromptDesk", at: int, row: "Row") -> list[str]:
    """A row as texts, one per heading; * marks what is edited in the variant."""
    return [
        str(at),
        row.name + (" *" if row.edited else ""),
        row.owner,
        tokens(row.tokens) if row.data else "",
        "" if row.stability is None else percent(row.stability),
        desk.effect.cached.get(row.name, ""),
        "cannot be rendered"
        if row.data is None
        else " · ".join(part for part in (row.change, row.note) if part),
    ]


def header(desk: "PromptDesk") -> Page:
    """The line of figures, and the sentence that says what the edits do."""
    title = [desk.lab.name, f"{desk.mode} mode", size(desk.bytes), f"about {tokens(desk.tokens)} tokens"]
    if (share := desk.effect.now) is not None:
        edited = desk.effect.then if desk.effect.then != share else None
        change = f" (with the edits {percent(edited)})" if edited is not None else ""
        requests = plural(desk.traffic.n, "recorded request")
        title.append(f"stable prefix {percent(share)}{change} over {requests}")
    sentence = " ".join(part for part in (desk.summary, _delta(desk), desk.effect.sentence) if part)
    if desk.error is not None:
        sentence = f"This prompt cannot be sent: {desk.error}"
    last = desk.traffic.last
    more: tuple[str, ...] = ()
    if last is not None:
        more = (f"cached: as in the last recorded request, {ago(last, SystemClock().now())}",)
    footer = Footer(
        method=f"tokens: {desk.token_method}",
        more=more,
        source="scripted model" if desk.traffic.scripted else None,
    )
    return Page(" · ".join(title), sentence, footer=footer)


def status(desk: "PromptDesk") -> str:
    """One line about the prompt as it is after an edit."""
    return f"{size(desk.bytes)}, about {tokens(desk.tokens)} tokens{_signed(desk)}"


def _signed(desk: "PromptDesk") -> str:
    if not desk.differing:
        return ""
    change = desk.tokens - desk.tokens_before
    return f" ({tokens(change, signed=True)} against {desk.against.label})"


def _delta(desk: "PromptDesk") -> str:
    differing = desk.differing
    if not differing:
        return "" if desk.against.kind == "own" else f"It equals {desk.against.label}."
    what = plural(len(differing), "section differs", "sections differ")
    change = tokens(desk.tokens - desk.tokens_before, signed=True)
    return f"{what} from {desk.against.label}: {change} tokens."


def findings(desk: "PromptDesk") -> Sequence[Block]:
    """Problems and what the linter found."""
    problems = desk.assembly.problems
    found: list[Block] = [
        Paragraph("Problems: none." if not problems else f"Problems: {count(len(problems))}.")
    ]
    if problems:
        found.append(Bullets([f"{one.code}: {one.message}" for one in problems]))
    if desk.lint is None:
        broken = any(row.data is None for row in desk.rows)
        found.append(
            Paragraph("Lint: waits until every section can be rendered." if broken else "Lint: reading …")
        )
        return found
    if not desk.lint:
        found.append(Paragraph("Lint: nothing to improve."))
        return found
    graver = [one for one in desk.lint if one.severity != "note"]
    columns = [
        Column("severity"),
        Column("section"),
        Column("line"),
        Column("message", "what"),
        Column("fix", "what to do"),
    ]
    table = Table(
        [one.to_json() for one in desk.lint], columns, caption="Worth changing", row_headers=False, most=50
    )
    head = f"Lint: {plural(len(desk.lint), 'finding')}, {count(len(graver))} worth acting on"
    found.append(Details(head, table, open=bool(graver)))
    return found


def page(desk: "PromptDesk", divergence: Block | None = None) -> Page:
    """The whole view without its controls."""
    top = header(desk)
    columns = [Column(str(at), name, align=side) for at, (name, side) in enumerate(HEADINGS)]
    rows = [
        {str(key): text for key, text in enumerate(cells(desk, at, row))}
        for at, row in enumerate(desk.rows, 1)
    ]
    body: list[Block] = [
        Table(
            rows,
            columns,
            caption="Sections in the order the model reads them (* edited)",
            row_headers=False,
        )
    ]
    if desk.differing:
        body += desk.diffs()
    else:
        whole = b"\n\n".join(row.data for row in desk.rows if row.data)
        body.append(Details("What the model reads", Code(whole.decode("utf-8", "replace"))))
    body += findings(desk)
    if divergence is not None:
        body.append(divergence)
    if desk.error is not None:
        body.insert(0, Note(str(desk.error), kind="error", fix=desk.error.fix))
    return Page(top.title, top.sentence, Stack(*body), footer=top.footer)


class Within(Block):
    """``block`` in at most ``most`` bytes."""

    def __init__(self, block: Block, most: int) -> None:
        self._block = block
        self._most = most

    def _html(self, limit: int) -> str:
        return self._block.html(min(limit, self._most))

    def _text(self) -> str:
        return self._block.text()


def fitted(block: Block, room: int) -> str:
    """``block`` as HTML that takes at most ``room`` bytes of a widget's state."""
    html = block.html(room)
    taken = len(json.dumps(html))
    return html if taken <= room else block.html(max(500, room * room // taken))
