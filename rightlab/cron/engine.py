"""The papermill engine ``rightlab``: ``papermill --engine rightlab in.ipynb out.ipynb`` (contract).

Papermill loads this module while it is itself half imported, so nothing of papermill is imported here before a
notebook is executed.
"""

import asyncio
import contextlib
import json
import logging
import os
import signal
import sys
import threading
import uuid
from collections.abc import Callable, Coroutine
from importlib import import_module
from pathlib import Path
from typing import Any, TextIO

from rightlab.cron.execution import Execution, Outcome
from rightlab.errors import RunError
from rightlab.home.writers import atomic_write

__all__ = ["AtomicOutput", "RightlabEngine"]

_log = logging.getLogger("papermill")
_MARKER = b"papermill-error-cell-tag"


class RightlabEngine:
    """Executes a notebook for papermill with our status, kernels without TCP, and saves that cannot tear.

    It has the interface of ``papermill.engines.Engine``. Works without any home.
    """

    @classmethod
    def execute_notebook(
        cls,
        nb: Any,
        kernel_name: str,
        output_path: str | None = None,
        progress_bar: bool | dict[str, Any] = True,
        log_output: bool = False,
        autosave_cell_every: float = 30,
        *,
        input_path: str | None = None,
        start_timeout: float = 60,
        stdout_file: TextIO | None = None,
        stderr_file: TextIO | None = None,
        execution_timeout: float | None = None,
        run: dict[str, Any] | None = None,
        **unused: Any,
    ) -> Any:
        """Execute ``nb`` (already parametrised) and return it.

        An error in a cell, a dead kernel and a cell over ``execution_timeout`` seconds are left in the
        notebook's outputs, from where papermill raises; a kernel that never came up raises :class:`RunError`,
        SIGINT and SIGTERM end in a saved notebook and then as themselves.
        """
        where = output_path or nb.metadata.get("papermill", {}).get("output_path")
        output = AtomicOutput.install(where)
        bar = _progress(progress_bar, len(nb.cells))

        def on_output(message: Any, index: int) -> None:
            _forward(message, log_output, stdout_file, stderr_file)

        def on_cell(index: int) -> None:
            if bar is not None:
                bar.update(index - bar.n)

        execution: list[Execution] = []

        async def work() -> Outcome:
            execution.append(
                Execution(
                    nb,
                    kernel_name=kernel_name,
                    run={"run_id": uuid.uuid4().hex, **(run or {})},
                    write=_writer(output, output_path),
                    start_timeout=start_timeout,
                    cell_timeout=execution_timeout,
                    save_interval=0.5 if output is not None else max(1.0, float(autosave_cell_every)),
                    on_output=on_output,
                    on_cell=on_cell,
                )
            )
            return await execution[0].run()

        caught: list[signal.Signals] = []
        try:
            outcome = _run(work, lambda name: _stop(execution, name), caught)
        finally:
            if bar is not None:
                bar.close()
        if caught:
            if caught[0] == signal.SIGINT:
                raise KeyboardInterrupt
            raise SystemExit(128 + caught[0])
        if outcome.status != "success" and outcome.failed_cell is None:
            raise RunError(outcome.reason or "the notebook did not run")
        return nb

    @classmethod
    def nb_kernel_name(cls, nb: Any, name: str | None = None) -> str:
        """The kernel a notebook asks for, as papermill finds it."""
        from papermill.utils import nb_kernel_name

        return str(nb_kernel_name(nb, name))

    @classmethod
    def nb_language(cls, nb: Any, language: str | None = None) -> str:
        """The language of a notebook, as papermill finds it."""
        from papermill.utils import nb_language

        return str(nb_language(nb, language))


class AtomicOutput:
    """Papermill's reader and writer for one local output path: replaces the file, never tears it.

    Papermill ignores a second handler named "local" (jupyter 4.1(5)), so this one is registered for the exact
    path of the output.
    """

    _installed: dict[str, "AtomicOutput"] = {}  # noqa: RUF012  # one table for the process, as papermill's own

    def __init__(self, target: Path) -> None:
        self.target = target

    @classmethod
    def install(cls, path: str | None) -> "AtomicOutput | None":
        """Register for ``path``; None when it is not a local file (or none at all)."""
        if not path or not isinstance(path, str) or path == "-":
            return None
        from papermill.iorw import LocalHandler, papermill_io

        handler = papermill_io.get_handler(path)
        if not isinstance(handler, LocalHandler | AtomicOutput):
            return None
        local = papermill_io.get_handler("local")
        base = local.cwd(None)  # papermill has changed the folder by now; this is where it came from
        local.cwd(base)
        target = Path(base or os.getcwd(), path)
        if path in cls._installed:
            cls._installed[path].target = target
        else:
            cls._installed[path] = cls(target)
            papermill_io.register(path, cls._installed[path])
        return cls._installed[path]

    def read(self, path: str) -> str:
        return self._at(path).read_text(encoding="utf-8")

    def write(self, buf: str | bytes, path: str) -> None:
        target = self._at(path)
        if not target.parent.is_dir():
            raise FileNotFoundError(f"output folder {target.parent} doesn't exist.")
        data = buf if isinstance(buf, bytes) else buf.encode("utf-8", "surrogatepass")
        atomic_write(target, _with_status(data) if _MARKER in data else data)

    def listdir(self, path: str) -> list[str]:
        return [os.path.join(path, name) for name in os.listdir(self._at(path))]

    def pretty_path(self, path: str) -> str:
        return path

    def _at(self, path: str) -> Path:
        # Handlers match by prefix, so another file whose path begins like ours may end up here.
        own = next((key for key, value in self._installed.items() if value is self), path)
        return self.target if path == own else Path(path)


