"""A recorded model request as the prompt cache reads it, with the system prompt cut into its sections.

Recordings hold the exact bytes; which sections they are made of is known from the list of hashes and sizes
kept with the turn. The two are brought together here; whoever has recordings passes them in through the
:class:`Recorded` port.
"""

import hashlib
import json
import re
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from itertools import islice
from typing import Any, Literal, Protocol

from rightlab.clock import parse_iso
from rightlab.prompt.assembly import SEPARATOR, Assembly, estimate_tokens
from rightlab.prompt.guard import encode

__all__ = [
    "UNMAPPED",
    "Listed",
    "Recorded",
    "RecordedBlock",
    "Slice",
    "Trace",
    "TracedBlock",
    "Ttl",
    "first_lines",
    "listed",
    "locate",
    "names_a_file",
    "trace",
]

UNMAPPED = "(not matched)"
"""The name of prompt bytes that belong to no known section."""

_TRIES = 200
"""Places at which one section's hash is tried at most; keeps huge prompts linear."""

_BOUNDARY = re.compile(rb"(?<=\n\n)")
_PATH = re.compile(r"(?P<list>tools|system|messages)\[(?P<index>\d+)\](?:\.content\[(?P<part>\d+)\])?")

Ttl = Literal["5m", "1h"]


class RecordedBlock(Protocol):
    """One block of a request in cache order: tools, then system, then messages."""

    @property
    def kind(self) -> str: ...
    @property
    def path(self) -> str: ...
    @property
    def role(self) -> str: ...
    @property
    def tokens(self) -> int: ...
    @property
    def breakpoint(self) -> Ttl | None: ...


class Recorded(Protocol):
    """A recorded request: its body, its blocks, and what the API said it used.

    ``at`` is ISO 8601 text; ``usage`` the API's object, ``None`` when no answer came; ``scripted`` true when
    no model answered, so that its figures are nobody's bill.
    """

    @property
    def json(self) -> Mapping[str, Any]: ...
    @property
    def blocks(self) -> Sequence[RecordedBlock]: ...
    @property
    def usage(self) -> Mapping[str, Any] | None: ...
    @property
    def at(self) -> str: ...
    @property
    def model(self) -> str | None: ...
    @property
    def scripted(self) -> bool: ...
    @property
    def session_id(self) -> str | None: ...


@dataclass(frozen=True)
class Listed:
    """What is known of one section of a recorded prompt: size in bytes and hash of its rendered form.

    ``head`` is its first line, when known; it finds a section whose bytes were changed on the way.
    """

    name: str
    owner: str
    size: int
    sha256: str
    head: bytes | None = field(default=None, repr=False)

    @classmethod
    def of(cls, entry: Mapping[str, Any], head: bytes | None = None) -> "Listed":
        """From an entry of ``prompt --json`` or of a turn's list of sections."""
        return cls(
            str(entry["name"]),
            str(entry.get("owner") or ""),
            int(entry["bytes"]),
            str(entry["sha256"]),
            head,
        )


def listed(assembly: Assembly) -> tuple[Listed, ...]:
    """The list of an assembly's rendered sections."""
    return tuple(
        Listed(one.name, one.owner, len(one.data), one.sha256, one.data.partition(b"\n")[0])
        for one in assembly.parts()
    )


def first_lines(assembly: Assembly) -> dict[str, bytes]:
    """The first line of every section, those of missing files included."""
    found = {}
    for one in assembly.planned():
        shown = encode(one.heading()) or one.render_bytes()
        found[one.name] = shown.partition(b"\n")[0]
    return found


@dataclass(frozen=True)
class Slice:
    """Bytes ``start`` to ``end`` of a prompt are this section; ``exact`` when their hash is the known one."""

    name: str
    owner: str
    start: int
    end: int
    exact: bool


