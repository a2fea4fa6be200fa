"""``rightlab run``: the runtime in the foreground, without IPython (design 7, spec jupyter 3.5)."""

import os
import signal
import socket
import threading
from collections.abc import Callable

from rightlab.home import AgentHome
from rightlab.runtime import host
from rightlab.runtime.thread import host_thread

__all__ = ["serve"]


def serve(agent: AgentHome, *, announce: Callable[[str], None]) -> None:
    """Own ``agent`` until SIGTERM, SIGINT or ``rightlab down``. Tells systemd when it is ready, where there is one."""
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    runtime = host.up(agent, host="foreground")
    announce(
        f"{agent.name} is up (process {os.getpid()}); stop it with Ctrl-C or `rightlab down {agent.name}`"
    )
    _notify("READY=1")
    closed = host_thread().submit(runtime.wait_closed())
    closed.add_done_callback(lambda _: ended.set())
    while not ended.wait(1.0):
        pass
    _notify("STOPPING=1")
    host.down_all(timeout=10)
    announce(f"{agent.name} is down")


def _notify(state: str) -> None:
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.sendto(state.encode(), address)
