"""Telegram as a channel: routing, durable intake, delivery.

python-telegram-bot is loaded with the first name that needs it.
"""

from typing import TYPE_CHECKING

from rightlab.content import RichContent, split_text
from rightlab.lazy import lazy_exports

if TYPE_CHECKING:
    from rightlab.telegram.channel import TelegramChannel
    from rightlab.telegram.check import bot_username
    from rightlab.telegram.ports import Group, OnConnected, OnMessage, Trust

__all__ = [
    "Group",
    "OnConnected",
    "OnMessage",
    "RichContent",
    "TelegramChannel",
    "Trust",
    "bot_username",
    "split_text",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "channel": ("TelegramChannel",),
        "check": ("bot_username",),
        "ports": ("Group", "OnConnected", "OnMessage", "Trust"),
    },
)