@dataclass(frozen=True)
class TracedBlock:
    """One block: its own bytes (``cache_control`` left out), estimated tokens, breakpoint and sections.

    ``data`` is the text of a text block, else canonical JSON. ``name`` is a tool's name, else its path.
    """

    kind: str
    path: str
    role: str
    name: str
    data: bytes = field(repr=False)
    tokens: int
    breakpoint: Ttl | None = None
    sections: tuple[Slice, ...] = ()

    @cached_property
    def digest(self) -> bytes:
        """Equal for blocks that the cache takes for equal."""
        found = hashlib.sha256(f"{self.kind}\0{self.role}\0".encode())
        found.update(self.data)
        return found.digest()

    @cached_property
    def steps(self) -> tuple[tuple[bytes, int], ...]:
        """The block in pieces (its sections, else whole): hash of its bytes so far, tokens of the piece."""
        ends = [*(one.start for one in self.sections[1:]), len(self.data)]
        running = hashlib.sha256()
        found = []
        start = spent = 0
        for end in ends:
            running.update(self.data[start:end])
            reached = round(self.tokens * end / max(1, len(self.data)))
            found.append((running.digest(), reached - spent))
            start, spent = end, reached
        return tuple(found)

    def section_at(self, byte: int) -> Slice | None:
        """The section that ``byte`` lies in; the gap behind a section counts as its end."""
        found = None
        for one in self.sections:
            if one.start <= byte:
                found = one
        return found


@dataclass(frozen=True)
class Trace:
    """A request laid out in cache order.

    ``scope`` tells conversations apart (any hashable); ``label`` is what people call it ("turn 40");
    ``prompt`` is the index of the block that holds the sections, ``None`` when none was matched.
    """

    blocks: tuple[TracedBlock, ...]
    at: datetime
    model: str | None
    usage: Mapping[str, Any] | None = None
    scripted: bool = False
    session_id: str | None = None
    scope: Hashable = None
    label: str = ""
    prompt: int | None = None

    @property
    def tokens(self) -> int:
        """Estimated prompt tokens of the whole request."""
        return sum(block.tokens for block in self.blocks)

    @property
    def system(self) -> TracedBlock | None:
        """The block that holds the sections."""
        return None if self.prompt is None else self.blocks[self.prompt]

    def sections(self) -> Iterator[tuple[Slice, bytes]]:
        """The sections with their bytes, in order."""
        block = self.system
        for one in block.sections if block is not None else ():
            assert block is not None
            yield one, block.data[one.start : one.end]

    def __repr__(self) -> str:
        return f"<Trace {self.label or self.at.isoformat()}: {len(self.blocks)} blocks, {self.tokens} tokens>"


def trace(
    request: Recorded | Trace, outline: Sequence[Listed] = (), *, scope: Hashable = None, label: str = ""
) -> Trace:
    """Lay ``request`` out; ``outline`` lists the sections of its prompt in order (empty: not matched)."""
    if isinstance(request, Trace):
        return request
    body = request.json
    blocks = [_traced(block, _value(body, block.path)) for block in request.blocks]
    prompt: int | None = None
    if outline:
        best = -1
        for index, block in enumerate(blocks):
            if block.kind != "system":
                continue
            sections = locate(block.data, outline)
            matched = sum(one.end - one.start for one in sections if one.exact)
            # Of blocks without a match the last: the CLI's own lines stand before the prompt.
            if matched > best or matched == best == 0:
                best, prompt, found = matched, index, sections
        if prompt is not None:
            old = blocks[prompt]
            blocks[prompt] = TracedBlock(
                old.kind, old.path, old.role, old.name, old.data, old.tokens, old.breakpoint, found
            )
    return Trace(
        tuple(blocks),
        parse_iso(request.at),
        request.model,
        request.usage,
        request.scripted,
        request.session_id,
        scope,
        label,
        prompt,
    )


def names_a_file(owner: str) -> bool:
    """Whether a section's owner is a file of text (SOUL.md), not a module (rightlab.prompt)."""
    return owner.lower().endswith((".md", ".txt", ".rst", ".yaml", ".yml", ".json", ".toml", ".html", ".csv"))


