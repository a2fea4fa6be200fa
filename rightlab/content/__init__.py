"""Rich content: the model, its validation, its plain text and the messages it becomes."""

from rightlab.content.graphemes import utf16_len
from rightlab.content.model import (
    Block,
    Cell,
    Code,
    Heading,
    Item,
    List,
    Mark,
    Paragraph,
    Quote,
    RichContent,
    Run,
    Table,
)
from rightlab.content.parts import Part, text_parts
from rightlab.content.plain import normal_form
from rightlab.content.schema import rich_content_schema
from rightlab.content.split import MESSAGE_UNITS, split_text
from rightlab.content.validate import ERROR_KINDS, validate

__all__ = [
    "ERROR_KINDS",
    "MESSAGE_UNITS",
    "Block",
    "Cell",
    "Code",
    "Heading",
    "Item",
    "List",
    "Mark",
    "Paragraph",
    "Part",
    "Quote",
    "RichContent",
    "Run",
    "Table",
    "normal_form",
    "rich_content_schema",
    "split_text",
    "text_parts",
    "utf16_len",
    "validate",
]
