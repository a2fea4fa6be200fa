"""Who executes a run: a claim that only one process can make.

The claim is a hard link, which the file system lets exactly one process create. A run whose claim was made is
never executed by another, however late that one starts (pains OC#42640, OC PR#12018).
"""

import json
import os
import socket
from pathlib import Path
from typing import Any

from rightlab.home.processes import process_started
from rightlab.home.writers import atomic_write, remove

__all__ = ["SOCKET_PREFIX", "claim_run", "read_claim"]

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
