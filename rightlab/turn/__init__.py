"""The turn: from a batch of messages to the one reply, whatever the channel (design 4)."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

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

_HOMES = {
    "Batcher": "batcher",
    "CallScope": "ports",
    "Channel": "ports",
    "CronTurn": "cron_turn",
    "CronTurns": "cron_turn",
    "Deliverer": "delivery",
    "GuestFolder": "invoke",
    "InvocationPlan": "invoke",
    "Invoker": "invoke",
    "Outcome": "invoke",
    "PromptContext": "ports",
    "ScopeLocks": "locks",
    "ToolAccess": "ports",
    "Turn": "model",
    "TurnRecords": "records",
    "TurnRunner": "runner",
    "TurnSettings": "runner",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(import_module(f"rightlab.turn.{_HOMES[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'rightlab.turn' has no attribute {name!r}")
