"""``allowlist.yaml``: who may talk to an agent (spec agent-runtime 9.1, version 2)."""

from collections.abc import Callable, Iterable
from datetime import date, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from rightlab.clock import Clock, SystemClock, iso
from rightlab.errors import ConfigError
from rightlab.home.template import ALLOWLIST_YAML
from rightlab.home.writers import write_merged
from rightlab.home.yaml_files import dump_round_trip, load_round_trip, parse

__all__ = ["NOTEBOOK_CHAT_ID", "AllowedGroup", "AllowedTopic", "AllowedUser", "Allowlist", "allowlist_text"]

NOTEBOOK_CHAT_ID = 2**53 - 1
"""The chat of the notebook (contract): always allowed, and no number that Telegram gives out."""

GroupMode = Literal["addressed", "all"]
GroupKind = Literal["group", "channel"]


def _moment(value: object) -> object:
    """YAML turns an unquoted time into a date; the store's text form is meant."""
    if isinstance(value, datetime):
        return iso(value) if value.tzinfo else value.isoformat() + "Z"
    return value.isoformat() if isinstance(value, date) else value


Moment = Annotated[str, BeforeValidator(_moment)]


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, hide_input_in_errors=True)


class AllowedUser(_Entry):
    """A person the agent trusts."""

    id: Annotated[int, Field(gt=0)]
    label: str | None = None
    added_by: int | str | None = None
    added_at: Moment | None = None


class AllowedTopic(_Entry):
    """A forum topic with a mode of its own."""

    thread_id: int
    mode: GroupMode


class AllowedGroup(_Entry):
    """A group or channel the agent listens in: to what is addressed to it, or to all."""

    id: Annotated[int, Field(lt=0)]
    label: str | None = None
    opened_by: int | str | None = None
    opened_at: Moment | None = None
    mode: GroupMode = "addressed"
    topics: list[AllowedTopic] = []
    kind: GroupKind = "group"

    def mode_for(self, thread_id: int) -> GroupMode:
        """The mode in one topic (0: outside topics)."""
        return next((topic.mode for topic in self.topics if topic.thread_id == thread_id), self.mode)


class _Document(_Entry):
    version: Literal[2]
    users: list[AllowedUser] = []
    groups: list[AllowedGroup] = []


class Allowlist:
    """The people and groups as last read; every change is on disk before it counts here.

    A missing or empty file allows nobody.

    Raises (constructor, ``reload``, changes):
        ConfigError: the file breaks a rule of its format; nobody is let in by a file that cannot be read.
    """

    def __init__(self, path: Path, *, clock: Clock | None = None) -> None:
        self.path = path
        self._clock = clock or SystemClock()
        self._document = _Document(version=2)
        self.reload()

    @property
    def users(self) -> tuple[AllowedUser, ...]:
        return tuple(self._document.users)

    @property
    def groups(self) -> tuple[AllowedGroup, ...]:
        return tuple(self._document.groups)

    def reload(self) -> None:
        """Read the file again. On an error the last good state is kept and the error raised."""
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            data = b""
        except OSError as error:
            raise ConfigError(f"cannot be read: {(error.strerror or '').lower()}", where=self.path) from error
        self._document = _document(data, self.path)

    def trusts(self, user_id: int) -> bool:
        """Whether this user may talk to the agent (the notebook always may)."""
        return user_id == NOTEBOOK_CHAT_ID or any(user.id == user_id for user in self._document.users)

    def group(self, chat_id: int) -> AllowedGroup | None:
        """The group or channel of this chat id, when it is open to the agent."""
        return next((group for group in self._document.groups if group.id == chat_id), None)

    def allow(
        self,
        id: int,
        label: str | None = None,
        by: int | str | None = None,
        *,
        mode: GroupMode | None = None,
        kind: GroupKind | None = None,
    ) -> bool:
        """Let in a user (positive id) or a group or channel (negative); False when nothing changed.

        For one that is in already, a given label, mode or kind is taken over.
        """
        now = iso(self._clock.now())
        return self._change(lambda data: _allow(data, id, now, label, by, mode, kind, self.path))

    def deny(self, id: int) -> bool:
        """Take a user or group out; False when it was not in."""

        def change(data: Any) -> None:
            entries = _entries(data, "users" if id > 0 else "groups")
            for index in reversed([index for index, entry in enumerate(entries) if entry["id"] == id]):
                del entries[index]

        return self._change(change)

    def set_topic_mode(self, chat_id: int, thread_id: int, mode: GroupMode) -> bool:
        """Give one topic of an open group a mode of its own; False when it had it, or the group is not
        open."""

        def change(data: Any) -> None:
            entry = next((entry for entry in _entries(data, "groups") if entry["id"] == chat_id), None)
            if entry is None:
                return
            topics = entry.setdefault("topics", [])
            topic = next((topic for topic in topics if topic["thread_id"] == thread_id), None)
            if topic is None:
                topics.append({"thread_id": thread_id, "mode": mode})
            else:
                topic["mode"] = mode

        return self._change(change)

    def _change(self, change: Callable[[Any], None]) -> bool:
        before: list[_Document] = []

        def merge(data: bytes | None) -> bytes | str:
            text = data if data and data.strip() else ALLOWLIST_YAML.encode()
            before.append(_document(text, self.path))
            editable = load_round_trip(text, self.path)
            change(editable)
            after = dump_round_trip(editable)
            return text if _document(after, self.path) == before[0] else after

        self._document = _document(write_merged(self.path, merge, 0o600), self.path)
        return self._document != before[0]


