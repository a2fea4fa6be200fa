"""Crons: schedules, slots, the papermill engine, runs (design 9)."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rightlab.cron.schedule import Schedule, explain, next_fires, parse_schedule, zone

__all__ = ["Schedule", "explain", "next_fires", "parse_schedule", "zone"]

_HOMES = {
    "Schedule": "schedule",
    "explain": "schedule",
    "next_fires": "schedule",
    "parse_schedule": "schedule",
    "zone": "schedule",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(import_module(f"rightlab.cron.{_HOMES[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'rightlab.cron' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
