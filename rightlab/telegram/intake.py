"""Updates into the inbox: judged, committed in one transaction, then handed on (spec agent-runtime 4.1)."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from telegram import Bot, Update, User

from rightlab.conversation import Archive, Inbound, Inbox, NewUpdate
from rightlab.conversation.inbox import InboxState
from rightlab.errors import RightlabError
from rightlab.store import Store, Tx
from rightlab.telegram.failures import one_line
from rightlab.telegram.inbound import CHANNEL, to_inbound
from rightlab.telegram.ports import Trust
from rightlab.telegram.routing import Decision, decide

__all__ = ["GROUPS_LATER", "Intake", "well_formed"]

GROUPS_LATER = "groups come later"

_log = logging.getLogger(__name__)
_LARGEST = 2**63 - 1
"""What a column of the database holds."""


def well_formed(batch: object) -> list[dict[str, Any]]:
    """The updates of a server's answer that carry an id to acknowledge them by; the others are logged."""
    found = []
    for raw in batch if isinstance(batch, list) else [batch]:
        if isinstance(raw, dict) and _is_number(raw.get("update_id")) and raw["update_id"] >= 0:
            found.append(raw)
        else:
            _log.warning("the server sent something that is no update: %.200r", raw)
    return found


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
        try:
            return await self._put(judged, me)
        except RightlabError:
            raise  # the disk's trouble or another owner's: nothing was stored, so all of it comes again
        except Exception:
            taken = []
            for item in judged:
                taken += await self._put_alone(item, me)
            return taken

    async def _put(self, judged: Sequence[_Judged], me: User) -> list[Inbound]:
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

    async def _put_alone(self, item: _Judged, me: User) -> list[Inbound]:
        """One of a batch that could not be stored whole; what cannot be stored at all leaves its id alone."""
        try:
            return await self._put([item], me)
        except RightlabError:
            raise
        except Exception as error:
            _log.warning("update %s cannot be stored: %s", item.update.update_id, one_line(error))
            reason = "cannot be stored"
            skipped = NewUpdate(item.update.update_id, {}, chat_id=0, state="ignored", reason=reason)
            return await self._put([_Judged(skipped, None, Decision(None, False, False, reason))], me)

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
            message = _sound(to_inbound(update, me, addressed=decision.addressed))
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


def _is_number(value: object) -> bool:
    return type(value) is int and -_LARGEST <= value <= _LARGEST


def _sound(message: Inbound | None) -> Inbound | None:
    """``message``, whose ids are numbers and whose text is text: the library takes what the server says."""
    if message is not None:
        ids = (message.chat_id, message.thread_id, message.message_id, message.sender.user_id)
        if not all(map(_is_number, ids)):
            raise ValueError("an id in it is no number")
        if not isinstance(message.text, str):
            raise ValueError("its text is no text")
        for what, value in _optional(message):
            if value is not None and not isinstance(value, str):
                raise ValueError(f"its {what} is no text")
        target = message.reply_to
        if target is not None and not _is_number(target.message_id):
            raise ValueError("the id of what it answers is no number")
        for file in (*message.attachments, *(() if target is None else target.attachments)):
            if file.size is not None and not _is_number(file.size):
                raise ValueError("the size of a file is no number")
    return message


def _optional(message: Inbound) -> Iterator[tuple[str, object]]:
    """What else of a message is text, when it is there at all, with a name for it."""
    target = message.reply_to
    yield "chat's title", message.chat_title
    yield "quote", message.quoted_text
    yield "media group", message.media_group_id
    for sender in (message.sender, message.forward_from, None if target is None else target.author):
        if sender is not None:
            yield "sender's name", sender.name
            yield "sender's handle", sender.username
    if target is not None:
        yield "answered text", target.text
    for file in (*message.attachments, *(() if target is None else target.attachments)):
        yield "file's id", file.file_id
        yield "file's type", file.mime_type
        yield "file's name", file.filename


def _state(decision: Decision, message: Inbound | None) -> tuple[InboxState, str | None]:
    if decision.kind is None or message is None:
        return "ignored", decision.reason
    if message.chat_kind != "dm":
        return "ignored", GROUPS_LATER
    if not message.text.strip() and not message.attachments:
        return "ignored", "nothing to read in it"
    return "queued", None
