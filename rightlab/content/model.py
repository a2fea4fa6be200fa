"""Rich content: what an agent says, free of any markup language (spec agent-runtime 2.1; contract)."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from rightlab.content.graphemes import utf16_len
from rightlab.content.plain import normal_form, plain_blocks
from rightlab.content.schema import MAX_TEXT
from rightlab.content.split import split_text
from rightlab.content.validate import validate
from rightlab.errors import ContentError

__all__ = [
    "Block",
    "Cell",
    "Code",
    "Heading",
    "Item",
    "List",
    "Mark",
    "Paragraph",
    "Quote",
    "RichContent",
    "Run",
    "Table",
]

Mark = Literal["bold", "italic", "strikethrough", "code"]


class _Part(BaseModel):
    """A piece of rich content. Its rules are checked when it becomes part of a :class:`RichContent`."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Run(_Part):
    """Text in one style. A ``code`` mark stands alone and without a link."""

    text: str
    marks: tuple[Mark, ...] | None = None
    link: str | None = None


class Paragraph(_Part):
    type: Literal["paragraph"] = "paragraph"
    runs: tuple[Run, ...]


class Heading(_Part):
    type: Literal["heading"] = "heading"
    level: int
    runs: tuple[Run, ...]


class Item(_Part):
    runs: tuple[Run, ...]


class List(_Part):
    type: Literal["list"] = "list"
    ordered: bool
    items: tuple[Item, ...]


class Quote(_Part):
    type: Literal["quote"] = "quote"
    runs: tuple[Run, ...]


class Code(_Part):
    type: Literal["code"] = "code"
    text: str
    language: str | None


class Cell(_Part):
    runs: tuple[Run, ...]


class Table(_Part):
    type: Literal["table"] = "table"
    rows: tuple[tuple[Cell, ...], ...]


Block = Annotated[Paragraph | Heading | List | Quote | Code | Table, Field(discriminator="type")]
RunLike = Run | Mapping[str, Any] | str


class RichContent(_Part):
    """Either ``text`` or ``blocks``, never both; immutable, and valid by construction.

    ``RichContent.model_validate(obj)`` takes decoded JSON and raises :class:`ContentError` for the first
    rule broken: ``.kind`` names the rule, ``.where`` the place. Content inside another pydantic model
    raises the same.
    """

    text: str | None = None
    blocks: tuple[Block, ...] | None = None

    @model_validator(mode="before")
    @classmethod
    def _hold_to_the_rules(cls, data: Any) -> Any:
        if isinstance(data, RichContent):
            return data
        plain = _plain_data(data)
        validate(plain)
        return plain

    @classmethod
    def model_validate_json(cls, json_data: str | bytes | bytearray, **options: Any) -> Self:
        """As ``model_validate``, from JSON text; text that is no JSON is a :class:`ContentError` too."""
        try:
            return super().model_validate_json(json_data, **options)
        except ValidationError as error:
            reason = str(error.errors(include_url=False, include_input=False)[0]["msg"])
            raise ContentError("WrongType", reason, where="content", fix="Give one JSON object.") from error

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Platform text of any length, literally: no markup is looked for.

        Up to 32,768 UTF-16 units it is the ``text`` form. Longer text becomes paragraphs of runs that fit,
        cut at an empty line where there is one, so that the plain text stays what it was. Half a surrogate
        pair becomes U+FFFD.

        :raises ContentError: ``EmptyContent`` when there is no visible character.
        """
        text = _whole_characters(text)
        if utf16_len(text) <= MAX_TEXT:
            return cls.model_validate({"text": text})
        return cls.model_validate({"blocks": _paragraphs(text)})

    def append_paragraph(self, runs: str | Iterable[RunLike]) -> Self:
        """New content with a paragraph of the platform's after what the agent said, which stays as it is."""
        return self.model_validate({"blocks": [*self._block_data(), *_platform(runs)]})

    def prepend_paragraph(self, runs: str | Iterable[RunLike]) -> Self:
        """New content with a paragraph of the platform's before what the agent said, which stays as it is."""
        return self.model_validate({"blocks": [*_platform(runs), *self._block_data()]})

    def plain_text(self) -> str:
        """The normal form: list marks, tabs between cells, empty lines between blocks, no link targets."""
        return normal_form(self.text) if self.text is not None else plain_blocks(self.blocks or ())

    def to_json(self) -> dict[str, Any]:
        """The contract's form as JSON-ready data; absent marks, link and language are null."""
        return {"text": self.text} if self.text is not None else {"blocks": self._block_data()}

    def _block_data(self) -> list[dict[str, Any]]:
        if self.text is not None:
            return [{"type": "paragraph", "runs": [{"text": self.text, "marks": None, "link": None}]}]
        return [block.model_dump(mode="json") for block in self.blocks or ()]


def _platform(runs: str | Iterable[RunLike]) -> list[dict[str, Any]]:
    if isinstance(runs, str):
        return _paragraphs(_whole_characters(runs))
    data = [{"text": run} if isinstance(run, str) else _plain_data(run) for run in runs]
    return [{"type": "paragraph", "runs": data}]


def _paragraphs(text: str) -> list[dict[str, Any]]:
    """Paragraphs with the plain text of ``text``; each run fits, a paragraph too if the text has gaps."""
    groups: list[list[str]] = [[]]
    size = 0
    for piece in _pieces(text):
        units = utf16_len(piece)
        if groups[-1] and size + units > MAX_TEXT and groups[-1][-1].endswith("\n\n"):
            groups.append([])
            size = 0
        groups[-1].append(piece)
        size += units
    blocks = []
    for group in groups:
        joined = "".join(group) if group is groups[-1] else "".join(group)[: -len("\n\n")]
        runs = [{"text": run, "marks": None, "link": None} for run in split_text(joined, MAX_TEXT)]
        if runs:
            blocks.append({"type": "paragraph", "runs": runs})
    return blocks


def _pieces(text: str) -> list[str]:
    """``text`` cut after each empty line that stands alone between two lines that say something."""
    pieces = []
    start = at = 0
    while (gap := text.find("\n\n", at)) >= 0:
        at = gap + 2
        if gap > start and text[gap - 1].strip() and text[at : at + 1].strip():
            pieces.append(text[start:at])
            start = at
    return [*pieces, text[start:]]


def _whole_characters(text: str) -> str:
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _plain_data(data: Any) -> Any:
    """Models inside ``data`` as plain data, so that one walk checks them all."""
    if isinstance(data, BaseModel):
        return data.model_dump(exclude_unset=isinstance(data, RichContent))
    if isinstance(data, Mapping):
        return {key: _plain_data(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_plain_data(value) for value in data]
    return data
