"""The divergence explorer: pick two recorded turns, see where they part, why, and what that cost."""

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import ipywidgets

from rightlab.errors import RightlabError
from rightlab.html import Block, Note, Stack
from rightlab.views.view import View

if TYPE_CHECKING:
    from rightlab.home import AgentHome
    from rightlab.runtime.divergences import Divergences

__all__ = ["DivergenceView", "TurnPicker"]

BYTES = 6_000

_views: dict[str, "DivergenceView"] = {}
_views_lock = threading.Lock()


class TurnPicker:
    """Two lists of recorded turns and what their requests differ in; ``changed()`` is called when that changed.

    A later turn is compared with an earlier one as :func:`rightlab.runtime.requests.read_divergence` does.
    """

    def __init__(self, agent: "AgentHome", changed: Callable[[], object]) -> None:
        self._agent = agent
        self._changed = changed
        self._filling = False
        self._turns: tuple[int, ...] = ()
        self.block: Block = Note("No two turns are recorded yet.", fix="Let the agent answer twice.")
        self._from = ipywidgets.Dropdown(description="from")
        self._to = ipywidgets.Dropdown(description="to")
        for one in (self._from, self._to):
            one.style.description_width = "initial"
            one.layout.width = "10em"
            one.observe(self._on_pick, ["value"])
        self.html = ipywidgets.HTML(self.block.html())
        title = ipywidgets.HTML("<strong>Where do two turns part?</strong>")
        self._pair = ipywidgets.HBox([self._from, self._to])
        self._pair.layout.display = "none"
        row = ipywidgets.HBox([title, self._pair])
        row.add_class("rightlab-controls")
        self.widget = ipywidgets.VBox([row, self.html])

    def fill(self, turns: Sequence[int]) -> None:
        """Offer ``turns`` (numbers, oldest first); what was picked stays. The last two to begin with."""
        if tuple(turns) == self._turns:
            return
        self._turns = tuple(turns)
        self._filling = True
        try:
            self._pair.layout.display = None if len(self._turns) > 1 else "none"
            options = [(f"turn {turn}", turn) for turn in reversed(self._turns)]
            for one, at in ((self._from, -2), (self._to, -1)):
                kept = one.value
                one.options = options
                if len(self._turns) > 1:
                    one.value = kept if kept in self._turns else self._turns[at]
        finally:
            self._filling = False
        self.compare()

    def compare(self) -> None:
        """Compare the two that are picked and show it."""
        from rightlab.runtime.requests import read_divergence

        if len(self._turns) < 2:
            return
        try:
            if self._from.value == self._to.value:
                self.block = Note("Pick two different turns.")
            else:
                self.block = read_divergence(self._agent, self._from.value, self._to.value).page()
        except RightlabError as error:
            self.block = Note(error.message, kind="error", fix=error.fix)
        self.html.value = self.block.html(BYTES)
        self._changed()

    def _on_pick(self, change: Any) -> None:
        if not self._filling:
            self.compare()


class DivergenceView(View):
    """All divergences of the recorded requests, and any two turns picked from lists."""

    title = "Divergence"

    def __init__(self, found: "Divergences") -> None:
        self._agent = found.agent
        self._picker = TurnPicker(found.agent, lambda: None)
        super().__init__()

    @classmethod
    def of(cls, found: "Divergences") -> "DivergenceView":
        """The kernel's one view of this agent's divergences, read again."""
        key = str(found.agent.root)
        with _views_lock:
            view = _views.get(key)
            if view is None or view.closed:
                view = _views[key] = cls(found)
                return view
        view.changed()
        return view

    def blocks(self) -> Sequence[Block]:
        from rightlab.runtime.recorded_turns import recorded_turns
        from rightlab.runtime.requests import read_requests
        from rightlab.views.prompt_traffic import TURNS

        self._picker.fill([int(row["id"]) for row in recorded_turns(self._agent, last=TURNS)])
        return (read_requests(self._agent).divergences().page(),)

    def fixtures(self) -> Sequence[ipywidgets.Widget]:
        return (self._picker.widget,)

    def static(self) -> Block:
        return Stack(super().static(), self._picker.block)
