"""What went over the gateway: an index in memory, and files with a size cap (design 6).

On disk, one folder per invocation (or CLI session, or ``unknown``), named by the time of its first request::

    recordings/20261130T101500.123456Z-<invocation>/0001.request.json   the body, byte for byte
                                                   /0001.json           what is known of it and its answer

Credentials never get here: headers are not kept, and whatever looks like a credential, or is the gateway's
own bearer or credential, is replaced in bodies. Writing happens on a thread of its own after the answer is
out; a disk that fails stops the recording, never a turn.
"""

import asyncio
import builtins
import contextlib
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import InitVar, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import orjson

from rightlab.claude.redaction import redact_secrets
from rightlab.claude.reply import Outcome
from rightlab.claude.request_blocks import Block, iter_blocks, sha256
from rightlab.claude.response_reader import ResponseReader
from rightlab.clock import Clock, iso
from rightlab.errors import RightlabError
from rightlab.home import writers

__all__ = ["Exchange", "RecordedRequest", "Recorder", "redact"]

FORMAT = 1
_MAX_INDEXED_BYTES = 64 * 1024 * 1024
_MAX_INDEXED = 2000
_SAFE = re.compile(r"[^A-Za-z0-9_.-]+")


def redact(data: bytes, secrets: Iterable[str] = ()) -> bytes:
    """``data`` without the given secrets and what looks like a credential; other bytes stay as they are."""
    text = data.decode("utf-8", "surrogateescape")
    return redact_secrets(text, secrets).encode("utf-8", "surrogateescape")


@dataclass(eq=False)
class RecordedRequest:
    """One request and its answer.

    ``body`` is what the client sent, redacted; ``bytes`` and ``sha256`` are of the original. Times in
    milliseconds; ``usage`` is the API's object; ``response`` the assembled message, ``error`` the API's error
    object, both redacted. ``outcome``: see :data:`rightlab.claude.reply.Outcome`. What costs time (hashes,
    redaction) is computed when it is asked for, not while the request waits.
    """

    number: int
    invocation_id: str | None
    session_id: str | None
    path: str
    at: str
    raw: InitVar[bytes]
    secrets: InitVar[tuple[str, ...]]
    upstream: str
    scripted: bool
    status: int | None = None
    first_byte_ms: float | None = None
    ms: float | None = None
    usage: dict[str, Any] | None = None
    outcome: Outcome = "running"
    file: Path | None = None

    def __post_init__(self, raw: bytes, secrets: tuple[str, ...]) -> None:
        self._raw = raw
        self._secrets = secrets
        self._answer: tuple[Any, Any] = (None, None)

    @property
    def bytes(self) -> int:
        return len(self._raw)

    @cached_property
    def sha256(self) -> str:
        return sha256(self._raw)

    @cached_property
    def body(self) -> builtins.bytes:
        return redact(self._raw, self._secrets)

    @property
    def response(self) -> dict[str, Any] | None:
        return self._redacted(self._answer[0])

    @property
    def error(self) -> dict[str, Any] | None:
        return self._redacted(self._answer[1])

    def _redacted(self, value: Any) -> dict[str, Any] | None:
        if value is None:
            return None
        clean: dict[str, Any] = orjson.loads(redact(orjson.dumps(value), self._secrets))
        return clean

    def answered(self, message: Any, error: Any) -> None:
        """What came back, as the response's reader assembled it."""
        self._answer = (message, error)

    @cached_property
    def json(self) -> dict[str, Any]:
        """The body as an object; empty when it is none."""
        with contextlib.suppress(orjson.JSONDecodeError):
            value = orjson.loads(self.body)
            if isinstance(value, dict):
                return value
        return {}

    @property
    def model(self) -> str | None:
        model = self.json.get("model")
        return model if isinstance(model, str) else None

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """All blocks in cache order: tools, system, messages."""
        return tuple(iter_blocks(self.json))

    @property
    def system_hashes(self) -> tuple[str, ...]:
        return tuple(block.sha256 for block in self.blocks if block.kind == "system")

    @property
    def tool_hashes(self) -> tuple[str, ...]:
        return tuple(block.sha256 for block in self.blocks if block.kind == "tool")

    @property
    def message_hashes(self) -> tuple[str, ...]:
        return tuple(block.sha256 for block in self.blocks if block.kind == "message")

    @property
    def breakpoints(self) -> tuple[Block, ...]:
        """The blocks with ``cache_control``."""
        return tuple(block for block in self.blocks if block.breakpoint is not None)

    def summary(self) -> dict[str, Any]:
        """What ``NNNN.json`` holds."""
        return {
            "format": FORMAT,
            "number": self.number,
            "invocation_id": self.invocation_id,
            "session_id": self.session_id,
            "at": self.at,
            "path": self.path,
            "upstream": self.upstream,
            "scripted": self.scripted,
            "model": self.model,
            "request": {
                "bytes": self.bytes,
                "sha256": self.sha256,
                "redacted": self.body != self._raw,
                "blocks": [block.to_json() for block in self.blocks],
                "breakpoints": [block.path for block in self.breakpoints],
            },
            "status": self.status,
            "outcome": self.outcome,
            "first_byte_ms": self.first_byte_ms,
            "ms": self.ms,
            "usage": self.usage,
            "response": self.response,
            "error": self.error,
        }


