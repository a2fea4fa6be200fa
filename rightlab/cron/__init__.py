"""Crons: schedules, slots, the papermill engine, runs (design 9). Names are loaded on first use."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rightlab.cron.engine import RightlabEngine
    from rightlab.cron.jobs import DEFAULT_BUDGET_USD, Job, JobStore, peak_minute_warning
    from rightlab.cron.launcher import Launcher, RunHandle, RunSpec, SubprocessLauncher, run_environment
    from rightlab.cron.outputs import Outputs, deliver, read_outputs, result, silent
    from rightlab.cron.runs import Run, Slot
    from rightlab.cron.schedule import Schedule, explain, next_fires, parse_schedule, zone
    from rightlab.cron.scheduler import DeliverPort, DeliveryResult, Scheduler, Target

__all__ = [
    "DEFAULT_BUDGET_USD",
    "DeliverPort",
    "DeliveryResult",
    "Job",
    "JobStore",
    "Launcher",
    "Outputs",
    "RightlabEngine",
    "Run",
    "RunHandle",
    "RunSpec",
    "Schedule",
    "Scheduler",
    "Slot",
    "SubprocessLauncher",
    "Target",
    "deliver",
    "explain",
    "next_fires",
    "parse_schedule",
    "peak_minute_warning",
    "read_outputs",
    "result",
    "run_environment",
    "silent",
    "zone",
]

_HOMES = {
    **dict.fromkeys(("Schedule", "explain", "next_fires", "parse_schedule", "zone"), "schedule"),
    **dict.fromkeys(("DEFAULT_BUDGET_USD", "Job", "JobStore", "peak_minute_warning"), "jobs"),
    **dict.fromkeys(
        ("Launcher", "RunHandle", "RunSpec", "SubprocessLauncher", "run_environment"), "launcher"
    ),
    **dict.fromkeys(("Outputs", "deliver", "read_outputs", "result", "silent"), "outputs"),
    **dict.fromkeys(("DeliverPort", "DeliveryResult", "Scheduler", "Target"), "scheduler"),
    **dict.fromkeys(("Run", "Slot"), "runs"),
    "RightlabEngine": "engine",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(import_module(f"rightlab.cron.{_HOMES[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'rightlab.cron' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
