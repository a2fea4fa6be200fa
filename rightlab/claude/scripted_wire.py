"""A scripted answer on the wire: the Messages API's event stream, its JSON, its refusal, or a cut line."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import orjson

from rightlab.claude.messages_api import ApiError, message_id
from rightlab.claude.reply import Reply
from rightlab.claude.scripted_usage import Usage
from rightlab.clock import Clock

__all__ = ["Answer", "sse_event", "stream_events"]

_JSON = [(b"content-type", b"application/json")]
_SSE = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache")]


@dataclass(slots=True)
class Answer:
    """What goes out for one request. ``error`` and ``drop`` win over the content.

    ``content`` are API content blocks; ``chunk`` characters per delta, ``pace`` seconds between deltas,
    ``delay`` seconds before the first byte. ``drop``: the connection is cut before anything or in the middle.
    """

    model: str
    content: list[dict[str, Any]] = field(default_factory=list)
    stop_reason: str = "end_turn"
    usage: Usage = field(default_factory=Usage)
    delay: float = 0.0
    chunk: int = 40
    pace: float = 0.0
    error: ApiError | None = None
    error_in_stream: bool = False
    drop: Literal["start", "middle"] | None = None
    id: str = field(default_factory=message_id)

    def message(self, *, opening: bool = False) -> dict[str, Any]:
        """The API's message object; ``opening`` is the one of message_start: no content, one output token."""
        return {
            "id": self.id,
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": [] if opening else self.content,
            "stop_reason": None if opening else self.stop_reason,
            "stop_sequence": None,
            "usage": self.usage.to_api(output=1 if opening else None),
        }

    async def send(self, reply: Reply, clock: Clock, *, stream: bool) -> None:
        """Answer the request at hand."""
        if self.delay:
            await clock.sleep(self.delay)
        if self.drop == "start":
            await reply.drop()
        elif self.error is not None and not (stream and self.error_in_stream):
            await reply.error(self.error)
        elif not stream:
            await self._send_whole(reply)
        else:
            await self._send_stream(reply, clock)

    async def _send_whole(self, reply: Reply) -> None:
        body = orjson.dumps(self.message())
        if self.drop == "middle":
            await reply.start(200, [*_JSON, (b"content-length", str(len(body)).encode())])
            await reply.chunk(body[: len(body) // 2])
            await reply.drop()
        else:
            await reply.whole(200, _JSON, body)

    async def _send_stream(self, reply: Reply, clock: Clock) -> None:
        await reply.start(200, _SSE)
        frames = list(stream_events(self))
        cut = max(2, len(frames) // 2) if self.drop == "middle" or self.error is not None else len(frames)
        for number, frame in enumerate(frames[:cut]):
            if number > 1 and self.pace:
                await clock.sleep(self.pace)
            await reply.chunk(frame)
        if self.drop == "middle":
            await reply.drop()
            return
        if self.error is not None:
            await reply.chunk(b"event: error\ndata: " + self.error.body() + b"\n\n")
        await reply.end()


def sse_event(name: str, **data: Any) -> bytes:
    """One server-sent event of the Messages API: its type stands in both places."""
    return b"event: " + name.encode() + b"\ndata: " + orjson.dumps({"type": name, **data}) + b"\n\n"


def stream_events(answer: Answer) -> Iterator[bytes]:
    """The frames of a streamed answer, in the API's order."""
    yield sse_event("message_start", message=answer.message(opening=True))
    yield sse_event("ping")
    for index, block in enumerate(answer.content):
        yield from _block_events(index, block, max(1, answer.chunk))
    delta = {"stop_reason": answer.stop_reason, "stop_sequence": None}
    yield sse_event("message_delta", delta=delta, usage=answer.usage.to_api())
    yield sse_event("message_stop")


def _block_events(index: int, block: dict[str, Any], chunk: int) -> Iterator[bytes]:
    kind = block["type"]
    if kind == "tool_use":
        opening = {**block, "input": {}}
        text = orjson.dumps(block["input"]).decode()
        deltas = [{"type": "input_json_delta", "partial_json": part} for part in _cut(text, chunk)]
    elif kind == "thinking":
        opening = {"type": "thinking", "thinking": "", "signature": ""}
        deltas = [{"type": "thinking_delta", "thinking": part} for part in _cut(block["thinking"], chunk)]
        deltas.append({"type": "signature_delta", "signature": block["signature"]})
    else:
        opening = {"type": "text", "text": ""}
        deltas = [{"type": "text_delta", "text": part} for part in _cut(block["text"], chunk)]
    yield sse_event("content_block_start", index=index, content_block=opening)
    for delta in deltas:
        yield sse_event("content_block_delta", index=index, delta=delta)
    yield sse_event("content_block_stop", index=index)


def _cut(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]
