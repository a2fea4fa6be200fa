"""The turn: from a batch of messages to the one reply, whatever the channel (design 4)."""

from typing import TYPE_CHECKING

from rightlab.lazy import lazy_exports

if TYPE_CHECKING:
    from rightlab.turn.batcher import Batcher
    from rightlab.turn.cron_turn import CronTurn, CronTurns
    from rightlab.turn.delivery import Deliverer
    from rightlab.turn.invoke import GuestFolder, InvocationPlan, Invoker, Outcome
    from rightlab.turn.locks import ScopeLocks
    from rightlab.turn.model import Turn
    from rightlab.turn.ports import CallScope, Channel, PromptContext, ToolAccess
    from rightlab.turn.records import TurnRecords
    from rightlab.turn.runner import TurnRunner, TurnSettings

__all__ = [
    "Batcher",
    "CallScope",
    "Channel",
    "CronTurn",
    "CronTurns",
    "Deliverer",
    "GuestFolder",
    "InvocationPlan",
    "Invoker",
    "Outcome",
    "PromptContext",
    "ScopeLocks",
    "ToolAccess",
    "Turn",
    "TurnRecords",
    "TurnRunner",
    "TurnSettings",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "batcher": ("Batcher",),
        "ports": ("CallScope", "Channel", "PromptContext", "ToolAccess"),
        "cron_turn": ("CronTurn", "CronTurns"),
        "delivery": ("Deliverer",),
        "invoke": ("GuestFolder", "InvocationPlan", "Invoker", "Outcome"),
        "locks": ("ScopeLocks",),
        "model": ("Turn",),
        "records": ("TurnRecords",),
        "runner": ("TurnRunner", "TurnSettings"),
    },
)
