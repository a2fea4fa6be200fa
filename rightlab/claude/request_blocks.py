"""A Messages API request as the ordered blocks that the prompt cache sees: tools, system, messages.

The cache works on prefixes of this order; a breakpoint is a block with ``cache_control``. Hashes leave
``cache_control`` out, because the CLI moves its breakpoints from request to request while the text stays
(spec platform B, "Request bytes / cache").
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import orjson

__all__ = ["Block", "BlockKind", "Ttl", "canonical", "estimate_tokens", "iter_blocks", "sha256"]

BlockKind = Literal["tool", "system", "message"]
Ttl = Literal["5m", "1h"]

_BYTES_PER_TOKEN = 3.6
"""A rough mean for English prose and JSON; used for scripted figures only, never for money of real calls."""
_IMAGE_TOKENS = 1500


@dataclass(frozen=True, slots=True)
class Block:
    """One block: where it stands (``path`` like ``messages[2].content[0]``), who said it, its hash and size.

    ``sha256`` is of the canonical JSON without ``cache_control``; ``bytes`` its length; ``tokens`` an
    estimate; ``breakpoint`` the time to live asked for at this block, None where there is no breakpoint.
    """

    kind: BlockKind
    path: str
    role: str
    sha256: str
    bytes: int
    tokens: int
    breakpoint: Ttl | None

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "path": self.path,
            "role": self.role,
            "sha256": self.sha256,
            "bytes": self.bytes,
            "tokens_estimated": self.tokens,
            "breakpoint": self.breakpoint,
        }


def canonical(value: Any) -> bytes:
    """``value`` as JSON bytes with sorted keys and no spaces: equal values give equal bytes."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def estimate_tokens(data: bytes) -> int:
    """Tokens of ``data`` by its length; at least 1 unless empty."""
    return max(1, round(len(data) / _BYTES_PER_TOKEN)) if data else 0


def iter_blocks(body: Mapping[str, Any]) -> Iterator[Block]:
    """The blocks of a request body in cache order. Unknown shapes are hashed as they are, never refused."""
    for index, tool in enumerate(_listed(body.get("tools"))):
        yield _block("tool", f"tools[{index}]", "tool", tool)
    for index, part in enumerate(_listed(body.get("system"))):
        yield _block("system", f"system[{index}]", "system", part)
    for index, message in enumerate(_listed(body.get("messages"))):
        if not isinstance(message, Mapping):
            yield _block("message", f"messages[{index}]", "", message)
            continue
        role = str(message.get("role", ""))
        for number, part in enumerate(_listed(message.get("content"))):
            yield _block("message", f"messages[{index}].content[{number}]", role, part)


def _listed(value: Any) -> Sequence[Any]:
    """A list as it is; a text as the one text block it stands for."""
    if isinstance(value, str):
        return [{"type": "text", "text": value}]
    return value if isinstance(value, list) else []


def _block(kind: BlockKind, path: str, role: str, value: Any) -> Block:
    breakpoint_: Ttl | None = None
    if isinstance(value, Mapping):
        control = value.get("cache_control")
        if isinstance(control, Mapping):
            breakpoint_ = "1h" if control.get("ttl") == "1h" else "5m"
        value = {key: item for key, item in value.items() if key != "cache_control"}
    data = canonical(value)
    is_image = isinstance(value, Mapping) and value.get("type") == "image"
    tokens = _IMAGE_TOKENS if is_image else estimate_tokens(data)
    return Block(kind, path, role, sha256(data), len(data), tokens, breakpoint_)
