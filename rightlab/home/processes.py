"""Processes named by pid *and* start time, so that a number used again is never taken for the process it was."""

from importlib import import_module
from pathlib import Path

__all__ = ["is_alive", "process_started"]


def process_started(pid: int) -> str | None:
    """When a process began, as text that no other process of this machine ever shares with its pid; None when
    there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None if Path("/proc/self").exists() else _started_elsewhere(pid)
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    if fields[0] in ("Z", "X"):  # ended, only not reaped yet
        return None
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return f"{boot[:8]}:{fields[19]}"


def _started_elsewhere(pid: int) -> str | None:
    psutil = import_module("psutil")  # comes with ipykernel
    try:
        return f"{psutil.Process(pid).create_time():.2f}"
    except psutil.Error:
        return None


def is_alive(pid: int | None, started: str | None) -> bool:
    """Whether the very process is still running, and not another one that got its pid."""
    return pid is not None and started is not None and process_started(pid) == started
