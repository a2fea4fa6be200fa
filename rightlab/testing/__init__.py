"""Stand-ins for what is outside the machine, for your own tests (design 3).

Each is as strict as the original: a Messages API (:class:`ScriptedModel`), a Claude transport without the CLI
(:class:`ScriptedTransport`), a Telegram Bot API (:class:`BotApi`) and the clock (:class:`FrozenClock`).
"""

from typing import TYPE_CHECKING

from rightlab.lazy import lazy_exports

if TYPE_CHECKING:
    from rightlab.testing.botapi import BotApi
    from rightlab.testing.frozen_clock import FrozenClock
    from rightlab.testing.scripted_model import ScriptedModel
    from rightlab.testing.scripted_transport import ScriptedTransport

__all__ = ["BotApi", "FrozenClock", "ScriptedModel", "ScriptedTransport"]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "botapi": ("BotApi",),
        "frozen_clock": ("FrozenClock",),
        "scripted_model": ("ScriptedModel",),
        "scripted_transport": ("ScriptedTransport",),
    },
)
