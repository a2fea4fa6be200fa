"""What the stand-in server knows: users, chats, messages, the update queue, and the faults it was told
to make.
"""

import json
import threading
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Call", "Chat", "Fault", "State", "Trouble", "as_user", "loaded"]


class Trouble(Exception):
    """An answer that is not ok: the server's status, words and parameters."""

    def __init__(self, status: int, description: str, **parameters: Any) -> None:
        super().__init__(description)
        self.status = status
        self.description = description
        self.parameters = parameters


@dataclass
class Call:
    """One request that reached the server. ``at`` is monotonic seconds; ``status`` is 0 until it is answered,
    and stays so when it never is.
    """

    method: str
    params: dict[str, Any]
    at: float
    status: int = 0


@dataclass
class Fault:
    """Something to do instead of, or around, the next calls of a method."""

    kind: str
    times: int
    chat_id: int | None = None
    trouble: Trouble | None = None
    seconds: float = 0.0


@dataclass
class Chat:
    """A chat the bot can write to. ``topics`` are thread ids that exist; a forum's General has none."""

    id: int
    type: str
    title: str | None = None
    username: str | None = None
    is_forum: bool = False
    blocked: bool = False
    flooded_until: float = 0.0
    topics: dict[int, str] = field(default_factory=dict)
    last_message_id: int = 0
    messages: dict[int, dict[str, Any]] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        known = {"id": self.id, "type": self.type}
        if self.type == "private":
            known["first_name"] = self.title or f"User {self.id}"
        else:
            known["title"] = self.title or f"Chat {self.id}"
        if self.username:
            known["username"] = self.username
        if self.is_forum:
            known["is_forum"] = True
        return known


def as_user(user: int | Mapping[str, Any] | None, chat_id: int) -> dict[str, Any]:
    """A Bot API user object from a number, a partial object, or the person of a private chat."""
    if isinstance(user, Mapping):
        return {"is_bot": False, "first_name": f"User {user['id']}", **user}
    number = user if user is not None else chat_id if chat_id > 0 else 1000
    return {"id": number, "is_bot": False, "first_name": f"User {number}", "language_code": "en"}


class State:
    """All of it behind one lock; ``changed`` is notified after every change."""

    def __init__(self, token: str, username: str) -> None:
        self.token = token
        bot_id = token.partition(":")[0]
        self.me = {
            "id": int(bot_id) if bot_id.isdigit() else 1,
            "is_bot": True,
            "first_name": "Bot",
            "username": username,
            "can_join_groups": True,
            "can_read_all_group_messages": False,
            "supports_inline_queries": False,
        }
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self.chats: dict[int, Chat] = {}
        self.updates: list[dict[str, Any]] = []
        self.history: dict[int, dict[str, Any]] = {}
        self.next_update_id = 700_000_001
        self.calls: list[Call] = []
        self.faults: dict[str, list[Fault]] = defaultdict(list)
        self.webhook: dict[str, Any] = {"url": ""}
        self.allowed_updates: list[str] | None = None
        self.commands: dict[str, list[dict[str, Any]]] = {}
        self.files: dict[str, tuple[str, bytes]] = {}
        self.callbacks: set[str] = set()
        self.actions: list[tuple[int, int, str]] = []

    def chat(self, chat_id: int, chat_type: str | None = None, **more: Any) -> Chat:
        """The chat of this id, made when it is new: private above zero, else a supergroup."""
        found = self.chats.get(chat_id)
        if found is None:
            kind = chat_type or ("private" if chat_id > 0 else "supergroup")
            found = self.chats[chat_id] = Chat(chat_id, kind)
        elif chat_type is not None:
            found.type = chat_type
        for name, value in more.items():
            setattr(found, name, value)
        return found

    def store_message(
        self, chat: Chat, message: dict[str, Any], message_id: int | None = None
    ) -> dict[str, Any]:
        """Give ``message`` its id and date, as each chat counts on its own, and keep it."""
        chat.last_message_id = max(chat.last_message_id + 1, message_id or 0)
        stored = {
            "message_id": message_id or chat.last_message_id,
            "date": int(time.time()),
            "chat": chat.as_json(),
            **message,
        }
        chat.messages[stored["message_id"]] = stored
        self.changed.notify_all()
        return stored

    def push(self, update: dict[str, Any]) -> int:
        """Queue an update; its id."""
        if "update_id" not in update:
            update = {"update_id": self.next_update_id, **update}
        self.next_update_id = max(self.next_update_id, int(update["update_id"]) + 1)
        self.history[update["update_id"]] = update
        self.updates.append(update)
        self.updates.sort(key=lambda known: int(known["update_id"]))
        self.changed.notify_all()
        return int(update["update_id"])

    def wanted(self, update: dict[str, Any]) -> bool:
        kind = next((key for key in update if key != "update_id"), "")
        if not self.allowed_updates:
            return kind not in ("chat_member", "message_reaction", "message_reaction_count")
        return kind in self.allowed_updates

    def take_fault(self, method: str, chat_id: int | None) -> Fault | None:
        """The next fault planned for this call, used up by it."""
        for planned in self.faults.get(method, []):
            if planned.chat_id is not None and planned.chat_id != chat_id:
                continue
            planned.times -= 1
            if planned.times <= 0:
                self.faults[method].remove(planned)
            return planned
        return None


def loaded(value: Any) -> Any:
    """A structured parameter: JSON text in a form, itself in a JSON body. Raises ``ValueError`` on
    broken JSON.
    """
    return json.loads(value) if isinstance(value, str) else value
