"""``BotApi``: a strict local Telegram Bot API, for testing bots without Telegram.

It answers like the real server: long polling with redelivery until acknowledged, one poller at a time, flood
waits, limits in UTF-16 code units, refused entities, and connections that break after the message was
stored. A method it does not have is a 404. Point a bot's API root at :attr:`BotApi.base_url`.

Not here: parse modes other than HTML, files sent by the bot, calls to a webhook (its URL is only kept).
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self

from rightlab.testing._botapi_http import ServerThread
from rightlab.testing._botapi_service import Service
from rightlab.testing._botapi_state import Call, Fault, State, Trouble, as_user
from rightlab.testing._botapi_text import auto_entities

__all__ = ["BotApi"]


class BotApi:
    """A Bot API server on 127.0.0.1, on a thread of its own; usable from any thread.

    ::

        with BotApi(token="123:abc") as api:
            api.send_text(42, "hello")            # a person writes to the bot
            api.wait_for(lambda: api.messages(42))  # what the bot sent

    The port stays the same while the bot is "down" (:meth:`offline`).
    """

    def __init__(self, token: str = "123:abc", *, username: str = "right_test_bot") -> None:
        self._state = State(token, username)
        self._service = Service(self._state)
        self._server = ServerThread(self._service.answer)

    # life

    def start(self) -> Self:
        self._server.start()
        return self

    def stop(self) -> None:
        self._server.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def token(self) -> str:
        return self._state.token

    @property
    def base_url(self) -> str:
        """The API root without ``/bot``: agent.yaml's ``telegram.api_base``."""
        return f"http://127.0.0.1:{self._server.port}"

    @property
    def me(self) -> dict[str, Any]:
        """The bot's own user object."""
        return dict(self._state.me)

    # people and chats

    def add_chat(
        self,
        chat_id: int,
        *,
        chat_type: str | None = None,
        title: str | None = None,
        username: str | None = None,
        forum: bool = False,
    ) -> None:
        """Make a chat the bot may write to before anybody wrote there; else "chat not found"."""
        with self._state.lock:
            self._state.chat(chat_id, chat_type, title=title, username=username, is_forum=forum)

    def add_topic(self, chat_id: int, thread_id: int, name: str = "Topic") -> None:
        with self._state.lock:
            self._state.chat(chat_id, is_forum=True).topics[thread_id] = name

    def delete_topic(self, chat_id: int, thread_id: int) -> None:
        """From now on a message to it is refused: "message thread not found"."""
        with self._state.lock:
            self._state.chat(chat_id).topics.pop(thread_id, None)

    def block(self, chat_id: int, blocked: bool = True) -> None:
        """The person blocks the bot (a group kicks it): 403 from now on."""
        with self._state.lock:
            self._state.chat(chat_id, blocked=blocked)

    def flood(self, chat_id: int, seconds: float) -> None:
        """Every send, edit and action in this chat is a 429 with the seconds that are left, until they
        are over.
        """
        with self._state.lock:
            self._state.chat(chat_id, flooded_until=time.monotonic() + seconds)

    def add_file(self, file_id: str, data: bytes, path: str | None = None) -> None:
        """Make a file that ``getFile`` finds and ``/file/bot<token>/<path>`` serves."""
        with self._state.lock:
            self._state.files[file_id] = (path or f"documents/{file_id}", data)

    def send_text(
        self,
        chat_id: int,
        text: str,
        *,
        user: int | Mapping[str, Any] | None = None,
        thread_id: int | None = None,
        chat_type: str | None = None,
        topic: bool = True,
        reply_to: int | None = None,
        message_id: int | None = None,
        edited: bool = False,
        **fields: Any,
    ) -> int:
        """Somebody writes; the update id.

        ``user`` is a number or a (partial) user object, by default the person of the private chat.
        ``thread_id`` with ``topic=False`` is the bogus thread id that plain replies in groups carry.
        ``fields`` are added to the message as they are. Commands and mentions get their entities as from
        the server.
        """
        with self._state.lock:
            chat = self._state.chat(chat_id, chat_type)
            message: dict[str, Any] = {"from": as_user(user, chat_id), "text": text}
            if entities := auto_entities(text):
                message["entities"] = entities
            if thread_id is not None:
                message["message_thread_id"] = thread_id
                if topic:
                    message["is_topic_message"] = True
                    chat.is_forum = True
                    if thread_id > 1:
                        chat.topics.setdefault(thread_id, f"Topic {thread_id}")
            if reply_to is not None:
                found = chat.messages[reply_to]
                message["reply_to_message"] = {key: found[key] for key in found if key != "reply_to_message"}
            if edited:
                message["edit_date"] = int(time.time())
            kind = "channel_post" if chat.type == "channel" else "message"
            if chat.type == "channel":
                message["sender_chat"] = chat.as_json()
                message.pop("from")
            stored = self._state.store_message(chat, {**message, **fields}, message_id)
            return self._push({f"edited_{kind}" if edited else kind: dict(stored)})

    def send_update(self, update: Mapping[str, Any]) -> int:
        """Queue any update, as it is; its id (given one when it has none)."""
        with self._state.lock:
            query = update.get("callback_query")
            if isinstance(query, Mapping):
                self._state.callbacks.add(str(query["id"]))
            return self._push(dict(update))

    def redeliver(self, update_id: int) -> None:
        """Deliver an update again although it was acknowledged, under the same id."""
        with self._state.lock:
            self._push(self._state.history[update_id])

    # what the bot did

    def messages(self, chat_id: int) -> list[dict[str, Any]]:
        """The bot's messages that stand in the chat, as edited, in order."""
        with self._state.lock:
            chat = self._state.chats.get(chat_id)
            mine = self._state.me["id"]
            return [
                dict(message)
                for _, message in sorted((chat.messages if chat else {}).items())
                if message.get("from", {}).get("id") == mine
            ]

    def texts(self, chat_id: int) -> list[str]:
        """The texts of :meth:`messages`."""
        return [message["text"] for message in self.messages(chat_id)]

    @property
    def calls(self) -> list[Call]:
        """Every request that reached the server, in order."""
        with self._state.lock:
            return list(self._state.calls)

    def calls_of(self, method: str) -> list[Call]:
        return [call for call in self.calls if call.method.lower() == method.lower()]

    @property
    def actions(self) -> list[tuple[int, int, str]]:
        """Chat actions shown so far: (chat id, thread id, action)."""
        with self._state.lock:
            return list(self._state.actions)

    @property
    def pending_updates(self) -> list[int]:
        """Ids of updates that no poller has acknowledged."""
        with self._state.lock:
            return [update["update_id"] for update in self._state.updates]

    @property
    def commands(self) -> dict[str, list[dict[str, Any]]]:
        with self._state.lock:
            return dict(self._state.commands)

    def wait_for(self, predicate: Callable[[], Any], timeout: float = 5.0) -> Any:
        """Wait until ``predicate()`` is true, checked after each change; what it returned.

        Blocks the thread: in a coroutine use :meth:`until`. Raises ``TimeoutError``.
        """
        deadline = time.monotonic() + timeout
        with self._state.changed:
            while not (result := predicate()):
                left = deadline - time.monotonic()
                if left <= 0:
                    raise TimeoutError(f"not so within {timeout:g} s; calls: {self._last_calls()}")
                self._state.changed.wait(min(left, 0.1))
            return result

    async def until(self, predicate: Callable[[], Any], timeout: float = 5.0) -> Any:
        """:meth:`wait_for` for coroutines."""
        return await asyncio.to_thread(self.wait_for, predicate, timeout)

    # faults

    def fail_next(
        self,
        method: str,
        status: int,
        description: str | None = None,
        *,
        retry_after: int | None = None,
        migrate_to_chat_id: int | None = None,
        chat_id: int | None = None,
        times: int = 1,
    ) -> None:
        """Refuse the next calls of ``method`` (in ``chat_id``, if given); nothing is stored."""
        parameters = {"retry_after": retry_after, "migrate_to_chat_id": migrate_to_chat_id}
        words = description or (
            f"Too Many Requests: retry after {retry_after}" if status == 429 else "Internal Server Error"
        )
        trouble = Trouble(
            status, words, **{key: value for key, value in parameters.items() if value is not None}
        )
        self._plan(method, Fault("fail", times, chat_id, trouble))

    def drop_after_storing(
        self, method: str = "sendMessage", *, chat_id: int | None = None, times: int = 1
    ) -> None:
        """Do what the call asks, then break the connection without an answer."""
        self._plan(method, Fault("drop_after", times, chat_id))

    def drop_before_storing(
        self, method: str = "sendMessage", *, chat_id: int | None = None, times: int = 1
    ) -> None:
        """Break the connection after the request was read; nothing is stored."""
        self._plan(method, Fault("drop_before", times, chat_id))

    def delay_next(self, method: str, seconds: float, *, chat_id: int | None = None, times: int = 1) -> None:
        """Answer the next calls of ``method`` only after ``seconds``; the message is stored at once."""
        self._plan(method, Fault("delay", times, chat_id, seconds=seconds))

    def offline(self) -> None:
        """Refuse connections and cut those that stand."""
        self._server.pause()

    def online(self) -> None:
        self._server.resume()

    def revoke_token(self, token: str) -> None:
        """From now on only ``token`` is right."""
        with self._state.lock:
            self._state.token = token

    # inside

    def _push(self, update: dict[str, Any]) -> int:
        update_id = self._state.push(update)
        self._server.loop.call_soon_threadsafe(self._service.wake)
        return update_id

    def _plan(self, method: str, fault: Fault) -> None:
        with self._state.lock:
            self._state.faults[method.lower()].append(fault)

    def _last_calls(self) -> str:
        last = [f"{call.method}:{call.status}" for call in self._state.calls if call.method != "getUpdates"]
        return ", ".join(last[-8:]) or "none"
