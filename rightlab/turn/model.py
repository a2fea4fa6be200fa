"""The turn as people get it: what was said, in which session, what it took and what it cost."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from rightlab.content import RichContent
from rightlab.html import (
    Block,
    Column,
    Footer,
    Note,
    Page,
    Paragraph,
    Table,
    duration,
    mimebundle,
    money,
    size,
    tokens,
)

__all__ = ["Turn", "cost_word", "sections_table"]


@dataclass(frozen=True, slots=True)
class Turn:
    """One finished turn.

    ``reply`` is rich content, or None when the agent chose to say nothing; ``text`` its plain form. ``cost_usd`` is
    None when the price is unknown; ``elapsed_ms`` wall time from message to stored reply; ``num_turns`` the CLI's
    step count (a structured reply counts 2). ``status`` is delivered, replied (waits to be sent), partial, failed or
    lost.
    """

    turn_id: str
    status: str
    reply: RichContent | None
    session_id: str | None
    num_turns: int | None
    cost_usd: float | None
    usage: Mapping[str, Any]
    elapsed_ms: int
    model: str | None = None
    skills: tuple[str, ...] = ()
    sections: tuple[Mapping[str, Any], ...] = ()
    prompt_bytes: int | None = None
    prompt_sha256: str | None = None
    error: str | None = None
    source: str = ""
    agent: str = ""
    tools: tuple[str, ...] = field(default=())

    @property
    def text(self) -> str:
        return self.reply.plain_text() if self.reply is not None else ""

    def to_json(self) -> dict[str, Any]:
        """The document of ``rightlab ask --json`` (contract), plus what the views show."""
        data = {key: value for key, value in asdict(self).items() if key != "reply"}
        data["reply"] = self.reply.to_json() if self.reply is not None else None
        data["text"] = self.text
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Turn":
        values = {key: value for key, value in data.items() if key not in {"reply", "text"}}
        for key in ("skills", "sections", "tools"):
            values[key] = tuple(values.get(key) or ())
        reply = data.get("reply")
        return cls(reply=RichContent.model_validate(reply) if reply is not None else None, **values)

    def page(self) -> Page:
        """The reply, then why it cost what it did."""
        facts = [
            "" if self.num_turns is None else f"{self.num_turns} steps",
            duration(self.elapsed_ms),
            "" if self.num_turns is None else cost_word(self.cost_usd, self.source),
            self.model or "",
        ]
        said: Block
        if self.error is not None:
            said = Note(self.error, kind="error")
        else:
            said = Paragraph(self.text or "(the agent chose to say nothing)")
        body: list[Block] = [said]
        if self.sections:
            body.append(
                sections_table(self.sections, f"System prompt of this turn, {size(self.prompt_bytes)}")
            )
        return Page(
            self.agent or "turn",
            " · ".join(fact for fact in facts if fact),
            *body,
            footer=Footer(source=self.source or None, more=(f"turn {self.turn_id[:8]}",)),
        )

    def __repr__(self) -> str:
        return f"<Turn {self.turn_id[:8]} {self.status}: {self.text[:60]!r}>"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return mimebundle(self, self.page(), include, exclude)


def cost_word(cost_usd: float | None, source: str) -> str:
    """``cost $0.01234``; with what a script only pretends to have cost marked as such."""
    return f"cost {money(cost_usd)}" + (" (scripted)" if source.startswith("scripted") else "")


def sections_table(sections: Sequence[Mapping[str, Any]], caption: str) -> Table:
    """The sections of one prompt: name, owner, bytes, estimated tokens."""
    return Table(
        sections,
        [
            Column("name", "section"),
            Column("owner"),
            Column("bytes", align="right", format=size),
            Column("tokens", "tokens, about", align="right", format=tokens),
        ],
        caption=caption,
    )
