"""Layers: where registrations live, who sees them, and how they go away (spec prompt-registry 1.2, 1.3).

There is one global layer and one per scope key. A registration is made through a *handle*; the handle is both
its owner and the layer it is visible in, so ownership and visibility are one fact.
"""

import contextlib
import math
import sys
import threading
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from rightlab.errors import PromptError

__all__ = [
    "GLOBAL",
    "ContextEntry",
    "Layer",
    "Layers",
    "Listener",
    "Registration",
    "SectionEntry",
    "ToolEntry",
    "VariableEntry",
    "caller",
    "check_order",
]

GLOBAL: Any = None
"""The key of the global layer."""


@dataclass(frozen=True, eq=False)
class SectionEntry:
    """One registered section; ``text`` is text or a callable of the assemble context."""

    name: str
    order: float
    text: Any
    literal: bool = False
    required: bool = True
    complete: bool = False
    file: str | None = None
    head: int | None = None
    wrap: str | None = None
    before: str | None = None
    after: str | None = None
    when: Callable[[Any], bool] | None = None
    owner: str = ""
    where: str = ""


@dataclass(frozen=True, eq=False)
class ContextEntry:
    """One registered tail context."""

    name: str
    order: float
    text: Any
    literal: bool = False
    required: bool = True
    owner: str = ""
    where: str = ""


@dataclass(frozen=True, eq=False)
class VariableEntry:
    """One registered variable; ``provider`` is text, ``None`` or a callable of the assemble context."""

    name: str
    provider: Any
    owner: str = ""
    where: str = ""


@dataclass(frozen=True, eq=False)
class ToolEntry:
    """One registered tool provider, a callable of the assemble context."""

    provider: Callable[[Any], object]
    owner: str = ""
    where: str = ""


@dataclass(frozen=True, eq=False)
class Listener:
    """One assemble or change listener with the scope it hears (``every`` hears all)."""

    call: Callable[..., Any]
    key: Hashable = None
    every: bool = False
    owner: str = ""
    required: bool = True


@dataclass
class Layer:
    """What is registered under one key, in order of registration."""

    sections: dict[str, SectionEntry] = field(default_factory=dict)
    contexts: dict[str, ContextEntry] = field(default_factory=dict)
    variables: dict[str, VariableEntry] = field(default_factory=dict)
    tools: dict[int, ToolEntry] = field(default_factory=dict)
    silent: dict[int, str] = field(default_factory=dict)

    def empty(self) -> bool:
        return not (self.sections or self.contexts or self.variables or self.tools or self.silent)


class Registration:
    """One thing registered. :meth:`close` takes it back; closing twice does nothing. Works in ``with``."""

    def __init__(self, undo: Callable[[], None], label: str) -> None:
        self._undo: Callable[[], None] | None = undo
        self._label = label

    @property
    def closed(self) -> bool:
        return self._undo is None

    def close(self) -> None:
        undo, self._undo = self._undo, None
        if undo is not None:
            undo()

    def __enter__(self) -> "Registration":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{'closed ' if self.closed else ''}registration of {self._label}>"


Entry = TypeVar("Entry", SectionEntry, ContextEntry, VariableEntry)