@dataclass
class Exchange:
    """A request on its way. The gateway tells what happens; :meth:`finish` puts it into the record."""

    record: RecordedRequest
    recorder: "Recorder"
    started: float
    reader: ResponseReader = field(default_factory=ResponseReader)

    def start(self, status: int, headers: Mapping[str, str]) -> None:
        self.record.first_byte_ms = self.recorder.elapsed(self.started)
        self.reader.start(status, headers)

    def feed(self, chunk: bytes) -> None:
        self.reader.feed(chunk)

    @property
    def finished(self) -> bool:
        return self.record.outcome != "running"

    def finish(self, outcome: Outcome) -> None:
        """Safe to call twice: the first outcome stays."""
        record, reader = self.record, self.reader
        if self.finished:
            return
        reader.end()
        record.status = reader.status
        record.usage = reader.usage
        record.answered(reader.message, reader.error)
        record.ms = self.recorder.elapsed(self.started)
        record.outcome = outcome
        self.recorder.store(record)


class Recorder:
    """Keeps what went over one gateway. ``root`` None: in memory only.

    ``secrets`` gives the values to take out of bodies. Used on one loop; :meth:`requests` from any thread.
    """

    def __init__(
        self,
        root: Path | None,
        *,
        clock: Clock,
        secrets: Callable[[], Iterable[str]],
        max_bytes: int,
    ) -> None:
        self._clock = clock
        self._secrets = secrets
        self._files = None if root is None else _Files(root, max_bytes)
        self._index: OrderedDict[str, list[RecordedRequest]] = OrderedDict()
        self._count = 0
        self._indexed_bytes = 0
        self._lock = threading.Lock()
        self._pending: set[asyncio.Task[None]] = set()
        self._turn = asyncio.Lock()
        self.problem: str | None = None
        """Why nothing is written any more, None while all is well."""

    def elapsed(self, since: float) -> float:
        return round((self._clock.monotonic() - since) * 1000, 3)

    def begin(
        self,
        body: bytes,
        *,
        path: str,
        invocation_id: str | None,
        session_id: str | None,
        upstream: str,
        scripted: bool,
    ) -> Exchange:
        """A request has arrived."""
        self._count += 1
        record = RecordedRequest(
            number=self._count,
            invocation_id=invocation_id,
            session_id=session_id,
            path=path,
            at=iso(self._clock.now()),
            raw=body,
            secrets=tuple(self._secrets()),
            upstream=upstream,
            scripted=scripted,
        )
        key = invocation_id or session_id or "unknown"
        with self._lock:
            self._index.setdefault(key, []).append(record)
            self._index.move_to_end(key)
            self._indexed_bytes += len(body)
            while len(self._index) > 1 and (
                self._indexed_bytes > _MAX_INDEXED_BYTES or self._size() > _MAX_INDEXED
            ):
                _, dropped = self._index.popitem(last=False)
                self._indexed_bytes -= sum(item.bytes for item in dropped)
        return Exchange(record, self, self._clock.monotonic())

    def _size(self) -> int:
        return sum(len(items) for items in self._index.values())

    def requests(self, invocation_id: str) -> list[RecordedRequest]:
        """The requests of an invocation (or of a CLI session that named none), in order."""
        with self._lock:
            return list(self._index.get(invocation_id, ()))

    def recent(self, limit: int = 50) -> list[RecordedRequest]:
        """The last requests of all invocations, oldest first."""
        with self._lock:
            items = [item for group in self._index.values() for item in group]
        return sorted(items, key=lambda item: item.number)[-limit:]

    def store(self, record: RecordedRequest) -> None:
        """Write the record in the background, in order."""
        if self._files is None or self.problem is not None:
            return
        task = asyncio.create_task(self._write(self._files, record))
        self._pending.add(task)
        task.add_done_callback(self._pending.discard)

    async def _write(self, files: "_Files", record: RecordedRequest) -> None:
        async with self._turn:
            if self.problem is not None:
                return
            try:
                await asyncio.to_thread(files.write, record)
            except (RightlabError, OSError) as error:
                self.problem = str(error)

    async def flush(self, timeout: float = 2.0) -> None:
        """Wait until what was stored so far is on disk, at most ``timeout`` seconds."""
        if self._pending:
            await asyncio.wait(set(self._pending), timeout=timeout)


class _Files:
    """The folders under ``recordings/``; the oldest files go when the cap is reached."""

    def __init__(self, root: Path, max_bytes: int) -> None:
        self._root = root
        self._max = max_bytes
        self._folders: OrderedDict[str, tuple[Path, int]] = OrderedDict()
        self._total: int | None = None

    def write(self, record: RecordedRequest) -> None:
        key = record.invocation_id or record.session_id or "unknown"
        folder, number = self._folders.get(key, (None, 0))
        if folder is None:
            stamp = re.sub(r"[:-]", "", record.at)
            folder = self._root / f"{stamp}-{_SAFE.sub('_', key)[:80]}"
        number += 1
        self._folders[key] = (folder, number)
        self._folders.move_to_end(key)
        while len(self._folders) > 1000:
            self._folders.popitem(last=False)
        summary = orjson.dumps(record.summary(), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
        self._make_room(len(record.body) + len(summary))
        body_file = folder / f"{number:04d}.request.json"
        writers.atomic_write(body_file, record.body, mode=0o600)
        record.file = folder / f"{number:04d}.json"
        writers.atomic_write(record.file, summary, mode=0o600)

    def _make_room(self, wanted: int) -> None:
        if self._total is None:
            self._total = sum(path.stat().st_size for path in self._listed())
        self._total += wanted
        if self._total <= self._max:
            return
        for path in self._listed():
            size = path.stat().st_size
            writers.remove(path)
            self._total -= size
            with contextlib.suppress(OSError):
                path.parent.rmdir()
            if self._total <= self._max:
                return

    def _listed(self) -> list[Path]:
        """All files, oldest first: folders are named by time, files by number."""
        return sorted(path for path in self._root.glob("*/*.json") if path.is_file())
