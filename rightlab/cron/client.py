"""nbclient's notebook client, told what we need to know. Loaded only where a notebook runs."""

import functools
import time
from collections.abc import Awaitable, Callable
from queue import Empty
from typing import Any

from nbclient import NotebookClient

from rightlab.claude import redact_secrets

__all__ = ["Client", "make_client", "sliced"]

_IOPUB_SECONDS = 120  # a cell that floods its output is slow, not broken (papermill#426)
_SLICE_SECONDS = 0.5


def sliced(
    get_msg: Callable[..., Awaitable[Any]], seconds: float = _SLICE_SECONDS
) -> Callable[..., Awaitable[Any]]:
    """``get_msg(timeout)`` of a channel, waiting in slices of at most ``seconds``.

    An Output widget answers the kernel on the shell socket while its reply is being waited for. Sending goes
    through a shadow of the socket, which takes the one wake-up that the waiting side would have had: a wait
    without end then never sees a reply that lies there. Each slice looks again. Raises ``queue.Empty`` once
    ``timeout`` (seconds; None: never) is over.
    """

    @functools.wraps(get_msg)
    async def wait(timeout: float | None = None) -> Any:
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            left = seconds if end is None else max(0.0, end - time.monotonic())
            try:
                return await get_msg(timeout=min(seconds, left))
            except Empty:
                if end is not None and time.monotonic() >= end:
                    raise

    return wait


class Client(NotebookClient):
    """Executes cells in a kernel that somebody else starts and ends."""

    def attach(self, kc: Any) -> None:
        """Use ``kc``, the client of a kernel that is ready."""
        kc.shell_channel.get_msg = sliced(kc.shell_channel.get_msg)
        self.kc = kc

    def watch(self, heard: Callable[[Any, int], None]) -> None:
        self._heard = heard
        self.asked_exit = False
        self.on_cell_executed = self._executed

    def skips(self, cell: Any) -> bool:
        """Whether the notebook's author excluded the cell from execution."""
        return self.skip_cells_with_tag in cell["metadata"].get("tags", [])

    def process_message(self, msg: Any, cell: Any, cell_index: int) -> Any:
        if msg["msg_type"] == "error":
            # Here, before anything is kept: a save may follow at once, and an Output widget keeps a copy.
            _redact(msg["content"])
        output = super().process_message(msg, cell, cell_index)
        self._heard(output, cell_index)
        return output

    def _executed(self, *, cell: Any, cell_index: int, execute_reply: Any) -> None:
        # exit() and quit() raise nothing: the kernel announces that it will end.
        payload = execute_reply["content"].get("payload") or ()
        self.asked_exit = any(item.get("source") == "ask_exit" for item in payload)


def _redact(error: dict[str, Any]) -> None:
    """Take credentials out of the content of an error message."""
    error["evalue"] = redact_secrets(str(error.get("evalue", "")))
    error["traceback"] = [redact_secrets(str(line)) for line in error.get("traceback") or ()]


def make_client(nb: Any, kernel: Any, heard: Callable[[Any, int], None], timeout: float | None) -> Client:
    """A client for ``kernel`` (its manager; :meth:`Client.attach` follows once connected)."""
    client = Client(
        nb,
        km=kernel.manager,
        timeout=None if timeout is None else max(1, round(timeout)),
        iopub_timeout=_IOPUB_SECONDS,
        raise_on_iopub_timeout=True,
        allow_errors=False,
        store_widget_state=True,
    )
    client.reset_execution_trackers()
    client.watch(heard)
    return client
