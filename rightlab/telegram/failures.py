"""Telegram's and the network's refusals, as what they mean for a message; and the bot token kept out of
sight.
"""

import logging
from datetime import timedelta

import httpx
from telegram.error import (
    BadRequest,
    ChatMigrated,
    Conflict,
    Forbidden,
    InvalidToken,
    NetworkError,
    RetryAfter,
    TelegramError,
    TimedOut,
)

from rightlab.conversation import SendLater, SendRejected, SendUncertain

__all__ = [
    "LONGEST_WAIT",
    "TokenFilter",
    "hide_token",
    "never_left",
    "one_line",
    "redacted",
    "seconds_of",
    "send_failure",
]

LONGEST_WAIT = 7 * 86_400.0
"""Seconds. What a server asks for beyond this is a mistake, not a wait."""

_secrets: set[str] = set()
_LOGGERS = (
    "httpx",
    "httpcore.connection",
    "httpcore.http11",
    "httpcore.http2",
    "httpcore.proxy",
    "httpcore.socks",
    "telegram.Bot",
    "telegram.request.BaseRequest",
    "telegram.request.HTTPXRequest",
)

# What is said of the chat or topic as a whole: no other part can fare better.
_WHOLE = ("chat not found", "thread not found", "topic_deleted", "topic_closed", "not enough rights")

# The request had not left this machine, so nothing can be stored.
_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError)


class TokenFilter(logging.Filter):
    """Takes bot tokens out of log records: httpx logs each request's URL, and Telegram's URLs hold the
    token.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        clean = redacted(text)
        if clean != text:
            record.msg, record.args = clean, ()
        return True


_filter = TokenFilter()


def hide_token(token: str) -> None:
    """From now on ``token`` is taken out of errors and of what the HTTP client and python-telegram-bot
    log.
    """
    _secrets.add(token)
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_filter)


def redacted(text: str) -> str:
    """``text`` without any bot token in use."""
    for token in tuple(_secrets):
        text = text.replace(token, "<bot token>")
    return text


def one_line(error: BaseException) -> str:
    """An error as one line without a token."""
    text = str(error) or type(error).__name__
    return redacted(" ".join(text.split()))


def seconds_of(error: RetryAfter) -> float:
    """The server's wait in seconds, a week at most."""
    wait = error.retry_after
    seconds = wait.total_seconds() if isinstance(wait, timedelta) else float(wait)
    return min(max(seconds, 0.0), LONGEST_WAIT)


def never_left(error: BaseException) -> bool:
    """True when the request certainly did not reach the server."""
    return isinstance(error.__cause__, _NOT_SENT)


def send_failure(error: TelegramError) -> SendLater | SendRejected | SendUncertain:
    """What a failed send means for its message."""
    text = one_line(error)
    if isinstance(error, RetryAfter):
        return SendLater(text, seconds_of(error))
    if isinstance(error, Forbidden):
        return SendRejected(text, whole=True)
    if isinstance(error, ChatMigrated):
        return SendRejected(
            f"the group became a supergroup with the id {error.new_chat_id}",
            whole=True,
            fix=f"Open the new group: /allow_all there, or `rightlab agent allow` {error.new_chat_id}.",
        )
    if isinstance(error, BadRequest):
        return SendRejected(text, whole=any(word in text.lower() for word in _WHOLE))
    if isinstance(error, InvalidToken):
        return SendLater("Telegram refuses the bot token")
    if isinstance(error, Conflict):
        return SendRejected(text)
    if never_left(error):
        return SendLater(f"Telegram is not reached ({_cause(error)})")
    if isinstance(error, TimedOut):
        return SendUncertain("Telegram did not answer in time; the message may have arrived")
    if isinstance(error, NetworkError):
        return SendUncertain(f"the connection broke ({_cause(error)}); the message may have arrived")
    return SendUncertain(f"an answer that cannot be read ({text}); the message may have arrived")


def _cause(error: TelegramError) -> str:
    return type(error.__cause__).__name__ if error.__cause__ is not None else one_line(error)
