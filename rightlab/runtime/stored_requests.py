"""Reading what the gateway recorded: requests on disk, newest folders first. Needs no owner, writes nothing."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import orjson

from rightlab.claude.request_blocks import Block, iter_blocks

__all__ = ["StoredRequest", "recorded_invocations", "stored_requests"]

_FOLDER = re.compile(r"\d{8}T\d{6}\.\d+Z-(?P<key>.+)")
_MESSAGES = "/v1/messages"


@dataclass(frozen=True)
class StoredRequest:
    """One recorded request; its files are read when asked for. ``number`` counts within the invocation."""

    key: str
    number: int
    file: Path

    @cached_property
    def summary(self) -> Mapping[str, Any]:
        """What ``NNNN.json`` says; empty when it is gone or torn."""
        return _object(self.file)

    @cached_property
    def json(self) -> Mapping[str, Any]:
        """The request's body; empty when it is gone."""
        return _object(self.file.with_suffix(".request.json"))

    @cached_property
    def blocks(self) -> Sequence[Block]:
        return tuple(iter_blocks(self.json))

    @property
    def usage(self) -> Mapping[str, Any] | None:
        usage = self.summary.get("usage")
        return usage if isinstance(usage, Mapping) else None

    @property
    def at(self) -> str:
        return str(self.summary["at"])

    @property
    def model(self) -> str | None:
        model = self.summary.get("model")
        return model if isinstance(model, str) else None

    @property
    def scripted(self) -> bool:
        return bool(self.summary.get("scripted"))

    @property
    def session_id(self) -> str | None:
        session = self.summary.get("session_id")
        return session if isinstance(session, str) else None

    @property
    def invocation_id(self) -> str | None:
        invocation = self.summary.get("invocation_id")
        return invocation if isinstance(invocation, str) else None

    @property
    def usable(self) -> bool:
        """Whether it is a whole message request (not a token count, not torn)."""
        return self.summary.get("path") == _MESSAGES and bool(self.summary.get("at")) and bool(self.json)


def recorded_invocations(folder: Path) -> dict[str, Path]:
    """Invocation id (or session id) to its folder, oldest first."""
    found = {}
    for path in _folders(folder):
        match = _FOLDER.fullmatch(path.name)
        if match is not None:
            found[match["key"]] = path
    return found


def stored_requests(
    folder: Path, *, limit: int | None = None, keys: Sequence[str] | None = None
) -> list[StoredRequest]:
    """The last ``limit`` requests, oldest first; with ``keys`` those of these invocations."""
    places = recorded_invocations(folder)
    wanted = (
        reversed(places.items()) if keys is None else [(key, places[key]) for key in keys if key in places]
    )
    found: list[StoredRequest] = []
    for key, place in wanted:
        usable = [one for one in _requests(key, place) if one.usable]
        found += reversed(usable)
        if limit is not None and len(found) >= limit:
            break
    return sorted(found[:limit], key=lambda one: (one.at, one.number))


def _requests(key: str, place: Path) -> Iterator[StoredRequest]:
    try:
        names = sorted(path for path in place.iterdir() if path.suffix == ".json")
    except OSError:
        return
    for path in names:
        if path.stem.isdigit():
            yield StoredRequest(key, int(path.stem), path)


def _folders(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _object(path: Path) -> Mapping[str, Any]:
    try:
        value = orjson.loads(path.read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return {}
    return value if isinstance(value, dict) else {}
