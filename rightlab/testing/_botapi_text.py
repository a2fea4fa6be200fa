"""Message text as the Bot API server checks it: entities, HTML, lengths in UTF-16 code units."""

import re
from html.parser import HTMLParser
from typing import Any

__all__ = ["TextRefused", "auto_entities", "checked_text", "units"]

MESSAGE_UNITS = 4096
_TAGS = {
    "b": "bold",
    "strong": "bold",
    "i": "italic",
    "em": "italic",
    "u": "underline",
    "ins": "underline",
    "s": "strikethrough",
    "strike": "strikethrough",
    "del": "strikethrough",
    "code": "code",
    "pre": "pre",
    "a": "text_link",
    "blockquote": "blockquote",
    "tg-spoiler": "spoiler",
    "span": "spoiler",
}
_ENTITY_TYPES = {*_TAGS.values(), "mention", "hashtag", "cashtag", "bot_command", "url", "email"} | {
    "phone_number",
    "text_mention",
    "custom_emoji",
    "expandable_blockquote",
}


class TextRefused(Exception):
    """The server's text for a 400."""


def units(text: str) -> int:
    """Length in UTF-16 code units."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def checked_text(text: Any, parse_mode: str | None, entities: Any) -> tuple[str, list[dict[str, Any]]]:
    """The text as it would be stored and its entities. Raises :class:`TextRefused` with the server's words.

    ``parse_mode`` is none or HTML; the Markdown modes are not part of this stand-in.
    """
    source = "" if text is None else str(text)
    try:
        source.encode()
    except UnicodeEncodeError:
        raise TextRefused("Bad Request: strings must be encoded in UTF-8") from None
    if parse_mode:
        if parse_mode.lower() != "html":
            raise TextRefused("Bad Request: unsupported parse_mode")
        plain, found = _Html.parse(source)
    else:
        plain, found = source, _given(source, entities or [])
    stored = plain.strip()
    if not stored:
        raise TextRefused("Bad Request: message text is empty")
    if units(stored) > MESSAGE_UNITS:
        raise TextRefused("Bad Request: message is too long")
    lead = units(plain) - units(plain.lstrip())
    return stored, [{**entity, "offset": max(0, entity["offset"] - lead)} for entity in found]


def _given(text: str, entities: list[dict[str, Any]]) -> list[dict[str, Any]]:
    if not isinstance(entities, list):
        raise TextRefused("Bad Request: can't parse entities: expected an Array of MessageEntity")
    raw = text.encode("utf-16-le")
    total = len(raw) // 2
    for entity in entities:
        kind, offset, length = (entity.get(key) for key in ("type", "offset", "length"))
        if kind not in _ENTITY_TYPES:
            raise TextRefused("Bad Request: can't parse MessageEntity: unsupported type specified")
        if not isinstance(offset, int) or not isinstance(length, int):
            raise TextRefused(
                'Bad Request: can\'t parse MessageEntity: Field "offset" must be of type Number'
            )
        if offset < 0 or length <= 0 or offset + length > total:
            raise TextRefused(
                f"Bad Request: can't parse entities: entity begins in a middle of a UTF-16 symbol or ends"
                f" after the end of the text at position {offset} with length {length}"
            )
        for edge in (offset, offset + length):
            if edge < total and 0xDC00 <= int.from_bytes(raw[edge * 2 : edge * 2 + 2], "little") <= 0xDFFF:
                raise TextRefused(
                    "Bad Request: can't parse entities: entity begins in a middle of a UTF-16 symbol at"
                    f" position {edge}"
                )
    return list(entities)


def auto_entities(text: str) -> list[dict[str, Any]]:
    """What the server finds by itself in a person's message: commands and mentions."""
    found = []
    for kind, pattern in (("bot_command", r"(?<![\w/])/\w+(?:@\w+)?"), ("mention", r"(?<!\w)@\w{3,}")):
        for match in re.finditer(pattern, text):
            found.append(
                {"type": kind, "offset": units(text[: match.start()]), "length": units(match.group())}
            )
    return sorted(found, key=lambda entity: int(entity["offset"]))


class _Html(HTMLParser):
    """Only the tags the server knows, closed in order; anything else is refused as there."""

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=False)
        self.source = source
        self.text = ""
        self.open: list[tuple[str, int, dict[str, Any]]] = []
        self.found: list[dict[str, Any]] = []

    @classmethod
    def parse(cls, source: str) -> tuple[str, list[dict[str, Any]]]:
        parser = cls(source)
        # The library's parser is lenient about a bare "<"; the server is not.
        for match in re.finditer("<", source):
            if not re.match(r"</?[a-zA-Z][^<>]*>", source[match.start() :]):
                at = len(source[: match.start()].encode())
                raise TextRefused(
                    f'Bad Request: can\'t parse entities: Unsupported start tag "" at byte offset {at}'
                )
        parser.feed(source)
        parser.close()
        if parser.open:
            tag = parser.open[-1][0]
            raise TextRefused(
                f"Bad Request: can't parse entities: Can't find end tag corresponding to start tag \"{tag}\""
            )
        return parser.text, sorted(parser.found, key=lambda entity: (entity["offset"], -entity["length"]))

    def _at(self) -> int:
        line, column = self.getpos()
        before = self.source.split("\n")
        return len("\n".join([*before[: line - 1], before[line - 1][:column]]).encode())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag not in _TAGS or (tag == "span" and given.get("class") != "tg-spoiler"):
            raise TextRefused(
                f'Bad Request: can\'t parse entities: Unsupported start tag "{tag}"'
                f" at byte offset {self._at()}"
            )
        more: dict[str, Any] = {"url": given.get("href") or ""} if tag == "a" else {}
        if tag == "code" and (given.get("class") or "").startswith("language-"):
            more["language"] = (given["class"] or "")[len("language-") :]
        self.open.append((tag, units(self.text), more))

    def handle_endtag(self, tag: str) -> None:
        if not self.open:
            raise TextRefused(
                f"Bad Request: can't parse entities: Unexpected end tag at byte offset {self._at()}"
            )
        opened, start, more = self.open.pop()
        if opened != tag:
            raise TextRefused(
                f"Bad Request: can't parse entities: Unmatched end tag at byte offset {self._at()},"
                f' expected "</{opened}>", found "</{tag}>"'
            )
        length = units(self.text) - start
        if length and not (opened == "a" and not more["url"]):
            self.found.append({"type": _TAGS[opened], "offset": start, "length": length, **more})

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_entityref(self, name: str) -> None:
        known = {"lt": "<", "gt": ">", "amp": "&", "quot": '"'}
        self.text += known.get(name, f"&{name}")

    def handle_charref(self, name: str) -> None:
        number = int(name[1:], 16) if name[:1] in "xX" else int(name)
        self.text += chr(number) if 0 < number < 0x110000 and not 0xD800 <= number < 0xE000 else f"&#{name};"
