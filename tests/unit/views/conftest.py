"""A recording comm in place of a kernel's, and no view that outlives its test."""

from collections.abc import Iterator
from typing import Any

import comm
import pytest


class Wire:
    """Everything widgets would have sent to a page."""

    def __init__(self) -> None:
        self.opened: list[str] = []
        self.updates: list[dict[str, Any]] = []
        self.closed: list[str] = []

    @property
    def alive(self) -> set[str]:
        return set(self.opened) - set(self.closed)


class RecordingComm:
    def __init__(self, wire: Wire, comm_id: str) -> None:
        self.comm_id = comm_id
        self._wire = wire

    def send(self, data: dict[str, Any] | None = None, **_: Any) -> None:
        if data is not None and data.get("method") == "update":
            self._wire.updates.append(data["state"])

    def on_msg(self, callback: Any) -> None:
        self.callback = callback

    def close(self, **_: Any) -> None:
        self._wire.closed.append(self.comm_id)


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Iterator[Wire]:
    made = Wire()

    def create(**options: Any) -> RecordingComm:
        comm_id = options.get("comm_id") or f"comm-{len(made.opened)}"
        made.opened.append(comm_id)
        return RecordingComm(made, comm_id)

    monkeypatch.setattr(comm, "create_comm", create)
    yield made
    from rightlab.views import close_all

    close_all()
    assert made.alive == set(), "a closed view left a widget behind"
