"""Finding the first place where two recorded requests differ, why, and what that cost."""

from collections.abc import Sequence
from dataclasses import replace

from rightlab.html import duration, percent
from rightlab.prompt.inspect.cache import KEPT_SECONDS, MIN_CACHED, PricePort, readable_tokens, rewrite_cost
from rightlab.prompt.inspect.divergence import UNKNOWN_CAUSE, Divergence
from rightlab.prompt.inspect.trace import (
    UNMAPPED,
    Listed,
    Recorded,
    Slice,
    Trace,
    TracedBlock,
    names_a_file,
    trace,
)
from rightlab.prompt.inspect.volatile import cause_of

__all__ = ["first_divergence"]

AROUND = 24
"""Bytes shown before and behind the place."""


def first_divergence(
    a: Recorded | Trace,
    b: Recorded | Trace,
    *,
    sections: Sequence[Listed] = (),
    sections_b: Sequence[Listed] | None = None,
    price: PricePort | None = None,
    factor: float = 1.0,
    method: str = "tokens: estimate",
) -> Divergence:
    """The first place where ``b`` differs from ``a`` in cache order: tools, system prompt, messages.

    ``sections`` lists the sections of the prompt of ``a`` (and of ``b`` unless ``sections_b`` does); traces
    bring their own. ``factor`` scales token estimates (see ``calibrate``). A ``b`` that only goes on where ``a``
    ends does not differ. A cause that the bytes do not show is "unknown", never a guess.
    """
    first = trace(a, sections)
    second = trace(b, sections if sections_b is None else sections_b)
    found = _compare(first, second)
    read, last = readable_tokens(first, second)
    if found.kind == "cache":
        billed = _read(second) or 0
        rewritten = max(0, round(read * factor) - billed)
    else:
        rewritten = round((last - read) * factor) if found else 0
    kept = next((block.breakpoint for block in reversed(second.blocks) if block.breakpoint), None)
    return replace(
        found,
        tokens_behind=round(found.tokens_behind * factor),
        tokens_rewritten=rewritten,
        cost_usd=rewrite_cost(second.model, rewritten, kept, price) if found else 0.0,
        labels=(first.label or "the first", second.label or "the second"),
        notes=(*found.notes, *_notes(first, second)),
        method=method,
        scripted=first.scripted or second.scripted,
    )


def _compare(a: Trace, b: Trace) -> Divergence:
    if a.model != b.model:
        return Divergence("model", f"model {a.model} became {b.model}", tokens_behind=b.tokens)
    for kind, look in (("tool", _tools), ("system", _system), ("message", _messages)):
        left = [block for block in a.blocks if block.kind == kind]
        right = [block for block in b.blocks if block.kind == kind]
        at = next(
            (
                i
                for i, (one, other) in enumerate(zip(left, right, strict=False))
                if one.digest != other.digest
            ),
            None,
        )
        if at is None:
            if len(left) == len(right) or kind == "message":
                continue
            at = min(len(left), len(right))
        found = look(a, b, left, right, at)
        behind = _behind(b, kind, at, found.byte)
        return replace(found, tokens_behind=behind)
    return _cache_fault(a, b)


def _behind(b: Trace, kind: str, at: int, byte: int | None) -> int:
    """Tokens of ``b`` behind ``byte`` of the block number ``at`` of ``kind``."""
    order = ("tool", "system", "message")
    seen = total = 0
    for block in b.blocks:
        if block.kind == kind:
            if seen > at:
                total += block.tokens
            elif seen == at:
                share = 1 - (byte or 0) / len(block.data) if block.data else 1.0
                total += round(block.tokens * max(0.0, share))
            seen += 1
        elif order.index(block.kind) > order.index(kind):
            total += block.tokens
    return total


# ---- tools


