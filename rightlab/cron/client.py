"""nbclient's notebook client, told what we need to know. Loaded only where a notebook runs."""

from collections.abc import Callable
from typing import Any

from nbclient import NotebookClient

__all__ = ["Client", "make_client"]

_IOPUB_SECONDS = 120  # a cell that floods its output is slow, not broken (papermill#426)


class Client(NotebookClient):
    """Executes cells in a kernel that somebody else starts and ends."""

    def watch(self, heard: Callable[[Any, int], None]) -> None:
        self._heard = heard
        self.asked_exit = False
        self.on_cell_executed = self._executed

    def skips(self, cell: Any) -> bool:
        """Whether the notebook's author excluded the cell from execution."""
        return self.skip_cells_with_tag in cell["metadata"].get("tags", [])

    def process_message(self, msg: Any, cell: Any, cell_index: int) -> Any:
        output = super().process_message(msg, cell, cell_index)
        self._heard(output, cell_index)
        return output

    def _executed(self, *, cell: Any, cell_index: int, execute_reply: Any) -> None:
        # exit() and quit() raise nothing: the kernel announces that it will end.
        payload = execute_reply["content"].get("payload") or ()
        self.asked_exit = any(item.get("source") == "ask_exit" for item in payload)


def make_client(nb: Any, kernel: Any, heard: Callable[[Any, int], None], timeout: float | None) -> Client:
    """A client for ``kernel`` (its manager; ``kc`` is set once connected)."""
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
