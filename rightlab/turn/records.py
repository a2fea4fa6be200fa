"""The rows of turns: what is on disk before the step that depends on it (design 4)."""

import json
from collections.abc import Sequence
from typing import Any

from rightlab.clock import Clock, iso
from rightlab.content import RichContent, text_parts
from rightlab.conversation import Inbound, Inbox, Outbox
from rightlab.store import Row, Store, Tx
from rightlab.turn.invoke import Outcome

__all__ = ["TurnRecords", "reply_target"]


class TurnRecords:
    """Reads and writes the ``turns`` table together with the inbox and outbox rows that belong to a turn."""

    def __init__(self, store: Store, clock: Clock, inbox: Inbox, outbox: Outbox) -> None:
        self._store = store
        self._clock = clock
        self._inbox = inbox
        self._outbox = outbox

    async def begin(self, turn_id: str, batch: Sequence[Inbound]) -> list[Inbound]:
        """The turn exists and its messages belong to it, in one commit. Returns those that were still free."""

        def work(tx: Tx) -> list[Inbound]:
            claimed = set(self._inbox.claim(_ids(batch), turn_id, tx=tx))
            mine = [message for message in batch if message.inbox_id is None or message.inbox_id in claimed]
            if mine:
                tx.run(
                    "INSERT INTO turns (turn_id, channel, chat_id, thread_id, status, messages_json, started_at)"
                    " VALUES (?, ?, ?, ?, 'running', ?, ?)",
                    turn_id,
                    mine[0].channel,
                    mine[0].chat_id,
                    mine[0].thread_id,
                    json.dumps([message.to_json() for message in mine]),
                    iso(self._clock.now()),
                )
            return mine

        return await self._store.atransact(work)

    async def update(self, turn_id: str, **values: Any) -> None:
        await self._store.atransact(lambda tx: _set(tx, turn_id, **values))

    async def replied(
        self,
        turn_id: str,
        batch: Sequence[Inbound],
        content: RichContent | None,
        outcome: Outcome,
        elapsed_ms: int,
        *,
        reply_to: int | None = None,
    ) -> int | None:
        """Store the reply and queue its parts, in one commit, before the first send. The outbox id, if any.

        ``reply_to`` is the message the model chose to answer.
        """
        result = outcome.result

        def work(tx: Tx) -> int | None:
            outbox_id = None if content is None else self._enqueue(tx, turn_id, batch, content, reply_to)
            _set(
                tx,
                turn_id,
                status="delivered" if content is None else "replied",
                reply_json=None if content is None else json.dumps(content.to_json(), ensure_ascii=False),
                outbox_id=outbox_id,
                num_turns=result.num_turns,
                cost_usd=outcome.cost_usd,
                usage_json=json.dumps(result.usage),
                elapsed_ms=elapsed_ms,
                finished_at=iso(self._clock.now()),
            )
            self._inbox.settle(_ids(batch), "done", tx=tx)
            return outbox_id

        return await self._store.atransact(work)

    async def failed(
        self, turn_id: str, batch: Sequence[Inbound], status: str, kind: str, line: str, elapsed_ms: int
    ) -> int:
        """Store how the turn ended and queue the one line that tells the chat. The outbox id."""

        def work(tx: Tx) -> int:
            outbox_id = self._enqueue(tx, turn_id, batch, RichContent.from_text(line))
            _set(
                tx,
                turn_id,
                status=status,
                error_kind=kind,
                error=line,
                outbox_id=outbox_id,
                elapsed_ms=elapsed_ms,
                finished_at=iso(self._clock.now()),
            )
            self._inbox.settle(_ids(batch), "done", tx=tx)
            return outbox_id

        return await self._store.atransact(work)

    async def silent(self, turn_id: str, batch: Sequence[Inbound], reason: str) -> None:
        """The turn ended without a word, for ``reason``."""

        def work(tx: Tx) -> None:
            _set(tx, turn_id, status="delivered", elapsed_ms=0, finished_at=iso(self._clock.now()))
            self._inbox.settle(_ids(batch), "done", reason, tx=tx)

        await self._store.atransact(work)

    def cut(self) -> list[Row]:
        """Turns that were running when their process died, oldest first."""
        return self._store.rows("SELECT * FROM turns WHERE status = 'running' ORDER BY id")

    def _enqueue(
        self,
        tx: Tx,
        turn_id: str,
        batch: Sequence[Inbound],
        content: RichContent,
        reply_to: int | None = None,
    ) -> int:
        first = batch[0]
        return self._outbox.enqueue(
            source="turn",
            chat_id=first.chat_id,
            thread_id=first.thread_id,
            parts=text_parts(content),
            content_json=content.to_json(),
            turn_id=turn_id,
            reply_to=reply_target(batch, reply_to),
            tx=tx,
        )


def reply_target(batch: Sequence[Inbound], chosen: int | None = None) -> int | None:
    """Which message a reply answers (spec agent-runtime 4.2).

    In a group the first of the batch; in a DM the only one, else the one the model has ``chosen``, if any.
    """
    first = batch[0]
    return first.message_id if first.chat_kind != "dm" or len(batch) == 1 else chosen


def _ids(batch: Sequence[Inbound]) -> list[int]:
    return [message.inbox_id for message in batch if message.inbox_id is not None]


def _set(tx: Tx, turn_id: str, **values: Any) -> None:
    columns = ", ".join(f"{name} = ?" for name in values)
    tx.run(f"UPDATE turns SET {columns} WHERE turn_id = ?", *values.values(), turn_id)
