"""``TelegramChannel``: the bot of one agent, on the loop that starts it (design 4, 7; spec agent-runtime
4).
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from datetime import datetime
from typing import Any, Literal

from telegram import LinkPreviewOptions, ReplyParameters, Update, User
from telegram.constants import ChatAction
from telegram.error import Conflict, Forbidden, InvalidToken, NetworkError, RetryAfter, TelegramError

from rightlab.clock import Clock, SystemClock, iso
from rightlab.content import Part
from rightlab.conversation import Archive, Inbox
from rightlab.errors import ChannelError, FencedOut
from rightlab.store import Store
from rightlab.telegram.client import Client
from rightlab.telegram.failures import one_line, seconds_of, send_failure
from rightlab.telegram.intake import Intake, well_formed
from rightlab.telegram.ports import OnConnected, OnMessage, Trust

__all__ = ["ConnectionState", "TelegramChannel"]

ConnectionState = Literal[
    "stopped", "starting", "connected", "offline", "conflict", "refused", "failing", "fenced"
]

_ALLOWED = (Update.MESSAGE, Update.EDITED_MESSAGE, Update.CHANNEL_POST, Update.EDITED_CHANNEL_POST)
_TYPING_SECONDS = 4.0
_OFFLINE_PAUSES = (0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0)
_CONFLICT_PAUSES = (2.0, 5.0, 15.0, 60.0, 300.0)
_REFUSED_PAUSE = 60.0

_TOKEN_REFUSED = "Telegram refuses the bot token"
_TOKEN_FIX = "Ask @BotFather for the token and put it into secrets.json as telegram_token, or in agent.yaml."
_TWO_POLLERS = (
    "another program fetches this bot's messages (one poller per token); stop it or use another bot"
)

_log = logging.getLogger(__name__)


class TelegramChannel:
    """Receives what is said to an agent's bot and sends what the agent says.

    An update is acknowledged only by the next poll, after its inbox row is committed; ``on_message`` gets
    each routed message after that commit. Works on any event loop in any thread; no signal handlers, no
    updater.
    """

    name = "telegram"

    def __init__(
        self,
        *,
        token: str,
        store: Store,
        inbox: Inbox,
        archive: Archive,
        allowlist: Callable[[], Trust],
        on_message: OnMessage,
        on_connected: OnConnected | None = None,
        api_base: str = "https://api.telegram.org",
        clock: Clock | None = None,
        poll_seconds: int = 30,
        offline_pauses: Sequence[float] = _OFFLINE_PAUSES,
        conflict_pauses: Sequence[float] = _CONFLICT_PAUSES,
    ) -> None:
        self._client = Client(token, api_base)
        self._intake = Intake(store, inbox, archive, allowlist)
        self._on_message = on_message
        self._on_connected = on_connected
        self._clock = clock or SystemClock()
        self._poll_seconds = poll_seconds
        self._offline_pauses = tuple(offline_pauses)
        self._conflict_pauses = tuple(conflict_pauses)
        self._me: User | None = None
        self._state: ConnectionState = "stopped"
        self._last_error: str | None = None
        self._last_update: datetime | None = None
        self._failures = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Connect and begin to poll. An unreachable server is no error: it is tried again.

        Raises :class:`ChannelError` when Telegram refuses the token.
        """
        if self._tasks:
            return
        self._state = "starting"
        await self._client.open_connections()
        try:
            await self._connect()
        except InvalidToken as error:
            self._state = "stopped"
            self._last_error = _TOKEN_REFUSED
            await self._client.close_connections()
            raise ChannelError(_TOKEN_REFUSED, fix=_TOKEN_FIX) from _without_token(error)
        except TelegramError as error:
            self._troubled("offline", f"Telegram is not reached: {one_line(error)}")
        self._spawn(self._run(), "rightlab-telegram-poll")

    async def stop(self) -> None:
        """Stop at once: the poll is cut, what it would have brought comes again."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._client.close_connections()
        if self._state != "fenced":
            self._state = "stopped"

    def status(self) -> dict[str, Any]:
        """``state``, ``connected``, ``username``, ``last_error`` (None while all is well),
        ``last_update`` (ISO).
        """
        return {
            "channel": self.name,
            "state": self._state,
            "connected": self._state == "connected",
            "username": None if self._me is None else self._me.username,
            "last_error": self._last_error,
            "last_update": None if self._last_update is None else iso(self._last_update),
        }

    def __repr__(self) -> str:
        return f"TelegramChannel({self._state})"

    async def send(self, chat_id: int, thread_id: int, part: Part, reply_to: int | None = None) -> int:
        """Send one part; the message id.

        Raises what :meth:`rightlab.conversation.Outbox.deliver` asks of a channel: :class:`SendRejected`,
        :class:`SendLater`, :class:`SendUncertain`.
        """
        try:
            message = await self._client.send_message(
                chat_id,
                part.text,
                message_thread_id=_thread(thread_id),
                reply_parameters=None
                if reply_to is None
                else ReplyParameters(message_id=reply_to, allow_sending_without_reply=True),
                link_preview_options=LinkPreviewOptions(is_disabled=True),
            )
        except TelegramError as error:
            raise send_failure(error) from None
        return message.message_id

    async def delete(self, chat_id: int, message_id: int) -> bool:
        """Delete a message (one that carried a credential); whether the server allowed it."""
        try:
            return await self._client.delete_message(chat_id, message_id)
        except TelegramError as error:
            _log.info("message %s could not be deleted: %s", message_id, one_line(error))
            return False

    @contextlib.asynccontextmanager
    async def typing(self, chat_id: int, thread_id: int = 0) -> AsyncIterator[None]:
        """Show "typing" in the chat while the block runs."""
        task = asyncio.create_task(self._type(chat_id, thread_id))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _type(self, chat_id: int, thread_id: int) -> None:
        while True:
            pause = _TYPING_SECONDS
            try:
                await self._client.send_chat_action(
                    chat_id, ChatAction.TYPING, message_thread_id=_thread(thread_id)
                )
            except RetryAfter as error:
                pause = max(pause, seconds_of(error))
            except (Forbidden, InvalidToken):
                return
            except TelegramError as error:
                _log.debug("typing is not shown: %s", one_line(error))
            await self._clock.sleep(pause)

    async def _connect(self) -> None:
        """Reach the server; the first time also take off an old webhook, which would bar the poll."""
        if self._me is None:
            await self._client.initialize()
            await self._client.delete_webhook()
        else:
            await self._client.get_me()
        self._me = self._client.bot
        self._connected()

    def _connected(self) -> None:
        self._failures = 0
        self._last_error = None
        if self._state == "connected":
            return
        self._state = "connected"
        if self._on_connected is not None:
            self._spawn(self._announce(self._on_connected), "rightlab-telegram-connected")

    async def _announce(self, on_connected: OnConnected) -> None:
        try:
            await on_connected()
        except Exception:
            _log.exception("what should happen after a connection did not")

    async def _run(self) -> None:
        offset: int | None = None
        caught_up = False
        while True:
            try:
                # Two pollers both reach the server: only a poll that was left alone ends a conflict.
                if self._state not in ("connected", "conflict"):
                    await self._connect()
                me = self._me
                assert me is not None
                if not caught_up:
                    left_over = await self._intake.left_over(self._client, me)
                    caught_up = True
                    for message in left_over:
                        await self._hand_on(message)
                answer = await self._client.raw_updates(
                    offset=offset, timeout=self._poll_seconds, allowed=_ALLOWED
                )
                self._connected()
                if not answer:
                    continue
                batch = well_formed(answer)
                if not batch:
                    # Nothing in it can be acknowledged, so the server sends it again at once.
                    await self._clock.sleep(self._offline_pauses[-1])
                    continue
                messages = await self._intake.take(batch, self._client, me)
                # Only now: the next poll acknowledges what is on disk.
                offset = max(raw["update_id"] for raw in batch) + 1
                self._last_update = self._clock.now()
                for message in messages:
                    await self._hand_on(message)
            except FencedOut as error:
                self._troubled("fenced", str(error))
                return
            except Exception as error:
                await self._clock.sleep(self._pause_after(error))

    async def _hand_on(self, message: Any) -> None:
        try:
            await self._on_message(message)
        except Exception:
            # Its row stays queued: the next start takes it up again.
            _log.exception("message %s was not taken", message.message_id)

    def _pause_after(self, error: Exception) -> float:
        """Write down what went wrong; the seconds until the next try."""
        step = self._failures
        if isinstance(error, Conflict):
            self._troubled("conflict", _TWO_POLLERS if "webhook" not in str(error) else one_line(error))
            return self._conflict_pauses[min(step, len(self._conflict_pauses) - 1)]
        if isinstance(error, InvalidToken):
            self._troubled("refused", f"{_TOKEN_REFUSED}. {_TOKEN_FIX}")
            return _REFUSED_PAUSE
        pause = self._offline_pauses[min(step, len(self._offline_pauses) - 1)]
        if isinstance(error, RetryAfter):
            self._troubled("offline", one_line(error))
            return seconds_of(error)
        if isinstance(error, NetworkError):
            self._troubled("offline", f"Telegram is not reached: {one_line(error)}")
            return pause
        self._troubled("failing", one_line(error))
        _log.error("receiving from Telegram failed", exc_info=error)
        return pause

    def _troubled(self, state: ConnectionState, error: str) -> None:
        if error != self._last_error:
            _log.warning("Telegram: %s", error)
        self._state = state
        self._last_error = error
        self._failures += 1

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _thread(thread_id: int) -> int | None:
    # The server refuses a message for General's own number (tdlib/telegram-bot-api#447).
    return thread_id if thread_id > 1 else None


def _without_token(error: TelegramError) -> ChannelError:
    # The library puts the whole token into its message.
    return ChannelError(one_line(error))
