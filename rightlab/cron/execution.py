"""Executing a notebook: the status machine on top of nbclient (spec jupyter 4.1, pains 11).

One execution runs all cells of a notebook in one kernel. Its status is ours: a dead kernel, a deadline, an
interrupt or ``sys.exit`` each end in a status that is true, and no later cell claims to have run.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from rightlab.claude import redact_secrets
from rightlab.cron.notebook_state import NotebookState
from rightlab.cron.saver import Saver
from rightlab.errors import RightlabError, UsageError

__all__ = ["Execution", "Outcome"]

_log = logging.getLogger(__name__)
GRACE_SECONDS = 10.0
"""How long an interrupted cell may take to end before its kernel is killed (jupyter 4.1(6))."""


@dataclass(frozen=True)
class Outcome:
    """How an execution ended: status success, failed or cancelled; ``failure`` classes it (see ``Run``)."""

    status: Literal["success", "failed", "cancelled"]
    failure: str | None = None
    reason: str | None = None
    failed_cell: int | None = None


class Execution:
    """One execution of ``nb`` (format 4, changed in place).

    ``run`` names the run (goes into ``metadata.rightlab``), ``write`` saves the notebook's bytes atomically
    (None: nowhere). ``on_output(output, index)`` sees each new output, ``on_cell(index)`` each cell that
    begins, ``on_kernel(kernel)`` the started process. ``prepare`` returns the notebook that is really executed;
    it is called while the kernel boots, so what it imports costs nothing.
    """

    def __init__(
        self,
        nb: Any,
        *,
        kernel_name: str = "python3",
        run: Mapping[str, Any] | None = None,
        write: Callable[[bytes], None] | None = None,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        own_python: bool = False,
        start_timeout: float = 60.0,
        cell_timeout: float | None = None,
        save_interval: float = 0.5,
        grace: float = GRACE_SECONDS,
        on_output: Callable[[Any, int], None] | None = None,
        on_cell: Callable[[int], None] | None = None,
        on_kernel: Callable[[Any], None] | None = None,
        prepare: Callable[[], Any] | None = None,
    ) -> None:
        self.nb = nb
        self._prepare = prepare
        self.state = NotebookState(nb, {"kernel": kernel_name, **(run or {})})
        self.outcome: Outcome | None = None
        self._kernel_name = kernel_name
        self._own_python = own_python
        self._cwd, self._env = cwd, env
        self._start_timeout, self._cell_timeout, self._grace = start_timeout, cell_timeout, grace
        self._saver = Saver(nb, write, interval=save_interval)
        self._on_output, self._on_cell, self._on_kernel = on_output, on_cell, on_kernel
        self.begun = False
        self._kernel: Any = None
        self._stop: tuple[Literal["cancelled", "timeout"], str] | None = None
        self._stopped = asyncio.Event()
        self._killer: asyncio.Task[None] | None = None

    def stop(self, why: Literal["cancelled", "timeout"], reason: str) -> None:
        """End early: interrupt the running cell, and kill the kernel if that does not help within the grace.

        To be called on the loop that runs the execution. The first call decides the status.
        """
        if self._stop is None and self.outcome is None:
            self._stop = (why, reason)
            self._stopped.set()
            self._killer = asyncio.ensure_future(self._interrupt_then_kill())

    async def run(self) -> Outcome:
        """Execute; returns how it ended. The notebook is saved a last time before this returns.

        Cancelling the task counts as :meth:`stop`; the cancellation is passed on once the notebook is saved.
        Raises what the last save raises (disk full).
        """
        cancelled: asyncio.CancelledError | None = None
        try:
            work = asyncio.ensure_future(self._work())
            while not work.done():
                try:
                    await asyncio.shield(work)
                except asyncio.CancelledError as error:
                    if work.cancelled():
                        raise
                    cancelled = error
                    self.stop("cancelled", "interrupted")
            outcome = work.result()
        finally:
            if self._killer is not None:
                self._killer.cancel()
            if self._kernel is not None:
                await self._kernel.close(now=self._stop is not None)
        self._begin()  # also a run whose kernel never came up leaves a true notebook
        self.outcome = outcome
        self.state.finish(
            outcome.status, reason=outcome.reason, failed_cell=outcome.failed_cell, failure=outcome.failure
        )
        await self._saver.close(self._final_bytes)
        if cancelled is not None:
            raise cancelled
        return outcome

    def _begin(self) -> None:
        if self.begun:
            return
        prepare, self._prepare = self._prepare, None
        if prepare is not None:
            self.nb = self.state.nb = self._saver.nb = prepare()
        self.begun = True
        self.state.begin()
        self._saver.start()
        self._saver.touch()

    def _final_bytes(self) -> bytes:
        import nbformat

        return (str(nbformat.writes(nbformat.from_dict(self.nb))) + "\n").encode("utf-8", "surrogatepass")

    async def _work(self) -> Outcome:
        try:
            client = await self._start()
        except UsageError as error:
            return Outcome("failed", "blocked", redact_secrets(str(error)))
        except RightlabError as error:
            return self._early() or Outcome("failed", "infrastructure", redact_secrets(str(error)))
        try:
            return await self._cells(client)
        finally:
            if client.kc is not None:
                client.set_widgets_metadata()

    async def _start(self) -> Any:
        from rightlab.cron.kernels import Kernel, KernelDied

        kernel = self._kernel = Kernel(self._kernel_name, own_python=self._own_python)
        await kernel.launch(cwd=self._cwd, env=self._env)
        if self._on_kernel is not None:
            self._on_kernel(kernel)
        # Imported while the kernel boots in its own process.
        from rightlab.cron.client import make_client

        self._begin()
        client = make_client(self.nb, kernel, self._heard, timeout=self._cell_timeout)
        ready = asyncio.ensure_future(kernel.connect(self._start_timeout))
        stopped = asyncio.ensure_future(self._stopped.wait())
        await asyncio.wait({ready, stopped}, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        if not ready.done():
            ready.cancel()
            raise KernelDied("stopped before the kernel was ready")
        client.attach(ready.result())
        if "language_info" in kernel.info:
            self.nb["metadata"]["language_info"] = kernel.info["language_info"]
        return client

    async def _cells(self, client: Any) -> Outcome:
        for index, cell in enumerate(self.nb["cells"]):
            early = self._early()
            if early is not None:
                return early
            if client.skips(cell):
                continue
            self.state.start_cell(index)
            if self._on_cell is not None:
                self._on_cell(index)
            self._saver.touch()
            outcome = await self._cell(client, cell, index)
            self._saver.touch()
            if outcome is not None:
                return outcome
        return self._early() or Outcome("success")

    async def _cell(self, client: Any, cell: Any, index: int) -> Outcome | None:
        """Run one cell; an outcome when the run ends with it."""
        from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

        try:
            await client.async_execute_cell(cell, index)
        except CellExecutionError as error:
            if self._stop is not None:
                return self._end(index, self._stopped_outcome(index))
            if error.ename == "SystemExit" and error.evalue in ("", "0", "None"):
                return self._exited(cell, index)
            reason = f"cell {index + 1}: {error.ename}: {error.evalue}".rstrip(": ")
            return self._end(index, Outcome("failed", "notebook", _line(reason), index))
        except CellTimeoutError:
            reason = f"cell {index + 1} took longer than {self._cell_timeout:g} s"
            _add_error(cell, "CellTimeoutError", reason)
            self._kernel.kill()
            return self._end(index, Outcome("failed", "timeout", reason, index))
        except DeadKernelError:
            if self._stop is not None:
                _add_error(cell, "KernelStopped", self._stop[1])
                return self._end(index, self._stopped_outcome(index))
            how = self._kernel.exit_words()
            reason = f"the kernel died in cell {index + 1} ({how})"
            _add_error(cell, "DeadKernelError", reason)
            return self._end(index, Outcome("failed", "infrastructure", reason, index))
        self.state.end_cell(index, "completed")
        if client.asked_exit:
            return Outcome("success", None, f"ended by exit() in cell {index + 1}")
        return None

    def _exited(self, cell: Any, index: int) -> Outcome:
        """``sys.exit(0)`` ends a notebook early on purpose: a success, and the rest did not run."""
        for output in cell["outputs"]:
            if output["output_type"] == "error" and output["evalue"] == "None":
                output["evalue"] = ""
        self.state.end_cell(index, "completed")
        return Outcome("success", None, f"ended by sys.exit() in cell {index + 1}")

    def _end(self, index: int, outcome: Outcome) -> Outcome:
        self.state.end_cell(index, "cancelled" if outcome.status == "cancelled" else "failed")
        return outcome

    def _early(self) -> Outcome | None:
        return None if self._stop is None else self._stopped_outcome(None)

    def _stopped_outcome(self, index: int | None) -> Outcome:
        assert self._stop is not None
        why, reason = self._stop
        if why == "timeout":
            return Outcome("failed", "timeout", reason, index)
        return Outcome("cancelled", "cancelled", reason, index)

    def _heard(self, output: Any, index: int) -> None:
        self._saver.touch()
        if output is not None and self._on_output is not None:
            self._on_output(output, index)

    async def _interrupt_then_kill(self) -> None:
        if self._kernel is not None and self._kernel.manager is not None:
            await self._kernel.interrupt()
            await asyncio.sleep(self._grace)
            self._kernel.kill()


def _add_error(cell: Any, name: str, message: str) -> None:
    from nbformat.v4 import new_output

    cell["outputs"].append(new_output("error", ename=name, evalue=message, traceback=[f"{name}: {message}"]))


def _line(text: str) -> str:
    line = " ".join(redact_secrets(text).split())
    return line if len(line) <= 300 else line[:299] + "…"
