"""Who executes a run: a claim that only one process can make, and processes named by pid *and* start time.

The claim is a hard link, which the file system lets exactly one process create. A run whose claim was made is
never executed by another, however late that one starts (pains OC#42640, OC PR#12018).
"""

import json
import os
import socket
from importlib import import_module
from pathlib import Path
from typing import Any

from rightlab.home.writers import atomic_write, remove

__all__ = ["SOCKET_PREFIX", "claim_run", "is_alive", "process_started", "read_claim"]

_NAME = "claim.json"
SOCKET_PREFIX = "rightlab-kernel-"
"""Begin of the name of the temporary folder that holds one kernel's sockets."""


def claim_run(run_dir: Path, by: str) -> bool:
    """Claim the run of ``run_dir`` for this process; False when somebody has claimed it already.

    ``by`` is ``runjob`` (it will execute) or ``scheduler`` (it declares the run lost).
    """
    mine = run_dir / f"claim-{os.getpid()}-{by}.json"
    owner = {
        "by": by,
        "pid": os.getpid(),
        "started": process_started(os.getpid()),
        "host": socket.gethostname(),
    }
    atomic_write(mine, json.dumps(owner) + "\n", mode=0o600)
    try:
        os.link(mine, run_dir / _NAME)
    except FileExistsError:
        return False
    finally:
        remove(mine)
    return True


def read_claim(run_dir: Path) -> dict[str, Any] | None:
    """Who claimed the run: ``{"by", "pid", "started", "host"}``; None when nobody has."""
    try:
        found = json.loads((run_dir / _NAME).read_bytes())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


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
