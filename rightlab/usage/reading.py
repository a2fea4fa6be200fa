"""The inner loop of the import: one part of one transcript file, line by line (spec usage-and-baselines 3.1).

Loads nothing heavy, so that a worker process starts at once. A part is a range of bytes that begins at the
start of a line; its result is plain data, ready for a pipe.
"""

import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

import orjson

__all__ = [
    "MAX_COUNT",
    "MAX_ERRORS",
    "MAX_LINE",
    "MAX_TOTAL",
    "PLACEHOLDER_UNTIL",
    "SYNTHETIC",
    "Request",
    "better",
    "clean",
    "is_placeholder",
    "merged",
    "read_part",
]

SYNTHETIC = "<synthetic>"
"""The model of lines that the CLI made up itself."""
PLACEHOLDER_UNTIL = (2, 1, 97)
"""Releases before this one logged placeholder counts (CC#22671, CC#28197)."""
MAX_LINE = 64 * 1024 * 1024
"""Longer lines are reported and skipped."""
MAX_COUNT = 100_000_000
"""No single request has so many tokens of a kind."""
MAX_TOTAL = 10**12
"""No sum of requests has so many."""
MAX_ERRORS = 1000
"""Errors kept for one part; the rest are counted."""

_BLOCK = 4 * 1024 * 1024
_DAY_US = 86_400_000_000
_SKEW_US = 3_600_000_000
_EARLIEST_US = 1_672_531_200_000_000  # 2023-01-01
_OF_RESULT = (
    "uuid",
    "session_id",
    "usage",
    "modelUsage",
    "model_usage_since_last_result",
    "total_cost_usd",
    "num_turns",
)
_FOREIGN = frozenset(("resourceSpans", "attributes", "totals"))
"""Keys of rows that :mod:`rightlab.usage.foreign` may know."""
_NOT_PROMPTS = (
    "[Request interrupted by user",
    "<local-command-stdout>",
    "<local-command-stderr>",
    "<local-command-caveat>",
    "<bash-stdout>",
    "<bash-stderr>",
    "<task-notification>",
)


class Request(NamedTuple):
    """One request to the model, as the best of its rows tells it. ``ts`` is in microseconds UTC."""

    key: str
    file: str
    line: int
    ts: int | None
    model: str
    project: str | None
    session: str | None
    agent: str | None
    sidechain: bool
    version: str | None
    request_id: str | None
    input: int
    output: int
    read: int
    write_5m: int
    write_1h: int
    searches: int
    fetches: int
    standard: bool
    """False when the list price does not hold: a faster service, or no usage in the row."""
    differs: bool
    """Other rows of this request told other prompt counts."""
    cost: float | None = None
    """Dollars, where the source states its own figure."""
    steps: int = 1
    """Of how many requests the counts are the sum; 0 where nobody knows."""


def better(new: Request, old: Request) -> bool:
    """Whether ``new`` tells more of the same request than ``old``: most output, then most prompt, then first.

    Does not depend on the order in which files are read.
    """
    if new.output != old.output:
        return new.output > old.output
    sizes = [row.input + row.read + row.write_5m + row.write_1h for row in (new, old)]
    if sizes[0] != sizes[1]:
        return sizes[0] > sizes[1]
    first = [(row.ts is None, row.ts or 0, row.file, row.line) for row in (new, old)]
    return first[0] < first[1]


def merged(new: Request, old: Request) -> Request:
    """The row to keep of two of one request."""
    kept = new if better(new, old) else old
    if kept.differs or not (
        new.differs
        or old.differs
        or (new.input, new.read, new.write_5m + new.write_1h)
        != (old.input, old.read, old.write_5m + old.write_1h)
    ):
        return kept
    return kept._replace(differs=True)


def is_placeholder(version: str | None) -> bool:
    """Whether a transcript of this CLI version holds placeholder counts; False for a version that is none."""
    parts = (version or "").split(".")
    try:
        return len(parts) >= 3 and tuple(int(part) for part in parts[:3]) < PLACEHOLDER_UNTIL
    except ValueError:
        return False


class _Bad(Exception):
    """What is wrong with a row, in words."""


