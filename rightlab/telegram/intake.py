"""Updates into the inbox: judged, committed in one transaction, then handed on (spec agent-runtime 4.1)."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from telegram import Bot, Update, User

from rightlab.conversation import Archive, Inbound, Inbox, NewUpdate
from rightlab.conversation.inbox import InboxState
from rightlab.store import Store, Tx
from rightlab.telegram.failures import one_line
from rightlab.telegram.inbound import CHANNEL, to_inbound
from rightlab.telegram.ports import Trust
from rightlab.telegram.routing import Decision, decide

__all__ = ["GROUPS_LATER", "Intake"]

GROUPS_LATER = "groups come later"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Judged:
    update: NewUpdate
    message: Inbound | None
    decision: Decision

    @property
    def run(self) -> bool:
        return self.update.state == "queued"


class Intake:
    """The only way of an update into the agent.

    ``origin`` of its inbox rows is the bot's id: another bot's update ids are counted from elsewhere.
    """

    def __init__(self, store: Store, inbox: Inbox, archive: Archive, allowlist: Callable[[], Trust]) -> None:
        self._store = store
        self._inbox = inbox
        self._archive = archive
        self._allowlist = allowlist

    async def take(self, batch: Sequence[Mapping[str, Any]], bot: Bot, me: User) -> list[Inbound]:
        """Store a batch; what is to be run, in order, each with its inbox id. Committed when this returns.

        An update that was stored before is not returned again.
        """
        trust = self._allowlist()
        judged = [self._judge(raw, bot, me, trust) for raw in batch]

        def work(tx: Tx) -> list[int | None]:
            ids = self._inbox.put_many(CHANNEL, [item.update for item in judged], origin=str(me.id), tx=tx)
            for row_id, item in zip(ids, judged, strict=True):
                if row_id is not None and item.message is not None and item.decision.archive:
                    self._archive.record_inbound(
                        item.message, addressed=item.decision.addressed, routed=item.run, tx=tx
                    )
            return ids

        ids = await self._store.atransact(work)
        return [
            replace(item.message, inbox_id=row_id)
            for row_id, item in zip(ids, judged, strict=True)
            if row_id is not None and item.run and item.message is not None
        ]

    async def left_over(self, bot: Bot, me: User) -> list[Inbound]:
        """What an earlier run stored and no turn took, in order; the allowlist is asked again."""
        trust = self._allowlist()
        messages: list[Inbound] = []
        for row in self._inbox.pending(CHANNEL, origin=str(me.id)):
            item = self._judge(row.payload or {}, bot, me, trust)
            if item.run and item.message is not None:
                messages.append(replace(item.message, inbox_id=row.id))
            else:
                self._inbox.settle([row.id], "ignored", item.update.reason)
        return messages

    def _judge(self, raw: Mapping[str, Any], bot: Bot, me: User, trust: Trust) -> _Judged:
        update_id = raw.get("update_id")
        try:
            update = Update.de_json(dict(raw), bot)
            decision = decide(update, trust, me)
            message = to_inbound(update, me, addressed=decision.addressed)
        except Exception as error:
            # A kind of message that the library cannot read must neither stop the poll nor come again for
            # ever.
            _log.warning("update %s cannot be read: %s", update_id, one_line(error))
            decision, message = Decision(None, False, False, f"cannot be read: {one_line(error)}"), None
        state, reason = _state(decision, message)
        return _Judged(
            NewUpdate(
                update_id=update_id,
                payload=raw,
                chat_id=0 if message is None else message.chat_id,
                thread_id=0 if message is None else message.thread_id,
                state=state,
                reason=reason,
            ),
            message,
            decision,
        )


def _state(decision: Decision, message: Inbound | None) -> tuple[InboxState, str | None]:
    if decision.kind is None or message is None:
        return "ignored", decision.reason
    if message.chat_kind != "dm":
        return "ignored", GROUPS_LATER
    if not message.text.strip() and not message.attachments:
        return "ignored", "nothing to read in it"
    return "queued", None
