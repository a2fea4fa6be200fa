"""Telegram as a channel: routing, durable intake, delivery.

python-telegram-bot is loaded with the first name that needs it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rightlab.content import RichContent, split_text

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

_HOMES = {
    "TelegramChannel": "rightlab.telegram.channel",
    "bot_username": "rightlab.telegram.check",
    "Group": "rightlab.telegram.ports",
    "OnConnected": "rightlab.telegram.ports",
    "OnMessage": "rightlab.telegram.ports",
    "Trust": "rightlab.telegram.ports",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'rightlab.telegram' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