def read_part(path: str, start: int, end: int, now: float) -> dict[str, Any]:
    """What the bytes ``start`` to ``end`` of a file hold; never raises for what is in the file.

    ``now`` is the time in seconds against which dates lie in the future. Returned: ``lines`` (non-blank),
    ``total`` (all), ``requests`` (tuples in the order of :class:`Request`), ``usage_rows``, ``prompts`` (keys),
    ``runs`` (results of ``claude -p``), ``others`` ([line, row] of other
    tools), ``errors`` ([line, text], lines counted from 1 in this part),
    ``errors_more``, ``versions`` with placeholder counts, ``skew`` (line or None), ``offset`` (the end of the
    last whole line), ``cut`` (error of a last line that is not whole) and ``failure`` (why reading ended early).
    """
    part = _Part(path, now)
    try:
        part.read(start, end)
    except OSError as error:
        part.failure = os.strerror(error.errno).lower() if error.errno else str(error)
    return part.result()


class _Part:
    def __init__(self, path: str, now: float) -> None:
        self.path = path
        self.name = clean(path)
        # Older releases put an agent's file beside the session's.
        folder, name = os.path.split(path)
        self.of_agent = name.startswith("agent-") or os.path.basename(folder) == "subagents"
        self.latest = int(now * 1e6) + _DAY_US
        self.lines = 0
        self.number = 0
        self.requests: dict[str, Request] = {}
        self.usage_rows = 0
        self.prompts: set[str] = set()
        self.runs: list[dict[str, Any]] = []
        self.others: list[tuple[int, dict[str, Any]]] = []
        self.errors: list[tuple[int, str]] = []
        self.errors_more = 0
        self.versions: set[str] = set()
        self.skew: int | None = None
        self.last_ts = 0
        self.last_version: str | None = None
        self.last_key: str | None = None
        self.last_usage: Any = None
        self.offset = 0
        self.cut: tuple[int, str] | None = None
        self.failure: str | None = None

    def result(self) -> dict[str, Any]:
        return {
            "lines": self.lines,
            "total": self.number,
            "requests": [tuple(request) for request in self.requests.values()],
            "usage_rows": self.usage_rows,
            "prompts": sorted(self.prompts),
            "runs": self.runs,
            "others": self.others,
            "errors": self.errors,
            "errors_more": self.errors_more,
            "versions": sorted(self.versions),
            "skew": self.skew,
            "offset": self.offset,
            "cut": self.cut,
            "failure": self.failure,
        }

    def fault(self, text: str) -> None:
        if len(self.errors) < MAX_ERRORS:
            self.errors.append((self.number, text))
        else:
            self.errors_more += 1

    def read(self, start: int, end: int) -> None:
        self.offset = start
        with open(self.path, "rb", buffering=0) as stream:
            if start == 0:
                head = stream.read(4)
                if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
                    self.number = self.lines = 1
                    self.fault("UTF-16, not UTF-8; nothing of this file was read")
                    self.offset = end
                    return
                start = 3 if head[:3] == b"\xef\xbb\xbf" else 0
                if not self.path.endswith(".jsonl") and end <= MAX_LINE and self.document(stream, start, end):
                    return
            stream.seek(start)
            place, carry, skipping = start, b"", False
            while place < end:
                block = stream.read(min(_BLOCK, end - place))
                if not block:
                    self.failure = "it became shorter while it was read"
                    break
                place += len(block)
                pieces = (carry + block).split(b"\n") if carry else block.split(b"\n")
                carry = pieces.pop()
                if skipping and pieces:
                    pieces[0], skipping = b"", False
                    self.number -= 1
                for piece in pieces:
                    self.line(piece)
                if skipping:
                    carry = b""
                elif len(carry) > MAX_LINE:
                    self.number += 1
                    self.lines += 1
                    self.fault(f"longer than {MAX_LINE >> 20} MB; skipped")
                    carry, skipping = b"", True
            self.offset = place - len(carry)
            if carry and not carry.isspace():
                self.last_line(carry, place)

    def document(self, stream: Any, start: int, end: int) -> bool:
        """A file that is one JSON document over several lines, as ``ccusage --json`` prints it."""
        stream.seek(start)
        data = stream.read(end - start)
        if data.count(b"\n") < 2:
            return False
        try:
            row = orjson.loads(data)
        except ValueError:
            return False
        self.number = self.lines = 1
        self.offset = end
        self.take(row)
        return True

    def last_line(self, piece: bytes, place: int) -> None:
        """A line without its newline: whole, or still being written, or cut off for good."""
        self.number += 1
        row, problem = _parsed(piece)
        if problem is not None:
            self.number -= 1
            self.cut = (self.number + 1, f"the last line is cut off ({problem})")
            return
        self.lines += 1
        self.offset = place
        self.take(row)

    def line(self, piece: bytes) -> None:
        self.number += 1
        if not piece or piece.isspace():
            return
        self.lines += 1
        try:
            row = orjson.loads(piece)
        except ValueError:
            row, problem = _parsed(piece)
            if problem is not None:
                self.fault(problem)
                return
        self.take(row)

    def take(self, row: Any) -> None:
        if type(row) is list and row and all(type(one) is dict and "type" in one for one in row):
            # `claude -p --output-format json --verbose` prints all its events as one list.
            for one in row:
                self.take(one)
            return
        if type(row) is not dict:
            self.fault("not a JSON object")
            return
        kind = row.get("type")
        try:
            if "session_id" in row and "sessionId" not in row:
                if kind == "result":
                    kept = {name: row[name] for name in _OF_RESULT if name in row}
                    self.runs.append({"line": self.number, **kept})
            elif kind == "assistant":
                self.assistant(row, row)
            elif kind == "user":
                self.user(row)
            elif kind == "progress":
                self.progress(row)
            elif kind is None and not _FOREIGN.isdisjoint(row):
                self.others.append((self.number, row))
        except _Bad as bad:
            self.fault(str(bad))

    def progress(self, row: dict[str, Any]) -> None:
        """Some releases repeat what a sub-agent does inside its parent's transcript."""
        data = row.get("data")
        inner = data.get("message") if isinstance(data, dict) else None
        if isinstance(data, dict) and isinstance(inner, dict) and inner.get("type") == "assistant":
            self.assistant(inner, {**row, "isSidechain": True, "agentId": data.get("agentId")})

    def assistant(self, row: dict[str, Any], frame: dict[str, Any]) -> None:
        message = row.get("message")
        if type(message) is not dict:
            raise _Bad("an assistant row without a message")
        model = _text(message.get("model"))
        if model == SYNTHETIC:
            return
        if not model:
            self.fault("no model is named")
            model = "unknown"
        usage = message.get("usage")
        key = _text(message.get("id") or row.get("requestId") or row.get("uuid"))
        if key == self.last_key and usage == self.last_usage and key is not None and usage is not None:
            # The next block of the same message: most rows are that.
            self.usage_rows += 1
            return
        standard = False
        if isinstance(usage, dict):
            counts = _counts(usage)
            standard = usage.get("speed") in (None, "standard")
        else:
            self.fault("no usage in this row")
            counts = (0, 0, 0, 0, 0, 0, 0)
        ts = self.time(row.get("timestamp") or frame.get("timestamp"))
        version = _text(frame.get("version"))
        if version is not None and version != self.last_version:
            self.last_version = version
            if is_placeholder(version):
                self.versions.add(version)
        self.last_key, self.last_usage = key, usage
        if key is None:
            key = f"{_text(frame.get('sessionId'))}:{self.name}:{self.number}"
        self.usage_rows += 1
        request = Request(
            key,
            self.name,
            self.number,
            ts,
            model,
            _text(frame.get("cwd")),
            _text(frame.get("sessionId")),
            _text(frame.get("agentId")),
            frame.get("isSidechain") is True or self.of_agent,
            version,
            _text(row.get("requestId")),
            *counts,
            standard,
            False,
        )
        known = self.requests.get(key)
        self.requests[key] = request if known is None else merged(request, known)

    def user(self, row: dict[str, Any]) -> None:
        if (
            self.of_agent
            or row.get("isSidechain")
            or row.get("agentId")
            or row.get("isMeta")
            or row.get("isCompactSummary")
            or row.get("isVisibleInTranscriptOnly")
            or row.get("rowSource") == "harness"
            or "toolUseResult" in row
        ):
            return
        message = row.get("message")
        if type(message) is not dict:
            raise _Bad("a user row without a message")
        content = message.get("content")
        if isinstance(content, list):
            text = ""
            for block in content:
                if isinstance(block, dict):
                    if block.get("type") == "tool_result":
                        return
                    text = text or str(block.get("text") or "")
        else:
            text = content if isinstance(content, str) else ""
        if text.startswith(_NOT_PROMPTS):
            return
        key = row.get("promptId") or row.get("uuid")
        if not isinstance(key, str):
            key = f"{row.get('sessionId')}:{row.get('timestamp')}:{text[:200]}"
        self.prompts.add(clean(key))

    def time(self, value: Any) -> int | None:
        try:
            at = datetime.fromisoformat(value)
        except (TypeError, ValueError):
            self.fault("no valid timestamp; it counts in no day")
            return None
        if at.tzinfo is None:
            self.fault("a timestamp without a zone, taken as UTC")
            at = at.replace(tzinfo=UTC)
        ts = int(at.timestamp() * 1e6 + 0.5)
        if ts > self.latest:
            self.fault(f"dated in the future: {value}")
        elif ts < _EARLIEST_US:
            self.fault(f"dated before there were such files: {value}")
        elif ts < self.last_ts - _SKEW_US:
            if self.skew is None:
                self.skew = self.number
        else:
            self.last_ts = ts
        return ts


