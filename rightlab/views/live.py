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


def _prompt(owner: Any) -> dict[str, Any]:
    from rightlab.lab import Lab
    from rightlab.runtime.prompts import origin_of
    from rightlab.views.prompt import PromptView

    origin = origin_of(owner)
    # A snapshot of a variant that is gone cannot be brought up to date.
    if origin is None or (origin.variant is not None and origin.variant.closed):
        return {}
    return PromptView.of(Lab(origin.agent), origin.mode, origin.variant).widget_bundle()


def _variant(owner: Any) -> dict[str, Any]:
    from rightlab.lab import Lab
    from rightlab.views.prompt import PromptView

    return {} if owner.closed else PromptView.of(Lab(owner.agent), "normal", owner).widget_bundle()


def _divergences(owner: Any) -> dict[str, Any]:
    from rightlab.views.prompt_turns import DivergenceView

    return DivergenceView.of(owner).widget_bundle()


_VIEWS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "rightlab.prompt.assembly.Assembly": _prompt,
    "rightlab.runtime.divergences.Divergences": _divergences,
    "rightlab.runtime.status.Status": _status,
    "rightlab.runtime.variants.Variant": _variant,
}