def allowlist_text(ids: Iterable[int], path: Path, *, clock: Clock | None = None) -> str:
    """The first ``allowlist.yaml`` with these users and groups let in; ``path`` is for messages."""
    data = load_round_trip(ALLOWLIST_YAML, path)
    now = iso((clock or SystemClock()).now())
    for id in ids:
        _allow(data, id, now, None, None, None, None, path)
    return dump_round_trip(data)


def _allow(
    data: Any,
    id: int,
    now: str,
    label: str | None,
    by: int | str | None,
    mode: GroupMode | None,
    kind: GroupKind | None,
    path: Path,
) -> None:
    if not isinstance(id, int) or isinstance(id, bool) or id in (0, NOTEBOOK_CHAT_ID):
        raise ConfigError(f"{id!r} is no id of a user or a group", where=path)
    entries = _entries(data, "users" if id > 0 else "groups")
    entry = next((entry for entry in entries if entry["id"] == id), None)
    given: dict[str, Any] = {"label": label}
    if id < 0:
        given |= {"mode": mode, "kind": kind}
    if entry is None:
        entry = {"id": id}
        entries.append(entry)
        if id > 0:
            given |= {"added_by": by, "added_at": now}
        else:
            given = {"label": label, "opened_by": by, "opened_at": now}
            given |= {"mode": mode or "addressed", "kind": kind or "group"}
    entry.update({key: value for key, value in given.items() if value is not None})


def _entries(data: Any, name: str) -> Any:
    """The editable list, in block style: a list that was written ``[]`` would else grow in one line."""
    entries = data.get(name)
    if entries is None:
        data[name] = []
        return data[name]
    if hasattr(entries, "fa"):
        entries.fa.set_block_style()
    return entries


def _document(data: bytes | str, path: Path) -> _Document:
    values, lines = parse(data, path)
    if not values:
        return _Document(version=2)
    try:
        return _Document.model_validate(values)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        keys = tuple(fault["loc"])
        line = next((lines[keys[:size]] for size in range(len(keys), 0, -1) if keys[:size] in lines), None)
        where = str(path) if line is None else f"{path}, line {line}"
        name = ".".join(str(key) for key in keys)
        if fault["type"] == "missing" and keys == ("version",):
            raise ConfigError("version: 2 is missing", where=where, fix="Add it as the first line.") from None
        reason = "unknown key" if fault["type"] == "extra_forbidden" else fault["msg"].lower()
        raise ConfigError(f"{name}: {reason}", where=where) from None