def _parsed(piece: bytes) -> tuple[Any, str | None]:
    """A line as JSON, or what is wrong with it. Half an emoji, which Node writes, is no fault."""
    try:
        text = piece.decode("utf-8")
    except UnicodeDecodeError as error:
        return None, f"not UTF-8 (byte {error.start + 1} of the line)"
    try:
        return json.loads(text), None
    except json.JSONDecodeError as error:
        return None, f"not JSON: {error.msg} (column {error.colno})"
    except (RecursionError, ValueError):
        return None, "not JSON that can be read"


def clean(text: str) -> str:
    """``text`` with what UTF-8 cannot hold (half an emoji, odd bytes of a file name) in escaped form."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")


def _text(value: Any) -> str | None:
    return clean(value) if isinstance(value, str) else None


def _count(usage: Mapping[str, Any], name: str) -> int:
    value = usage.get(name)
    if value is None:
        return 0
    if type(value) is float and value.is_integer():
        value = int(value)
    if type(value) is not int:
        raise _Bad(f"{name} is no count: {str(value)[:40]!r}; the row is left out")
    if not 0 <= value <= MAX_COUNT:
        raise _Bad(f"{name} cannot be {value}; the row is left out")
    return value


def _counts(usage: Mapping[str, Any]) -> tuple[int, int, int, int, int, int, int]:
    """Input, output, read, 5-minute and 1-hour writes, searches, fetches. Raises _Bad for what cannot be."""
    plain, told = usage.get("input_tokens"), usage.get("output_tokens")
    read, written = usage.get("cache_read_input_tokens"), usage.get("cache_creation_input_tokens")
    if not (
        type(plain) is type(told) is type(read) is type(written) is int
        and 0 <= plain <= MAX_COUNT
        and 0 <= told <= MAX_COUNT
        and 0 <= read <= MAX_COUNT
        and 0 <= written <= MAX_COUNT
    ):
        plain, told = _count(usage, "input_tokens"), _count(usage, "output_tokens")
        read = _count(usage, "cache_read_input_tokens")
        written = _count(usage, "cache_creation_input_tokens")
    split = usage.get("cache_creation")
    five = hour = 0
    if type(split) is dict:
        five = _count(split, "ephemeral_5m_input_tokens")
        hour = _count(split, "ephemeral_1h_input_tokens")
    web = usage.get("server_tool_use")
    searches = fetches = 0
    if type(web) is dict and any(web.values()):
        searches, fetches = _count(web, "web_search_requests"), _count(web, "web_fetch_requests")
    # Writes whose keeping time is not told are kept 5 minutes, the default.
    return plain, told, read, max(five, written - hour), hour, searches, fetches
