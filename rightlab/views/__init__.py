"""Widgets over the plain objects (design 3, 11): what has a page can be shown live.

Importing this room is cheap; ipywidgets comes with the first view.
"""

from typing import TYPE_CHECKING

from rightlab.lazy import lazy_exports
from rightlab.views.live import load, unload

if TYPE_CHECKING:
    from rightlab.views.confirm import Confirm
    from rightlab.views.prompt import PromptView
    from rightlab.views.prompt_turns import DivergenceView
    from rightlab.views.rows import CallRows, FrameRows, RelationRows, Rows, rows_of
    from rightlab.views.status import StatusView
    from rightlab.views.table import TableView
    from rightlab.views.throttle import Throttle
    from rightlab.views.view import HasPage, View, close_all

__all__ = [
    "CallRows",
    "Confirm",
    "DivergenceView",
    "FrameRows",
    "HasPage",
    "PromptView",
    "RelationRows",
    "Rows",
    "StatusView",
    "TableView",
    "Throttle",
    "View",
    "close_all",
    "load",
    "rows_of",
    "unload",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "confirm": ("Confirm",),
        "prompt": ("PromptView",),
        "prompt_turns": ("DivergenceView",),
        "rows": ("CallRows", "FrameRows", "RelationRows", "Rows", "rows_of"),
        "status": ("StatusView",),
        "table": ("TableView",),
        "throttle": ("Throttle",),
        "view": ("HasPage", "View", "close_all"),
    },
)