def _tools(
    a: Trace, b: Trace, left: Sequence[TracedBlock], right: Sequence[TracedBlock], at: int
) -> Divergence:
    old, new = [one.name for one in left], [one.name for one in right]
    shown = right[at] if at < len(right) else left[at]
    base = Divergence(
        "tool", UNKNOWN_CAUSE, name=shown.name, owner=_server(shown.name), path=shown.path, number=at + 1
    )
    if at < len(left) and at < len(right) and old[at] == new[at]:
        byte = _first_byte(left[at].data, right[at].data)
        why = cause_of(_text(left[at].data), _text(right[at].data))
        cause = (
            f"{why} in the description of tool {new[at]}" if why else f"definition of tool {new[at]} changed"
        )
        return _shown(replace(base, cause=cause), left[at].data, right[at].data, byte)
    gone, come = [name for name in old if name not in new], [name for name in new if name not in old]
    if not gone and not come:
        cause = "tool list order" if sorted(old) == sorted(new) else "a tool is listed more often than before"
    else:
        words = [_named("removed", gone), _named("added", come)]
        cause = " and ".join(word for word in words if word)
    return replace(
        base,
        cause=cause,
        before=old[at] if at < len(old) else "(end of the list)",
        after=new[at] if at < len(new) else "(end of the list)",
    )


def _named(verb: str, names: Sequence[str]) -> str:
    if not names:
        return ""
    servers = {_server(name) for name in names}
    if len(names) > 1 and len(servers) == 1 and "" not in servers:
        return f"tools of MCP server {servers.pop()} {verb} ({len(names)})"
    shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return f"{'tools' if len(names) > 1 else 'tool'} {verb}: {shown}"


def _server(tool: str) -> str:
    parts = tool.split("__")
    return parts[1] if len(parts) > 2 and parts[0] == "mcp" else ""


# ---- system


def _system(
    a: Trace, b: Trace, left: Sequence[TracedBlock], right: Sequence[TracedBlock], at: int
) -> Divergence:
    if at >= len(left) or at >= len(right):
        more = "more" if at < len(right) else "fewer"
        return Divergence("system", f"{more} system blocks than before", path=f"system[{at}]", byte=0)
    one, other = left[at], right[at]
    byte = _first_byte(one.data, other.data) or 0
    base = Divergence("system", UNKNOWN_CAUSE, name=other.path, path=other.path)
    base = _shown(base, one.data, other.data, byte)
    if one.sections and other.sections:
        return _sections(base, one, other, byte)
    why = _local_cause(one.data, other.data, byte)
    return replace(base, cause=f"{why} in {other.path}" if why else UNKNOWN_CAUSE)


def _sections(base: Divergence, one: TracedBlock, other: TracedBlock, byte: int) -> Divergence:
    pairs = zip(one.sections, other.sections, strict=False)
    at = next(
        (
            i
            for i, (old, new) in enumerate(pairs)
            if old.name != new.name or _cut(one, old) != _cut(other, new)
        ),
        min(len(one.sections), len(other.sections)),
    )
    old = one.sections[at] if at < len(one.sections) else None
    new = other.sections[at] if at < len(other.sections) else None
    shown = new or old
    if shown is None or shown.name == UNMAPPED:
        return base
    base = replace(
        base,
        kind="section",
        name=shown.name,
        owner=shown.owner,
        number=at + 1,
        section_byte=max(0, byte - shown.start),
    )
    if old is not None and new is not None and old.name == new.name:
        was, now = _cut(one, old), _cut(other, new)
        where = new.owner if names_a_file(new.owner) else f"section {new.name}"
        why = cause_of(_text(was), _text(now)) or _local_cause(was, now, _first_byte(was, now) or 0)
        if why:
            return replace(base, cause=f"{why} in {where}")
        return replace(
            base, cause=f"{where} was edited" if where == new.owner else f"text of {where} changed"
        )
    names_old, names_new = [s.name for s in one.sections], [s.name for s in other.sections]
    if old is not None and old.name not in names_new:
        cause = f"section {old.name} removed"
        shown = old
    elif new is not None and new.name not in names_old:
        cause = f"section {new.name} added"
        shown = new
    else:
        cause = "section order"
    return replace(base, cause=cause, name=shown.name, owner=shown.owner)


def _cut(block: TracedBlock, one: Slice) -> bytes:
    return block.data[one.start : one.end]


def _local_cause(old: bytes, new: bytes, byte: int) -> str | None:
    """The cause of the first differing line alone, when the rest differs in other ways."""
    return cause_of(_line(old, byte), _line(new, byte))


