"""What goes out as one message each, whatever the channel."""

from dataclasses import dataclass
from typing import Literal

from rightlab.content.model import RichContent
from rightlab.content.split import MESSAGE_UNITS, split_text

__all__ = ["Part", "text_parts"]


@dataclass(frozen=True, slots=True)
class Part:
    """One message of a reply. ``index`` counts from 0; ``text`` is literal, not markup."""

    index: int
    kind: Literal["text"]
    text: str


def text_parts(content: RichContent, limit: int = MESSAGE_UNITS) -> list[Part]:
    """``content`` as plain-text messages of at most ``limit`` UTF-16 code units; at least one, none blank."""
    return [Part(index, "text", text) for index, text in enumerate(split_text(content.plain_text(), limit))]
