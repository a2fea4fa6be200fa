"""A turn with everything real around it but the CLI and the chat."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from rightlab.clock import SystemClock
from rightlab.content import Part
from rightlab.conversation import Archive, Inbound, Inbox, Outbox, Sender, Sessions
from rightlab.prompt import PromptRegistry
from rightlab.store import Store
from rightlab.testing import ScriptedTransport
from rightlab.turn import CallScope, Deliverer, Invoker, ScopeLocks, TurnRecords, TurnRunner, TurnSettings
from rightlab.usage import Ledger

FIRST = Inbound(
    channel="fake",
    update_id=1,
    chat_id=7,
    thread_id=0,
    message_id=1,
    sent_at=datetime(2026, 11, 30, tzinfo=UTC),
    chat_kind="dm",
    sender=Sender(7, "Ann"),
    text="hello",
)


@dataclass
class FakeChannel:
    """A chat that takes everything, unless ``trouble`` is set. ``look`` is called before each part is taken."""

    name: str = "fake"
    sent: list[tuple[int, str, int | None]] = field(default_factory=list)
    trouble: Exception | None = None
    look: Callable[[], object] = lambda: None
    typing_in: list[int] = field(default_factory=list)
    typing_ended: int = 0

    async def send(self, chat_id: int, thread_id: int, part: Part, *, reply_to: int | None = None) -> int:
        self.look()
        await asyncio.sleep(0)
        if self.trouble is not None:
            raise self.trouble
        self.sent.append((chat_id, part.text, reply_to))
        return 1000 + len(self.sent)

    @asynccontextmanager
    async def typing(self, chat_id: int, thread_id: int) -> AsyncIterator[None]:
        self.typing_in.append(chat_id)
        try:
            yield
        finally:
            self.typing_ended += 1

    @property
    def texts(self) -> list[str]:
        return [text for _, text, _ in self.sent]


@dataclass
class FakeTools:
    opened: list[CallScope] = field(default_factory=list)
    open_now: set[str] = field(default_factory=set)

    def open(self, scope: CallScope, *, channel: Any) -> dict[str, Any]:
        self.opened.append(scope)
        self.open_now.add(scope.invocation_id)
        return {"mcpServers": {}}

    def close(self, invocation_id: str) -> None:
        self.open_now.discard(invocation_id)


@dataclass
class FakeFolder:
    files_dir: Path
    guest_root: str = "/sandbox"

    def files_at(self, files: Path) -> str:
        return "/files"

    def scratch_at(self, files: Path) -> str:
        return "/scratch"

    def tool(self, name: str) -> str:
        return f"/tools/{name}"


class Desk:
    """One agent's turn and what it writes; :meth:`restart` is a new process on the same disk."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock = SystemClock()
        self.channel: FakeChannel | None = FakeChannel()
        self.tools = FakeTools()
        self.numbers = iter(range(1, 10_000))
        self.store = Store.open(folder / "data.db", role="owner")
        self.restart("ok")

    def restart(self, script: Any, *, slots: int = 4) -> None:
        """From now on a fresh runner answers by ``script``; what is on disk stays."""
        self.transport = ScriptedTransport(script)
        store, clock = self.store, self.clock
        self.inbox, self.archive, self.sessions = (
            Inbox(store, clock),
            Archive(store, clock),
            Sessions(store, clock),
        )
        self.outbox = Outbox(store, clock, offline_pauses=(0.01,))
        self.deliverer = Deliverer(store, self.outbox, self.archive, self.channel_of)
        self.ledger = Ledger(store, clock)
        self.registry = PromptRegistry()
        self.registry.section("identity:test", 1, "You are a test.")
        self.locks = ScopeLocks()
        self.records = TurnRecords(store, clock, self.inbox, self.outbox)
        self.runner = TurnRunner(
            clock=clock,
            records=self.records,
            archive=self.archive,
            sessions=self.sessions,
            deliverer=self.deliverer,
            ledger=self.ledger,
            registry=self.registry,
            context=lambda **_: {},
            invoker=Invoker(self.transport, FakeFolder(self.folder / "files"), self.tools, slots=slots),
            settings=lambda: TurnSettings(
                agent="test", model="sonnet", debug=False, source="scripted", scripted=True
            ),
            locks=self.locks,
        )

    def channel_of(self, chat_id: int) -> FakeChannel | None:
        return self.channel

    def message(self, text: str = "hello", chat: int = 7, **more: Any) -> Inbound:
        """A message whose inbox row is committed and which is in the archive, as a channel leaves it."""
        number = next(self.numbers)
        row = self.inbox.put("fake", number, {"text": text}, chat_id=chat, state="queued")
        message = replace(
            FIRST, update_id=number, message_id=number, chat_id=chat, text=text, inbox_id=row, **more
        )
        self.archive.record_inbound(message, addressed=True, routed=False)
        return message

    async def run(self, *batch: Inbound) -> Any:
        assert self.channel is not None
        return await self.runner.run(batch, self.channel)

    async def recover(self) -> list[Any]:
        tasks = await self.runner.recover(self.channel_of)
        return list(await asyncio.gather(*tasks))

    async def cut(self, *batch: Inbound, when: Callable[[], bool]) -> None:
        """Run ``batch`` and stop it dead once ``when()`` holds, as a kill would leave the disk."""
        task = asyncio.create_task(self.run(*batch))
        await self.until(when)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async def until(self, predicate: Callable[[], object]) -> None:
        async with asyncio.timeout(5):
            while True:
                if predicate():
                    return
                await asyncio.sleep(0.001)

    def row(self, turn_id: str | None = None) -> dict[str, Any]:
        """A turn's row; the last one by default."""
        found = (
            self.store.row("SELECT * FROM turns ORDER BY id DESC LIMIT 1")
            if turn_id is None
            else self.store.row("SELECT * FROM turns WHERE turn_id = ?", turn_id)
        )
        assert found is not None
        return dict(found)

    def states(self) -> list[str]:
        return [row["state"] for row in self.store.rows("SELECT state FROM inbox ORDER BY id")]


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    made = Desk(tmp_path)
    yield made
    made.store.close()
