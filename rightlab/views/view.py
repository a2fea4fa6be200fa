"""The base of every live view: a plain object with a page, kept current in a notebook.

A view is no widget but has one (``.widget``), so that it shows as three forms at once: the live widget, static HTML
for untrusted files and exports, text for terminals (design 11).
"""

import json
import threading
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Protocol, runtime_checkable

import ipywidgets

from rightlab.errors import RightlabError
from rightlab.html import Block, Note, Page, Stack, mimebundle
from rightlab.views.style import STYLE
from rightlab.views.throttle import HERTZ, Throttle

__all__ = ["STATE_LIMIT", "HasPage", "View", "close_all"]

STATE_LIMIT = 100_000
"""Bytes of state one view may have (design 11)."""

BODY_LIMIT = 60_000
"""Bytes of them for what is shown; JSON escaping, controls and the style sheet need the rest."""

MOST_OPEN = 64
"""Views kept live in one kernel; the oldest closes when more are opened, since ipywidgets never frees one by itself."""

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"

_open: dict[int, "View"] = {}
_open_lock = threading.Lock()


@runtime_checkable
class HasPage(Protocol):
    """What a view can show besides a block: anything with a page."""

    def page(self) -> Page: ...


class View:
    """Shows what ``read`` returns (or ``read`` itself: a block, or an object with ``page()``), live.

    ``read`` is called again on :meth:`refresh`, on the button of that name and, at most ``hertz`` times a second,
    after :meth:`changed`. An error it raises is shown in place of the content. Every method may be called from any
    thread: with subshells, callbacks run beside a busy cell; without, between cells.
    """

    title = "View"

    def __init__(
        self, read: object = None, *, controls: Iterable[ipywidgets.Widget] = (), hertz: float = HERTZ
    ) -> None:
        self._source = read
        self._lock = threading.RLock()
        self._closed = False
        self._busy = False
        self._said: Block | None = None
        self._read_at = ""
        self._shown: Sequence[Block] = ()
        self._throttle = Throttle(self.refresh, hertz=hertz)
        self._note = ipywidgets.HTML()
        self._note.add_class("rightlab-note")
        self._parts: list[ipywidgets.HTML] = []
        self._body = ipywidgets.VBox()
        self._controls = ipywidgets.HBox([self.button("Refresh", "Read again now", self._again), *controls])
        self._controls.add_class("rightlab-controls")
        head = ipywidgets.HBox([self._controls, self._note])
        head.add_class("rightlab-controls")
        style = ipywidgets.HTML(f"<style>{STYLE}</style>")
        style.layout.display = "none"
        self.widget = ipywidgets.VBox([style, head, self._body])
        self.widget.add_class("rightlab-view")
        _remember(self)
        self.refresh()
        _answer_where_asked(self.widget)

    # -- what is shown ----------------------------------------------------------------------------------------

    def blocks(self) -> Sequence[Block]:
        """What to show now, one widget each; one that did not change is not sent again. For subclasses."""
        found = self._source() if callable(self._source) else self._source
        return (found.page() if isinstance(found, HasPage) else _block(found),)

    def refresh(self) -> None:
        """Read again and show it. Nothing happens once the view is closed."""
        with self._lock:
            if self._closed:
                return
            try:
                self._shown = tuple(self.blocks())
            except Exception as error:
                self._shown = (Page(self.title, error=error),)
            self._show()
            self._read_at = f"<p>as of {datetime.now(UTC):%H:%M:%S} UTC</p>"
            self._draw_note()

    def _again(self) -> None:
        self._said = None
        self.refresh()

    def changed(self) -> None:
        """Tell the view that its source changed: cheap, never blocks, ten thousand calls make few messages."""
        self._throttle.poke()

    def _show(self) -> None:
        while len(self._parts) < len(self._shown):
            self._parts.append(ipywidgets.HTML())
        left = BODY_LIMIT
        for part, block in zip(self._parts, self._shown, strict=False):
            html = block.html(max(left, 1_000))
            left -= len(json.dumps(html))
            part.value = html
        for part in self._parts[len(self._shown) :]:
            part.value = ""
        wanted = (*self._parts, *self.fixtures())
        if self._body.children != wanted:
            self._body.children = wanted
            _answer_where_asked(self._body)

    def fixtures(self) -> Sequence[ipywidgets.Widget]:
        """Widgets that stand below the blocks. For subclasses."""
        return ()

    # -- what can be done -------------------------------------------------------------------------------------

    def button(self, label: str, hint: str, work: Callable[[], object]) -> ipywidgets.Button:
        """A button that calls ``work``; ``hint`` says what that does."""
        made = ipywidgets.Button(description=label, tooltip=hint)
        made.on_click(lambda _: work())
        return made

    def add(self, *controls: ipywidgets.Widget) -> None:
        """Put more controls after the others; they are closed with the view."""
        self._controls.children = (*self._controls.children, *controls)
        _answer_where_asked(self._controls)

    def run(self, what: str, work: Callable[[], str | Block | None]) -> bool:
        """Do ``work`` in a thread of its own, so that no cell and no other control waits for it.

        ``what`` is shown meanwhile; then what ``work`` returns (a sentence that says it went well, or a block), or
        its error. False when something is being done already.
        """
        with self._lock:
            if self._busy or self._closed:
                return False
            self._busy = True
            self.say(Note(f"Working: {what}"))
        threading.Thread(target=self._work, args=(work,), name="rightlab-view", daemon=True).start()
        return True

    def _work(self, work: Callable[[], str | Block | None]) -> None:
        try:
            found = work()
            outcome = Note(found, kind="good") if isinstance(found, str) else found
        except Exception as error:
            outcome = _fault(error)
        with self._lock:
            self._busy = False
            self._said = outcome
            self.refresh()

    def say(self, block: Block | None) -> None:
        """Show ``block`` beside the controls until something else is said or Refresh is pressed."""
        with self._lock:
            self._said = block
            self._draw_note()

    def _draw_note(self) -> None:
        if not self._closed:
            said = self._said.html(4_000) if self._said is not None else ""
            self._note.value = f'<div role="status">{said}{self._read_at}</div>'

    # -- the three forms --------------------------------------------------------------------------------------

    def widget_bundle(self) -> dict[str, Any]:
        """The live form's MIME type alone; empty when the view is closed."""
        if self._closed:
            return {}
        return {WIDGET_VIEW: {"version_major": 2, "version_minor": 0, "model_id": self.widget.model_id}}

    def static(self) -> Block:
        """What the view shows now, without the controls: the form of untrusted files, exports and terminals."""
        return Stack(*self._shown)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        bundle = {**self.widget_bundle(), **mimebundle(self, self.static())}
        if include:
            bundle = {kind: data for kind, data in bundle.items() if kind in include}
        return {kind: data for kind, data in bundle.items() if kind not in (exclude or ())}

    def __repr__(self) -> str:
        return f"<{type(self).__name__}{' (closed)' if self._closed else ''}>"

    # -- life -------------------------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def state_bytes(self) -> int:
        """Bytes of widget state as a notebook file keeps it: without what is a widget's default."""
        return sum(
            len(json.dumps(one.get_state(drop_defaults=True), default=str)) for one in _tree(self.widget)
        )

    def close(self) -> None:
        """Stop updates and free every widget of the view, in the kernel and in the page. Twice is fine."""
        self._throttle.close()
        with _open_lock:
            _open.pop(id(self), None)
        # Bounded: unloading must not wait for a source that hangs. A widget without comm ignores what is set on it.
        held = self._lock.acquire(timeout=0.5)
        try:
            if not self._closed:
                self._closed = True
                for one in _tree(self.widget):
                    one.close()
        finally:
            if held:
                self._lock.release()