def _with_status(data: bytes) -> bytes:
    """Give the notes that papermill puts around a failed cell a status too, so that every cell has one."""
    nb = json.loads(data)
    for cell in nb["cells"]:
        cell["metadata"].setdefault("papermill", {}).setdefault("status", "completed")
    return json.dumps(nb, indent=1, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n"


def _writer(output: AtomicOutput | None, path: str | None) -> Callable[[bytes], None] | None:
    if path is None:
        return None
    if output is not None:
        return lambda data: output.write(data, path)
    if path == "-":
        return None
    from papermill.iorw import papermill_io

    return lambda data: papermill_io.write(data.decode("utf-8", "surrogatepass"), path)


def _progress(wanted: bool | dict[str, Any], cells: int) -> Any:
    if not wanted or not sys.stderr.isatty():  # a bar in a log file is one line per tick (papermill#765)
        return None
    tqdm = import_module("tqdm.auto").tqdm

    options = wanted if isinstance(wanted, dict) else {}
    return tqdm(**{"total": cells, "unit": "cell", "desc": "Executing", **options})


def _forward(output: Any, log_output: bool, out: TextIO | None, err: TextIO | None) -> None:
    if output["output_type"] == "stream":
        text, stream = "".join(output["text"]), out if output["name"] == "stdout" else err
        if log_output:
            _log.log(logging.INFO if output["name"] == "stdout" else logging.WARNING, text.rstrip("\n"))
        if stream is not None:
            stream.write(text)
            stream.flush()
    elif log_output and "text/plain" in output.get("data", {}):
        _log.info("".join(output["data"]["text/plain"]))


def _stop(execution: list[Execution], name: str) -> None:
    if execution:
        execution[0].stop("cancelled", f"stopped by {name}")


def _run(
    work: Callable[[], Coroutine[Any, Any, Outcome]],
    stop: Callable[[str], None],
    caught: list[signal.Signals],
) -> Outcome:
    """Run ``work`` on a loop of its own, whatever loop this thread may be running; signals end it gently."""

    # asyncio.run puts a handler of its own in front of the default one, so who owns the signals is asked now.
    ours = [
        number
        for number in (signal.SIGINT, signal.SIGTERM)
        if threading.current_thread() is threading.main_thread()
        and signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler)
    ]

    async def with_signals() -> Outcome:
        loop = asyncio.get_running_loop()

        def on_signal(number: signal.Signals) -> None:
            caught.append(number)
            stop(number.name)

        watched = []
        for number in ours:
            with contextlib.suppress(NotImplementedError, RuntimeError):
                loop.add_signal_handler(number, on_signal, number)
                watched.append(number)
        try:
            return await work()
        finally:
            for number in watched:
                loop.remove_signal_handler(number)

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(with_signals())
    ours.clear()
    return _run_in_thread(with_signals, stop)


def _run_in_thread(work: Callable[[], Coroutine[Any, Any, Outcome]], stop: Callable[[str], None]) -> Outcome:
    """For callers inside a running loop (papermill used from a notebook)."""
    result: list[Outcome | BaseException] = []
    loops: list[asyncio.AbstractEventLoop] = []

    async def body() -> Outcome:
        loops.append(asyncio.get_running_loop())
        return await work()

    def target() -> None:
        try:
            result.append(asyncio.run(body()))
        except BaseException as error:
            result.append(error)

    thread = threading.Thread(target=target, name="rightlab-engine", daemon=True)
    thread.start()
    try:
        thread.join()
    except KeyboardInterrupt:
        if loops:
            loops[0].call_soon_threadsafe(stop, "an interrupt")
        thread.join()
        raise
    if isinstance(result[0], BaseException):
        raise result[0]
    return result[0]