class Layers:
    """All layers of one registry, the listeners, and the lock that makes a change one step for any thread."""

    def __init__(self) -> None:
        self._layers: dict[Hashable, Layer] = {GLOBAL: Layer()}
        self.change: dict[int, Callable[[], Any]] = {}
        self.assemble: dict[int, Listener] = {}
        self._order: list[int] = []
        self._next = 0
        self.lock = threading.RLock()

    def __len__(self) -> int:
        return len(self._layers)

    def peek(self, key: Hashable) -> Layer | None:
        """The layer of ``key`` if anything is registered there; reading never makes one."""
        return self._layers.get(key)

    def visible(self, key: Hashable) -> Iterator[Layer]:
        """The layers an assembly for ``key`` sees, farthest first."""
        yield self._layers[GLOBAL]
        if key is not GLOBAL and (own := self._layers.get(key)) is not None:
            yield own

    def put_named(self, key: Hashable, table: str, entry: Entry, kind: str) -> Registration:
        """Register a named thing in ``table`` of the layer of ``key``; a taken name raises ``duplicate``."""
        with self.lock:
            layer = self._layers.setdefault(key, Layer())
            named: dict[str, Entry] = getattr(layer, table)
            if (taken := named.get(entry.name)) is not None:
                raise self._duplicate(key, kind, entry, taken)
            named[entry.name] = entry
        return self._announced(key, lambda: named.pop(entry.name, None), f"{kind} {entry.name!r}")

    def put(self, key: Hashable, table: str, entry: object, label: str) -> Registration:
        """Register a nameless thing; the same one twice is two registrations."""
        with self.lock:
            layer = self._layers.setdefault(key, Layer())
            slots: dict[int, object] = getattr(layer, table)
            slot = self._slot()
            slots[slot] = entry
        return self._announced(key, lambda: slots.pop(slot, None), label)

    def listen(self, listener: Listener, *, first: bool) -> Registration:
        with self.lock:
            slot = self._slot()
            self.assemble[slot] = listener
            self._order.insert(0 if first else len(self._order), slot)

        def undo() -> None:
            with self.lock:
                self.assemble.pop(slot, None)
                self._order.remove(slot)

        return Registration(undo, "an assemble listener")

    def listeners(self, key: Hashable) -> list[Listener]:
        """The assemble listeners that hear an assembly for ``key``, outermost first."""
        with self.lock:
            heard = [self.assemble[slot] for slot in self._order]
        return [one for one in heard if one.every or one.key is GLOBAL or one.key == key]

    def on_change(self, call: Callable[[], Any]) -> Registration:
        with self.lock:
            slot = self._slot()
            self.change[slot] = call
        return Registration(lambda: self._forget(slot), "a change listener")

    def changed(self) -> None:
        """Tell every change listener; all of them hear it, the first exception is raised afterwards."""
        failure: Exception | None = None
        for call in list(self.change.values()):
            try:
                call()
            except Exception as error:
                failure = failure or error
        if failure is not None:
            raise failure

    def _forget(self, slot: int) -> None:
        self.change.pop(slot, None)

    def _slot(self) -> int:
        self._next += 1
        return self._next

    def _announced(self, key: Hashable, remove: Callable[[], object], label: str) -> Registration:
        """The registration whose undo is recorded before anybody hears of it, so a listener can veto it."""

        def undo() -> None:
            with self.lock:
                remove()
                layer = self._layers.get(key)
                if key is not GLOBAL and layer is not None and layer.empty():
                    del self._layers[key]
            self.changed()

        registration = Registration(undo, label)
        try:
            self.changed()
        except Exception:
            with contextlib.suppress(Exception):
                registration.close()
            raise
        return registration

    @staticmethod
    def _duplicate(key: Hashable, kind: str, new: Entry, old: Entry) -> PromptError:
        both = f"first by {old.where or old.owner}, again by {new.where or new.owner}"
        if key is GLOBAL:
            return PromptError(
                f"{kind} {new.name!r} is registered already ({both})",
                code="duplicate",
                section=new.name,
                owner=new.owner,
                fix="To override it for one agent or variant, register it through a scope.",
            )
        return PromptError(
            f"{kind} {new.name!r} is registered already in this scope ({both})",
            code="duplicate",
            section=new.name,
            owner=new.owner,
        )


def check_order(order: object, kind: str, name: str, owner: str) -> float:
    """``order`` as a finite number, else :class:`PromptError` with code ``order``."""
    if isinstance(order, bool) or not isinstance(order, int | float) or not math.isfinite(order):
        raise PromptError(
            f"the order of {kind} {name!r} must be a finite number, not {order!r}",
            code="order",
            section=name,
            owner=owner,
        )
    return order


def caller() -> tuple[str, str]:
    """(module, ``file:line``) of the nearest frame outside this package's registry code."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__") in _INSIDE:
        frame = frame.f_back
    return str(frame.f_globals.get("__name__", "?")), f"{frame.f_code.co_filename}:{frame.f_lineno}"


_INSIDE = frozenset(("rightlab.prompt.layers", "rightlab.prompt.registry", "rightlab.prompt.handle"))