def close_all() -> None:
    """Close every view of this kernel (the extension's unload does)."""
    for view in list(_open.values()):
        view.close()


def _remember(view: View) -> None:
    with _open_lock:
        _open[id(view)] = view
        old = list(_open.values())[:-MOST_OPEN]
    for one in old:
        one.close()


def _answer_where_asked(widget: Any) -> None:
    """Let callbacks run in the subshell the page asked, beside a busy cell.

    ipykernel 7.4 sends a comm's messages to the shell that last published on it instead: for a widget made in a cell
    that is the main shell, and a button waits for the cell to end. Without the hook it obeys the message. Kernels
    that have no such hook, or no subshells, are not affected.
    """
    for one in _tree(widget):
        if one.comm is not None:
            one.comm._reply_subshell_for = None


def _fault(error: Exception) -> Note:
    if isinstance(error, RightlabError):
        return Note(error.message, kind="error", fix=error.fix)
    return Note(f"{type(error).__name__}: {error}", kind="error")


def _block(found: object) -> Block:
    if isinstance(found, Block):
        return found
    raise TypeError(f"a {type(found).__name__} has no page to show")


def _tree(widget: Any) -> list[Any]:
    """``widget`` with everything below it, each model once."""
    seen: dict[int, Any] = {}
    waiting = [widget]
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen[id(one)] = one
        waiting.extend(getattr(one, "children", ()))
        waiting.extend(part for name in ("layout", "style") if (part := getattr(one, name, None)) is not None)
    return list(seen.values())
