"""Reads a Messages API response from the bytes that pass by: content, usage, stop reason, errors.

It never holds anything back and never fails on what it does not know; the bytes go to the client unchanged.
"""

import zlib
from collections.abc import Mapping
from typing import Any

import orjson

__all__ = ["ResponseReader"]

_MAX_KEPT = 32 * 1024 * 1024


class ResponseReader:
    """Fed with the status, the headers and every chunk of one response.

    ``usage`` is the API's object as last seen (the final counts of a stream), None when there was none;
    ``message`` the message as assembled so far; ``error`` the API's error object; ``complete`` whether the
    response reached its own end (message_stop, or a whole JSON document).
    """

    def __init__(self) -> None:
        self.status: int | None = None
        self.usage: dict[str, Any] | None = None
        self.message: dict[str, Any] | None = None
        self.error: dict[str, Any] | None = None
        self.complete = False
        self.bytes = 0
        self._stream = False
        self._inflate: Any = None
        self._readable = True
        self._pending = bytearray()
        self._json_parts: dict[int, list[str]] = {}

    def start(self, status: int, headers: Mapping[str, str]) -> None:
        """``headers`` with lower-case names."""
        self.status = status
        self._stream = headers.get("content-type", "").startswith("text/event-stream")
        encoding = headers.get("content-encoding", "identity").strip().lower()
        if encoding in ("gzip", "deflate"):
            self._inflate = zlib.decompressobj(47)
        elif encoding not in ("", "identity"):
            self._readable = False

    def feed(self, chunk: bytes) -> None:
        self.bytes += len(chunk)
        if not self._readable or not chunk:
            return
        if self._inflate is not None:
            try:
                chunk = self._inflate.decompress(chunk)
            except zlib.error:
                self._readable = False
                return
        self._pending += chunk
        if self._stream:
            self._take_frames()
        elif len(self._pending) > _MAX_KEPT:
            self._readable = False
            self._pending.clear()

    def end(self) -> None:
        """The response is over, whether or not it was whole."""
        if self._readable and not self._stream and self._pending:
            document = _json(bytes(self._pending))
            if document is not None:
                self.complete = True
                self._whole(document)
        self._pending.clear()

    def _whole(self, document: dict[str, Any]) -> None:
        if document.get("type") == "error":
            self._set_error(document)
        elif document.get("type") == "message":
            self.message = document
            self._merge_usage(document.get("usage"))
        elif "input_tokens" in document:
            self.usage = {"input_tokens": document["input_tokens"]}

    def _take_frames(self) -> None:
        if b"\r" in self._pending:
            self._pending = bytearray(self._pending.replace(b"\r\n", b"\n"))
        while (end := self._pending.find(b"\n\n")) >= 0:
            frame = bytes(self._pending[:end])
            del self._pending[: end + 2]
            data = b"".join(line[5:].strip() for line in frame.split(b"\n") if line.startswith(b"data:"))
            event = _json(data)
            if event is not None:
                self._event(event)

    def _event(self, event: dict[str, Any]) -> None:
        kind = event.get("type")
        if kind == "message_start" and isinstance(event.get("message"), dict):
            self.message = {**event["message"], "content": []}
            self._merge_usage(event["message"].get("usage"))
        elif kind == "content_block_start" and self.message is not None:
            block = event.get("content_block")
            self.message["content"].append(dict(block) if isinstance(block, dict) else {})
        elif kind == "content_block_delta":
            self._delta(event.get("index"), event.get("delta"))
        elif kind == "content_block_stop":
            self._close_block(event.get("index"))
        elif kind == "message_delta":
            self._merge_usage(event.get("usage"))
            if self.message is not None and isinstance(event.get("delta"), dict):
                self.message.update(event["delta"])
        elif kind == "message_stop":
            self.complete = True
            if self.message is not None and self.usage is not None:
                self.message["usage"] = self.usage
        elif kind == "error":
            self._set_error(event)

    def _delta(self, index: Any, delta: Any) -> None:
        content = self.message["content"] if self.message else []
        if not isinstance(index, int) or not 0 <= index < len(content) or not isinstance(delta, dict):
            return
        block = content[index]
        if delta.get("type") == "input_json_delta":
            self._json_parts.setdefault(index, []).append(str(delta.get("partial_json", "")))
            return
        for key in ("text", "thinking", "signature"):
            if isinstance(delta.get(key), str):
                block[key] = str(block.get(key, "")) + delta[key]

    def _close_block(self, index: Any) -> None:
        parts = self._json_parts.pop(index, None) if isinstance(index, int) else None
        if parts is not None and self.message is not None:
            text = "".join(parts)
            value = _json(text.encode())
            self.message["content"][index]["input"] = value if value is not None else {"_unparsed": text}

    def _merge_usage(self, usage: Any) -> None:
        if isinstance(usage, dict):
            known = {key: value for key, value in usage.items() if value is not None}
            self.usage = {**(self.usage or {}), **known}

    def _set_error(self, event: Mapping[str, Any]) -> None:
        error = event.get("error")
        self.error = dict(error) if isinstance(error, dict) else {"message": str(error)}


def _json(data: bytes) -> dict[str, Any] | None:
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None
