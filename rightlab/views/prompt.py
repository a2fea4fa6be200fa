"""The prompt, live: edit a section, see at once what the model will read and what it costs (spec views 01)."""

import json
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import ipywidgets

from rightlab.errors import RightlabError, UsageError
from rightlab.html import Block, Diff, Note, Page, Stack, plural
from rightlab.runtime.prompts import MODES
from rightlab.views.confirm import Confirm
from rightlab.views.prompt_desk import PromptDesk
from rightlab.views.prompt_editor import PromptEditor
from rightlab.views.prompt_page import HEADINGS, Within, cells, findings, fitted, header, page, status
from rightlab.views.prompt_rows import OWN
from rightlab.views.prompt_turns import TurnPicker
from rightlab.views.status import IDENTITY_FILES
from rightlab.views.throttle import Throttle
from rightlab.views.view import STATE_LIMIT, View
from rightlab.views.watch import Watch

if TYPE_CHECKING:
    from rightlab.lab import Lab
    from rightlab.prompt.layers import Registration
    from rightlab.runtime.variants import Variant

__all__ = ["PromptView"]

RESERVED = 36_000
"""Bytes of state for what has a bound of its own: script, looks, controls, header, two turns, a diff asked about."""

TEXT = 48_000
ROWS = 10_000
SHOWN = 16_000
FINDINGS = 6_000
REPORT = 5_000

SETTLE_SECONDS = 0.15
"""What takes longer begins so long after an edit: the page draws first."""

_views: dict[tuple[str, str, str], "PromptView"] = {}
_views_lock = threading.Lock()


