"""An executed notebook without what only a live page can show (spec jupyter 1.5)."""

from typing import Any, TypeVar

__all__ = ["static_form"]

WIDGET_PREFIX = "application/vnd.jupyter.widget-"
READABLE = ("text/html", "text/markdown", "text/plain", "image/png", "image/jpeg", "image/svg+xml")

Notebook = TypeVar("Notebook", bound=dict[str, Any])


def static_form(notebook: Notebook, resources: Any = None) -> tuple[Notebook, Any]:
    """``notebook`` (changed in place) with every live view in its static form, and ``resources`` as they were.

    nbconvert prefers a live view to the HTML beside it and fetches scripts for it from outside. Here the view goes
    wherever its output has another form, and its stored state goes with the last of them. Callable as a preprocessor::

        jupyter nbconvert --to html --HTMLExporter.preprocessors=rightlab.html.static_form run.ipynb
    """
    left = False
    for cell in notebook.get("cells", ()):
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            live = [kind for kind in data if kind.startswith(WIDGET_PREFIX)]
            if live and any(kind in data for kind in READABLE):
                for kind in live:
                    del data[kind]
            elif live:
                left = True
    if not left:
        notebook.get("metadata", {}).pop("widgets", None)
    return notebook, resources
