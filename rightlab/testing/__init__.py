"""Stand-ins for what is outside the machine, for your own tests (design 3).

Each is as strict as the original: a Messages API (:class:`ScriptedModel`), a Claude transport without the CLI
(:class:`ScriptedTransport`), a Telegram Bot API (:class:`BotApi`) and the clock (:class:`FrozenClock`).
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rightlab.testing.botapi import BotApi
    from rightlab.testing.frozen_clock import FrozenClock
    from rightlab.testing.scripted_model import ScriptedModel
    from rightlab.testing.scripted_transport import ScriptedTransport

__all__ = ["BotApi", "FrozenClock", "ScriptedModel", "ScriptedTransport"]

_HOMES = {
    "BotApi": "rightlab.testing.botapi",
    "FrozenClock": "rightlab.testing.frozen_clock",
    "ScriptedModel": "rightlab.testing.scripted_model",
    "ScriptedTransport": "rightlab.testing.scripted_transport",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'rightlab.testing' has no attribute {name!r}")
