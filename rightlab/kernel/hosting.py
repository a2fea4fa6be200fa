"""What this kernel hosts: started by a magic, by ``rightlab up``, or again after a restart."""

import os
import signal
import sys
import threading
from pathlib import Path

__all__ = ["bring_back", "stop_all"]


def stop_all() -> None:
    """Stop every agent of this kernel within 2 s. What was up stays remembered for the next start."""
    module = sys.modules.get("rightlab.runtime.host")
    if module is not None:
        module.down_all(1.9)


def bring_back(agent_name: str) -> None:
    """Start ``agent_name`` (``rightlab up`` gave it) or whatever this kernel ran before it was restarted.

    In a thread of its own: a kernel must answer at once, and a bot that cannot start must not break it.
    """
    if agent_name:
        threading.Thread(target=_host, args=(agent_name,), name="rightlab-up", daemon=True).start()
        return
    from rightlab.runtime.wanted import kernel_id, wanted_by

    name = kernel_id()
    if name is None:
        return
    home = Path(os.environ.get("RIGHTLAB_HOME") or Path.home() / ".rightlab")
    for wanted in wanted_by(home, name):
        threading.Thread(target=_again, args=(wanted,), name="rightlab-up", daemon=True).start()


def _again(agent_name: str) -> None:
    import logging

    from rightlab.lab import open as open_lab

    try:
        open_lab(agent_name).up(host="kernel")
    except Exception as error:  # a thread that raises would print into whatever cell runs
        logging.getLogger("rightlab").warning("%s did not come back after the restart: %s", agent_name, error)


def _host(agent_name: str) -> None:
    """The life of a headless kernel: its agent is up, or it ends and says why in the run folder."""
    from rightlab.home.writers import atomic_write
    from rightlab.lab import open as open_lab
    from rightlab.runtime.headless import failure_file
    from rightlab.runtime.host import HEADLESS, local
    from rightlab.runtime.thread import host_thread

    lab = open_lab(agent_name)
    try:
        lab.up(host=HEADLESS)
    except BaseException as error:
        failure = failure_file(lab.agent, os.getpid())
        atomic_write(failure, str(error) or type(error).__name__, mode=0o600)
        os.kill(os.getpid(), signal.SIGTERM)
        return
    runtime = local(lab.agent)
    if runtime is not None:
        host_thread().submit(runtime.wait_closed()).result()
    # Everything of the agent is closed and on disk by now; a headless kernel has nothing else to do.
    os.kill(os.getpid(), signal.SIGTERM)
