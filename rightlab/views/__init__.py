"""Widgets over the plain objects (design 3, 11): what has a page can be shown live.

Importing this room is cheap; ipywidgets comes with the first view.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rightlab.views.live import load, unload

if TYPE_CHECKING:
    from rightlab.views.confirm import Confirm
    from rightlab.views.rows import CallRows, FrameRows, RelationRows, Rows, rows_of
    from rightlab.views.status import StatusView
    from rightlab.views.table import TableView
    from rightlab.views.throttle import Throttle
    from rightlab.views.view import HasPage, View, close_all

__all__ = [
    "CallRows",
    "Confirm",
    "FrameRows",
    "HasPage",
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

_MODULES = {
    "CallRows": "rows",
    "Confirm": "confirm",
    "FrameRows": "rows",
    "HasPage": "view",
    "RelationRows": "rows",
    "Rows": "rows",
    "StatusView": "status",
    "TableView": "table",
    "Throttle": "throttle",
    "View": "view",
    "close_all": "view",
    "rows_of": "rows",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        value = getattr(import_module(f"rightlab.views.{_MODULES[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'rightlab.views' has no attribute {name!r}")
