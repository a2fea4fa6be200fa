"""The magics: ``%rightlab``, ``%%ask``, ``%prompt`` (contract, "In a notebook"). They return rich objects."""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from IPython.core.error import UsageError as IPythonUsageError
from IPython.core.magic import Magics, cell_magic, line_magic, magics_class
from traitlets import Unicode

if TYPE_CHECKING:
    from rightlab.lab import Lab

__all__ = ["RightlabMagics"]

T = TypeVar("T")

ACTIONS = ("up", "down", "status", "logs", "doctor")
MODES = ("normal", "cron", "bootstrap_question", "bootstrap_final")


class _Text:
    """Lines of text with an HTML twin."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        import html

        text = "\n".join(self._lines) or "(nothing yet)"
        return {"text/plain": text, "text/html": f"<pre>{html.escape(text)}</pre>"}


@magics_class
class RightlabMagics(Magics):
    """``c.RightlabMagics.up`` names an agent that this kernel starts by itself (``rightlab up`` sets it)."""

    up = Unicode("", help="An agent to start when the extension loads.").tag(config=True)

    def __init__(self, shell: Any) -> None:
        super().__init__(shell)
        self._last: str | None = os.environ.get("RIGHTLAB_AGENT") or None

    @line_magic
    def rightlab(self, line: str) -> Any:
        """``%rightlab up|down|status|logs|doctor [AGENT]``"""
        words = line.split()
        if not words or words[0] not in ACTIONS or len(words) > 2:
            raise IPythonUsageError(f"%rightlab {'|'.join(ACTIONS)} [AGENT]")
        action, name = words[0], words[1] if len(words) == 2 else None
        return _one_line(lambda: self._act(action, self._lab(name)))

    @cell_magic
    def ask(self, line: str, cell: str) -> Any:
        """``%%ask [AGENT]``: the cell is the message; the turn comes back with its cost and its prompt."""
        words = line.split()
        if len(words) > 1:
            raise IPythonUsageError("%%ask [AGENT]: the message goes into the cell, under this line")
        name = words[0] if words else None
        return _one_line(lambda: self._lab(name).ask(cell.strip()))

    @line_magic
    def prompt(self, line: str) -> Any:
        """``%prompt [MODE]``: what the model is told, section by section."""
        words = line.split()
        if len(words) > 1 or (words and words[0] not in MODES):
            raise IPythonUsageError(f"%prompt [{'|'.join(MODES)}]")
        mode = words[0] if words else "normal"
        return _one_line(lambda: self._lab(None).prompt(mode))

    def _lab(self, name: str | None) -> "Lab":
        """The agent named now, else the one last named in this kernel, else the only one of the home."""
        from rightlab.lab import open as open_lab

        lab = open_lab(name or self._last)
        self._last = lab.name
        return lab

    def _act(self, action: str, lab: "Lab") -> Any:
        if action == "up":
            return lab.up(host="kernel")
        if action == "down":
            return lab.down()
        if action == "status":
            return lab.status()
        if action == "doctor":
            return lab.doctor()
        return _Text(lab.logs())


def _one_line(work: Callable[[], T]) -> T:
    """Run ``work``; an error of ours fails the cell with its one line instead of a traceback."""
    from rightlab.errors import RightlabError, system_failure

    try:
        return work()
    except RightlabError as error:
        raise IPythonUsageError(str(error)) from None
    except TimeoutError as error:
        raise IPythonUsageError(str(error)) from None
    except OSError as error:
        raise IPythonUsageError(str(system_failure(error))) from None