class PromptView(View):
    """One agent's prompt: its sections, an editor for one of them beside what the model reads, what that costs.

    Edits go to a variant (``lab.variant(name)``), never to the agent; only "Write back", asked twice, writes a file.
    ``mode`` and ``variant`` are where it begins; both can be switched.
    """

    title = "Prompt"

    def __init__(self, lab: "Lab", mode: str = "normal", variant: "Variant | None" = None) -> None:
        if mode not in MODES:
            raise UsageError(f"no prompt mode {mode!r}", fix=f"Use one of {', '.join(MODES)}.")
        self.title = f"{lab.name} · prompt"
        self.desk = PromptDesk(lab, mode, variant)
        self._report: Block = Stack()
        self._filling = False
        self._editing = 0
        self._heard: Registration | None = None
        self._findings_room = FINDINGS
        self._asked: tuple[Variant, str] | None = None
        self._stop = threading.Event()
        self._later = Throttle(self._inspect)
        self.editor = PromptEditor(caption="Sections", columns=[list(one) for one in HEADINGS])
        self.editor.on_msg(self._on_message)
        self.findings = ipywidgets.HTML()
        self.turns = TurnPicker(lab.agent, lambda: None)
        self.mode = self._choice("mode", [(one.replace("_", " "), one) for one in MODES], self._on_mode)
        self.variant = self._choice("variant", [], self._on_variant)
        self.against = self._choice("compare with", [], self._on_against)
        self.name = ipywidgets.Text(description="new variant", placeholder="a name", continuous_update=False)
        self.name.style.description_width = "initial"
        self.name.layout.width = "14em"
        new = self.button(
            "New", "Open a variant of this name, for edits the agent does not see", self._on_new
        )
        self.write_back = Confirm(
            "Write back", self._ask_write_back, self._write_back, hint="Put the section's edit into its file"
        )
        self.discard = Confirm(
            "Discard", self._ask_discard, self._discard, hint="Drop every edit of the variant"
        )
        tail = self.button(
            "Move to the tail?",
            "Predict: this section leaves the prompt and goes with each message",
            self._tail,
        )
        lists = [self.mode, self.variant, self.name, new, self.against]
        super().__init__(controls=[*lists, self.write_back.widget, self.discard.widget, tail])
        agent = lab.agent
        files = [agent.guest_dir / name for name in IDENTITY_FILES]
        self._watch = Watch([*files, agent.config_path, agent.recordings_dir], self.changed)

    @classmethod
    def of(cls, lab: "Lab", mode: str = "normal", variant: "Variant | None" = None) -> "PromptView":
        """The kernel's one view that began so: a cell that is run again shows it again, and nothing piles up."""
        key = (str(lab.agent.root), mode, variant.name if variant is not None else "")
        with _views_lock:
            view = _views.get(key)
            if view is None or view.closed:
                view = _views[key] = cls(lab, mode, variant)
                return view
        view.show(mode, variant)
        return view

    def show(self, mode: str, variant: "Variant | None") -> None:
        """Switch to this mode and variant, and read again."""
        with self._lock:
            self.desk.mode, self.desk.variant = mode, variant
        self.refresh()

    # -- what is shown ----------------------------------------------------------------------------------------

    def blocks(self) -> Sequence[Block]:
        self.desk.read()
        self._listen()
        self._fill()
        self._draw()
        self._later.poke()
        return (Within(header(self.desk), REPORT), Within(self._report, REPORT))

    def fixtures(self) -> Sequence[ipywidgets.Widget]:
        return (self.editor, self.findings, self.turns.widget)

    def static(self) -> Block:
        with self._lock:
            if not self._closed:
                self.desk.take(self.desk.inspect())
                self.turns.fill(self.desk.traffic.turns)
            return page(self.desk, self.turns.block)

    def _top(self) -> None:
        """The header and the diff that is asked about, without reading again."""
        if not self._closed:
            self._shown = (Within(header(self.desk), REPORT), Within(self._report, REPORT))
            self._show()

    def _fill(self) -> None:
        """The lists to choose from, without taking that for a choice."""
        desk = self.desk
        self._filling = True
        try:
            self.mode.value = desk.mode
            now = desk.variant.name if desk.variant is not None else ""
            # A variant that a cell just closed is no longer listed; the refresh that follows lets go of it.
            names = dict.fromkeys([*desk.variants(), *([now] if now else [])])
            _options(self.variant, [("(the agent's own)", ""), *((one, one) for one in names)])
            self.variant.value = now
            choices = desk.choices()
            if desk.against not in choices:
                choices.append(desk.against)
            _options(self.against, [(one.label, one) for one in choices])
            self.against.value = desk.against
        finally:
            self._filling = False

    def _draw(self, *, answered: str | None = None) -> None:
        """Bring the editor up to date in one message."""
        desk, editor = self.desk, self.editor
        rows, room = [], ROWS
        for at, row in enumerate(desk.rows, 1):
            texts = cells(desk, at, row)
            room -= len(json.dumps([texts, row.name]))
            if room < 0:
                break
            rows.append((row.name, texts))
        name = desk.selected
        locked = desk.locked(name, TEXT)
        text = desk.text(name) if name else ""
        if len(json.dumps(text)) > TEXT:
            text = text[: TEXT // 12] + "\n…"
        left = STATE_LIMIT - RESERVED - (ROWS - max(room, 0)) - len(json.dumps(text))
        shown, _ = desk.preview()
        file = desk.file(name)
        what = f"{name} · {file}" if file else name
        where = f"variant {desk.variant.name}" if desk.variant is not None else "a variant"
        total = f"{len(rows)} of {plural(len(desk.rows), 'section')}" if room < 0 else "Sections"
        with editor.hold_sync():
            editor.caption = f"{total} in the order the model reads them (* edited)"
            editor.row_keys = [key for key, _ in rows]
            editor.rows = [texts for _, texts in rows]
            editor.selected = name
            editor.label = f"{what} — edits go to {where}"
            editor.locked = locked
            editor.text = text
            editor.shown = fitted(shown, min(SHOWN, left * 7 // 10))
            editor.status = status(desk)
            if answered is not None:
                editor.answered = answered
        self._findings_room = min(FINDINGS, left * 3 // 10)

    def _inspect(self) -> None:
        """Lint, cache effect and long comparisons, in the throttle's thread."""
        if self._stop.wait(SETTLE_SECONDS):
            return
        try:
            found = self.desk.inspect()
            self.desk.preview(patient=True)
        except Exception as error:
            self.findings.value = _fault(error).html()
            return
        with self._lock:
            if self._closed or not self.desk.take(found):
                return
            self._fill()
            self._draw()
            self._top()
            self.findings.value = fitted(Stack(*findings(self.desk)), self._findings_room)
        self.turns.fill(self.desk.traffic.turns)

    # -- the editor's messages --------------------------------------------------------------------------------

    def _on_message(self, _: object, content: Any, __: object) -> None:
        kind = content.get("kind") if isinstance(content, dict) else None
        if kind == "select":
            self._guarded(lambda: self._select(str(content.get("section"))))
        elif kind == "edit":
            answered = f"{content.get('page')}:{content.get('number')}"
            section, text = content.get("section"), content.get("text")
            if isinstance(section, str) and isinstance(text, str):
                self._guarded(lambda: self._edit(section, text, answered))

    def _guarded(self, work: Callable[[], object]) -> None:
        try:
            with self._lock:
                if not self._closed:
                    work()
        except Exception as error:
            self.say(_fault(error))

    def _select(self, section: str) -> None:
        if self.desk.row(section) is not None:
            self.desk.selected = section
            self._forget_report()
            self._draw()

    def _edit(self, section: str, text: str, answered: str) -> None:
        before = self.desk.variant
        self._editing = threading.get_ident()
        try:
            if not self.desk.locked(section, TEXT):
                self.desk.edit(section, text)
        finally:
            self._editing = 0
            self._draw(answered=answered)
        self._forget_report()
        if self.desk.variant is not before and self.desk.variant is not None:
            self._listen()
            self._fill()
            self.say(Note(f"Your edit is in variant {self.desk.variant.name}; the agent does not see it."))
        self._later.poke()

    def _listen(self) -> None:
        """Follow the variant: a cell may edit it too."""
        if self._heard is not None:
            self._heard.close()
        self._heard = self.desk.variant.on_change(self._on_change) if self.desk.variant is not None else None

    def _on_change(self) -> None:
        self._asked = None
        if self._editing != threading.get_ident():
            self.changed()

    # -- the controls -----------------------------------------------------------------------------------------

    def _choice(
        self, label: str, options: list[tuple[str, Any]], chosen: Callable[[Any], None]
    ) -> ipywidgets.Dropdown:
        made = ipywidgets.Dropdown(description=label, options=options)
        made.style.description_width = "initial"
        made.layout.width = "max-content"

        def picked(change: Any) -> None:
            if not self._filling:
                self._guarded(lambda: chosen(change["new"]))

        made.observe(picked, ["value"])
        return made

    def _on_mode(self, value: str) -> None:
        self.desk.mode = value
        self.desk.against = OWN if self.desk.against.key == value else self.desk.against
        self._again()

    def _on_variant(self, value: str) -> None:
        self.desk.variant = self.desk.lab.variant(value) if value else None
        self.desk.against = OWN if self.desk.against.key == value else self.desk.against
        self._again()

    def _on_against(self, value: Any) -> None:
        self.desk.against = value if value is not None else OWN
        self._again()

    def _on_new(self) -> None:
        name = self.name.value.strip()
        if not name:
            self.say(Note("A variant needs a name.", kind="error", fix="Write one beside the button."))
            return
        with self._lock:
            self.desk.variant = self.desk.lab.variant(name)
            self.name.value = ""
        self._again()

    def _forget_report(self) -> None:
        self._report = Stack()
        self._asked = None
        self._top()

    def _ask_write_back(self) -> str | None:
        variant, name = self.desk.variant, self.desk.selected
        try:
            if variant is None or name not in variant.sections:
                raise UsageError(f"section {name!r} is not edited", fix="Choose one with a * in the list.")
            found = variant.write_back(name)
        except RightlabError as error:
            self.say(_fault(error))
            return None
        if not found.changed:
            self.say(Note(f"{found.path.name} says this already; there is nothing to write."))
            return None
        diff = Diff(found.before, found.after, names=(f"{found.path.name} now", f"variant {variant.name}"))
        with self._lock:
            self._asked = (variant, name)
            self._report = Page(f"Write back {name}?", "Nothing is written yet.", diff)
            self._top()
        return f"Replace {found.path.name} by this? The old text is kept beside it."

    def _write_back(self) -> None:
        asked = self._asked
        if asked is None:
            self.say(Note("The prompt changed since you were asked.", fix="Press Write back again."))
            return
        variant, name = asked

        def write() -> str:
            found = variant.write_back(name, confirm=True)
            self._report = Stack()
            kept = f" The old text is in {found.backup.name}." if found.backup is not None else ""
            return f"{found.path.name} is written; the next turn reads it.{kept}"

        self.run(f"writing {name}", write)

    def _ask_discard(self) -> str | None:
        variant = self.desk.variant
        edits = len(variant.sections) + len(variant.variables) if variant is not None else 0
        if variant is None or not edits:
            self.say(Note("There is no edit to discard."))
            return None
        return f"Drop {plural(edits, 'edit')} of variant {variant.name}? Nothing brings them back."

    def _discard(self) -> None:
        if self.desk.variant is not None:
            self.desk.variant.revert()
        self._forget_report()
        self._again()

    def _tail(self) -> None:
        def predict() -> Block:
            self.desk.take(self.desk.inspect())
            what_if = self.desk.traffic.what_if
            if what_if is None:
                raise UsageError("no request of this mode is recorded", fix="Let the agent answer first.")
            return what_if.to_tail(self.desk.selected).forecast().page()

        self.run(f"trying {self.desk.selected} in the tail of recorded requests", predict)

    # -- life -------------------------------------------------------------------------------------------------

    def close(self) -> None:
        self._stop.set()
        self._later.close()
        self._watch.close()
        if self._heard is not None:
            self._heard.close()
        super().close()
        with _views_lock:
            for key in [key for key, view in _views.items() if view is self]:
                del _views[key]


def _options(choice: ipywidgets.Dropdown, options: list[tuple[str, Any]]) -> None:
    """Only when they changed: setting them sends them, and forgets what is chosen."""
    if tuple(options) != tuple(choice.options):
        choice.options = options


def _fault(error: Exception) -> Note:
    if isinstance(error, RightlabError):
        return Note(error.message, kind="error", fix=error.fix)
    return Note(f"{type(error).__name__}: {error}", kind="error")