def _line(data: bytes, at: int) -> str:
    start = data.rfind(b"\n", 0, at) + 1
    end = data.find(b"\n", at)
    return _text(data[start : end if end >= 0 else len(data)])


# ---- messages and the cache itself


def _messages(
    a: Trace, b: Trace, left: Sequence[TracedBlock], right: Sequence[TracedBlock], at: int
) -> Divergence:
    one, other = left[at], right[at]
    byte = _first_byte(one.data, other.data) or 0
    base = Divergence("message", UNKNOWN_CAUSE, name=other.path, path=other.path, number=at + 1)
    base = _shown(base, one.data, other.data, byte)
    if a.session_id != b.session_id and a.session_id and b.session_id:
        return replace(base, cause="another conversation")
    moved = next((block for block in right if block.digest == one.digest), None)
    if moved is not None:
        return replace(base, cause=f"a block moved from {one.path} to {moved.path}")
    if one.role != other.role:
        return replace(base, cause=f"message of role {one.role} became one of role {other.role}")
    why = cause_of(_text(one.data), _text(other.data)) or _local_cause(one.data, other.data, byte)
    return replace(base, cause=f"{why} in {other.path}" if why else UNKNOWN_CAUSE)


def _cache_fault(a: Trace, b: Trace) -> Divergence:
    """Nothing differs. When the bill says that the cache was not read all the same, say so, and why if known."""
    nothing = Divergence("none", "nothing differs")
    billed = _read(b)
    read, _ = readable_tokens(a, b)
    if billed is None or a is b or b.at <= a.at:
        return nothing
    points = [block.breakpoint for block in a.blocks if block.breakpoint]
    if billed:
        # An estimate may be off by a third; half of it missing is no matter of estimates.
        return nothing if read < MIN_CACHED or billed * 2 >= read else _fault(b, UNKNOWN_CAUSE)
    if not points:
        return _fault(b, "no cache breakpoint was asked for")
    if read < MIN_CACHED:
        return nothing
    gap = (b.at - a.at).total_seconds()
    kept = max(KEPT_SECONDS[point] for point in points)
    if gap > kept:
        return _fault(b, f"kept for {duration(kept * 1000)}, asked for again after {duration(gap * 1000)}")
    return _fault(b, UNKNOWN_CAUSE)


def _fault(b: Trace, cause: str) -> Divergence:
    return Divergence("cache", cause, tokens_behind=b.tokens)


def _read(b: Trace) -> int | None:
    value = None if b.usage is None else b.usage.get("cache_read_input_tokens")
    return value if isinstance(value, int) else None


def _notes(a: Trace, b: Trace) -> list[str]:
    notes = []
    old = sorted({block.breakpoint for block in a.blocks if block.breakpoint})
    new = sorted({block.breakpoint for block in b.blocks if block.breakpoint})
    if old and new and old != new:
        notes.append(f"kept for {' and '.join(old)} before, {' and '.join(new)} now: both writes are paid")
    system = b.system
    if system is not None and any(not one.exact for one in system.sections):
        exact = sum(one.end - one.start for one in system.sections if one.exact)
        notes.append(
            f"{percent(exact / max(1, len(system.data)))} of the prompt matched by hash, the rest by place"
        )
    return notes


def _first_byte(old: bytes, new: bytes) -> int | None:
    if old == new:
        return None
    low, high = 0, min(len(old), len(new))
    while low < high:
        middle = (low + high + 1) // 2
        if old[low:middle] == new[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _shown(found: Divergence, old: bytes, new: bytes, byte: int | None) -> Divergence:
    """``found`` with the byte and what stands around it in both."""
    at = byte or 0
    return replace(found, byte=byte, before=_excerpt(old, at), after=_excerpt(new, at))


def _excerpt(data: bytes, at: int) -> str:
    start, end = max(0, at - AROUND), min(len(data), at + AROUND)
    while start > 0 and data[start] & 0xC0 == 0x80:
        start -= 1
    while end < len(data) and data[end] & 0xC0 == 0x80:
        end += 1
    text = " ".join(_text(data[start:end]).split())
    return f"{'…' if start else ''}{text}{'…' if end < len(data) else ''}"


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
