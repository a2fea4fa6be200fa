"""Rich content as the plain text everybody can read (spec agent-runtime 2.1, normal form)."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rightlab.content.model import Block, Run

__all__ = ["normal_form", "plain_blocks"]


def normal_form(text: str) -> str:
    """``text`` with every line trimmed at its right end and the whole trimmed at both."""
    return "\n".join(line.rstrip() for line in text.split("\n")).strip()


def plain_blocks(blocks: "Iterable[Block]") -> str:
    """Blocks joined by an empty line; a block that says nothing (a table of empty cells) leaves no gap."""
    texts = (normal_form(_plain(block)) for block in blocks)
    return normal_form("\n\n".join(text for text in texts if text))


def _plain(block: "Block") -> str:
    if block.type == "code":
        return block.text
    if block.type == "list":
        marks = (f"{number}. " if block.ordered else "- " for number in range(1, len(block.items) + 1))
        return "\n".join(mark + _joined(item.runs) for mark, item in zip(marks, block.items, strict=True))
    if block.type == "table":
        return "\n".join("\t".join(_joined(cell.runs) for cell in row) for row in block.rows)
    return _joined(block.runs)


def _joined(runs: "Iterable[Run]") -> str:
    return "".join(run.text for run in runs)
