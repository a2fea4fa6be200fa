"""The archive: what was said in the chats, searchable (spec agent-runtime 7.5).

It starts when the bot joins: there is no history to load from Telegram.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rightlab.clock import Clock, iso, parse_iso
from rightlab.conversation.messages import Inbound
from rightlab.errors import UsageError
from rightlab.store import Row, Store, Tx

__all__ = ["Archive", "Found"]

_SEARCH_MAX = 50
_WORD = re.compile(r"\w+")

_UPSERT = """
INSERT INTO conversation_messages (platform, chat_id, thread_id, message_id, sender_user_id, sender_name,
    addressed_to_bot, routed_to_agent, root_session_id, turn_id, role, content, created_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (platform, chat_id, message_id, role) WHERE message_id IS NOT NULL DO UPDATE SET
    thread_id = excluded.thread_id,
    sender_user_id = excluded.sender_user_id,
    sender_name = excluded.sender_name,
    addressed_to_bot = excluded.addressed_to_bot,
    routed_to_agent = max(routed_to_agent, excluded.routed_to_agent),
    root_session_id = coalesce(root_session_id, excluded.root_session_id),
    turn_id = coalesce(turn_id, excluded.turn_id),
    content = excluded.content
"""


@dataclass(frozen=True, slots=True)
class Found:
    """An archived message. ``snippet`` marks the hits of a search with ``[`` and ``]``, else it is the
    content.
    """

    id: int
    role: str
    snippet: str
    content: str
    sender_user_id: int | None
    sender_name: str | None
    created_at: datetime
    chat_id: int
    thread_id: int
    message_id: int | None
    root_session_id: str | None


class Archive:
    """The archive of one agent."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def record_inbound(
        self, message: Inbound, *, addressed: bool, routed: bool, tx: Tx | None = None
    ) -> bool:
        """Store or overwrite a message; ``False`` when it has no text to store.

        The same message again (an edit, a redelivery) overwrites content, sender, thread and ``addressed``;
        ``routed`` is never taken back, and a session or turn that is set stays.
        """
        content = message.text.strip()
        if not content:
            return False
        values = (
            message.channel,
            message.chat_id,
            message.thread_id,
            message.message_id,
            message.sender.user_id,
            message.sender.name,
            addressed,
            routed,
            None,
            None,
            "user",
            content,
            iso(message.sent_at),
        )
        self._do(lambda tx: tx.run(_UPSERT, *values), tx)
        return True

    def record_assistant(
        self,
        *,
        platform: str,
        chat_id: int,
        thread_id: int,
        messages: Sequence[tuple[int | None, str]],
        session_id: str | None = None,
        turn_id: str | None = None,
        tx: Tx | None = None,
    ) -> int:
        """Store what was delivered: one row for each message the platform confirmed, with its id; how
        many rows.

        ``messages`` holds (message id, text); a text without a visible character is left out.
        """
        now = iso(self._clock.now())
        rows = [(message_id, text.strip()) for message_id, text in messages if text.strip()]

        def work(tx: Tx) -> None:
            for message_id, content in rows:
                tx.run(
                    _UPSERT,
                    platform,
                    chat_id,
                    thread_id,
                    message_id,
                    None,
                    None,
                    False,
                    True,
                    session_id,
                    turn_id,
                    "assistant",
                    content,
                    now,
                )

        self._do(work, tx)
        return len(rows)

    def mark_routed(
        self,
        platform: str,
        chat_id: int,
        message_ids: Sequence[int],
        *,
        session_id: str,
        turn_id: str,
        tx: Tx | None = None,
    ) -> None:
        """Tie user messages to the session and turn that took them."""

        def work(tx: Tx) -> None:
            for message_id in message_ids:
                tx.run(
                    "UPDATE conversation_messages SET routed_to_agent = 1, root_session_id = ?, turn_id = ?"
                    " WHERE platform = ? AND chat_id = ? AND message_id = ? AND role = 'user'",
                    session_id,
                    turn_id,
                    platform,
                    chat_id,
                    message_id,
                )

        self._do(work, tx)

    def search(self, query: str, chat_id: int, thread_id: int | None = None, limit: int = 10) -> list[Found]:
        """Messages that hold every word of ``query``, newest first; all threads unless one is named.

        Words are letters, digits and ``_``; ``limit`` is clamped to 1..50. Raises :class:`UsageError`
        when the query has no word.
        """
        words = [word for word in _WORD.findall(query) if word.strip("_")]
        if not words:
            raise UsageError("the search has no word in it", fix="Search for letters or digits.")
        match = " AND ".join(f'"{word}"' for word in words)
        rows = self._store.rows(
            "SELECT m.*, snippet(conversation_fts, 0, '[', ']', '...', 12) AS snippet"
            " FROM conversation_fts JOIN conversation_messages AS m ON m.id = conversation_fts.rowid"
            " WHERE conversation_fts MATCH ? AND m.chat_id = ? AND (? IS NULL OR m.thread_id = ?)"
            " ORDER BY m.created_at DESC, m.id DESC LIMIT ?",
            match,
            chat_id,
            thread_id,
            thread_id,
            max(1, min(limit, _SEARCH_MAX)),
        )
        return [_found(row, row["snippet"]) for row in rows]

    def by_ids(self, message_ids: Sequence[int], chat_id: int, thread_id: int) -> list[Found]:
        """Up to 50 messages of one scope by the platform's ids, in id order; others are left out."""
        found: list[Found] = []
        for message_id in sorted(set(message_ids))[:_SEARCH_MAX]:
            rows = self._store.rows(
                "SELECT * FROM conversation_messages WHERE message_id = ? AND chat_id = ? AND thread_id = ?",
                message_id,
                chat_id,
                thread_id,
            )
            found.extend(_found(row, row["content"]) for row in rows)
        return found

    def recent(self, chat_id: int, thread_id: int | None = None, limit: int = 50) -> list[Found]:
        """The last messages of a chat, newest first."""
        rows = self._store.rows(
            "SELECT * FROM conversation_messages WHERE chat_id = ? AND (? IS NULL OR thread_id = ?)"
            " ORDER BY created_at DESC, id DESC LIMIT ?",
            chat_id,
            thread_id,
            thread_id,
            max(1, limit),
        )
        return [_found(row, row["content"]) for row in rows]

    def last_activity(self, chat_id: int) -> datetime | None:
        """When anybody, the agent too, last wrote in the chat."""
        value = self._store.value(
            "SELECT max(created_at) FROM conversation_messages WHERE chat_id = ?", chat_id
        )
        return None if value is None else parse_iso(value)

    def forget(self, platform: str, chat_id: int, message_id: int) -> int:
        """Delete a message and its index entry: for one that carries a credential; how many rows."""
        return self._store.transact(
            lambda tx: (
                tx.run(
                    "DELETE FROM conversation_messages WHERE platform = ? AND chat_id = ? AND message_id = ?",
                    platform,
                    chat_id,
                    message_id,
                ).rowcount
            )
        )

    def _do(self, work: Any, tx: Tx | None) -> None:
        if tx is not None:
            work(tx)
        else:
            self._store.transact(work)


def _found(row: Row, snippet: str) -> Found:
    return Found(
        id=row["id"],
        role=row["role"],
        snippet=snippet,
        content=row["content"],
        sender_user_id=row["sender_user_id"],
        sender_name=row["sender_name"],
        created_at=parse_iso(row["created_at"]),
        chat_id=row["chat_id"],
        thread_id=row["thread_id"],
        message_id=row["message_id"],
        root_session_id=row["root_session_id"],
    )