def _value(body: Mapping[str, Any], path: str) -> Any:
    """What stands at a block's path; a plain text stands for the one text block it means."""
    match = _PATH.fullmatch(path)
    if match is None:
        return None
    value: Any = body.get(match["list"])
    index = int(match["index"])
    if isinstance(value, str):
        return {"type": "text", "text": value}
    value = value[index] if isinstance(value, list) and index < len(value) else None
    if match["part"] is None:
        return value
    content = value.get("content") if isinstance(value, Mapping) else None
    if isinstance(content, str):
        return {"type": "text", "text": content}
    part = int(match["part"])
    return content[part] if isinstance(content, list) and part < len(content) else None


def _traced(block: RecordedBlock, value: Any) -> TracedBlock:
    name = block.path
    is_image = False
    if isinstance(value, Mapping):
        value = {key: item for key, item in value.items() if key != "cache_control"}
        is_image = value.get("type") == "image"
        if block.kind == "tool" and isinstance(value.get("name"), str):
            name = value["name"]
    if isinstance(value, dict) and set(value) == {"type", "text"} and isinstance(value["text"], str):
        data = value["text"].encode("utf-8", "surrogatepass")
    else:
        data = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode(
            "utf-8", "surrogatepass"
        )
    tokens = block.tokens if is_image else estimate_tokens(data)
    return TracedBlock(block.kind, block.path, block.role, name, data, tokens, block.breakpoint)


# ---- sections of a prompt


def locate(data: bytes, outline: Sequence[Listed]) -> tuple[Slice, ...]:
    """Where in ``data`` the sections of ``outline`` stand.

    Sections are found by size and hash. What lies between found ones belongs to the sections in between:
    to the one, or cut at their first lines; what cannot be told apart is one slice under all their names.
    """
    anchors: list[tuple[int, int]] = []
    at = 0
    for index, one in enumerate(outline):
        start = _find(data, at, one)
        if start is not None:
            anchors.append((index, start))
            at = start + one.size + len(SEPARATOR)
    slices: list[Slice] = []
    index = left = 0
    for found, start in [*anchors, (len(outline), len(data) + len(SEPARATOR))]:
        end = max(left, start - len(SEPARATOR))
        slices += _between(data, left, end, outline[index:found])
        if found < len(outline):
            one = outline[found]
            slices.append(Slice(one.name, one.owner, start, start + one.size, True))
            left = start + one.size + len(SEPARATOR)
        index = found + 1
    return tuple(slices)


def _find(data: bytes, at: int, one: Listed) -> int | None:
    for start in islice(_starts(data, at, one.size), _TRIES):
        if hashlib.sha256(data[start : start + one.size]).hexdigest() == one.sha256:
            return start
    return None


def _starts(data: bytes, at: int, size: int) -> Iterator[int]:
    """Places from ``at`` on where a section of ``size`` bytes could stand between two blank lines."""
    starts: Iterable[int] = (hit.start() for hit in _BOUNDARY.finditer(data, at))
    if at == 0:
        starts = _with_first(starts)
    for start in starts:
        end = start + size
        if end == len(data) or data[end : end + len(SEPARATOR)] == SEPARATOR:
            yield start
        elif end > len(data):
            return


def _with_first(starts: Iterable[int]) -> Iterator[int]:
    yield 0
    yield from starts


def _between(data: bytes, left: int, right: int, missing: Sequence[Listed]) -> list[Slice]:
    if right <= left:
        return []
    if not missing:
        return [Slice(UNMAPPED, "", left, right, False)]
    starts: list[tuple[int, list[Listed]]] = [(left, [missing[0]])]
    for one in missing[1:]:
        cursor = starts[-1][0]
        place = -1 if one.head is None else data.find(SEPARATOR + one.head + b"\n", cursor, right + 1)
        if place >= 0:
            starts.append((place + len(SEPARATOR), [one]))
        else:
            starts[-1][1].append(one)
    slices = []
    for number, (start, names) in enumerate(starts):
        end = starts[number + 1][0] - len(SEPARATOR) if number + 1 < len(starts) else right
        owners = list(dict.fromkeys(one.owner for one in names))
        slices.append(Slice(", ".join(one.name for one in names), ", ".join(owners), start, end, False))
    return slices
