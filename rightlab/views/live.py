"""Which object shows itself as which view. Nothing heavy is imported until such an object is shown."""

from collections.abc import Callable
from typing import Any

from rightlab.html import register_widget

__all__ = ["load", "unload"]


def load(shell: object) -> None:
    """From now on objects that have a view show it in this kernel; in a terminal nothing changes. Idempotent."""
    if getattr(shell, "kernel", None) is not None:
        # Every class at once: naming the classes would import their rooms, and loading has 150 ms (design 12).
        register_widget(object, _live)


def unload() -> None:
    """Close every view and show static forms again."""
    import sys

    register_widget(object, None)
    if "rightlab.views.view" in sys.modules:
        from rightlab.views.view import close_all

        close_all()


def _live(owner: object) -> dict[str, Any]:
    kind = type(owner)
    make = _VIEWS.get(f"{kind.__module__}.{kind.__qualname__}")
    return make(owner) if make is not None else {}


def _status(owner: Any) -> dict[str, Any]:
    from rightlab.lab import open as open_lab
    from rightlab.views.status import StatusView

    return StatusView.of(open_lab(owner.agent, home=owner.home)).widget_bundle()


_VIEWS: dict[str, Callable[[Any], dict[str, Any]]] = {"rightlab.runtime.status.Status": _status}
