"""An executed notebook as one HTML file that asks nothing of anybody: no script, no font, no server (spec jupyter 1.5).

nbconvert's own page loads scripts from two hosts as soon as a view is in it, and is 280 kB without one.
"""

from copy import deepcopy
from typing import Any

from rightlab.html import escape, static_form

__all__ = ["notebook_html"]

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"

_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
pre { overflow-x: auto; background: rgba(127,127,127,.12); padding: .5rem; font-size: 13px; }
th, td { padding: 2px 8px; vertical-align: top; text-align: left; }
img { max-width: 100%; }
.prompt, .jp-InputPrompt, .jp-OutputPrompt, .anchor-link { display: none; }
"""


def notebook_html(notebook: dict[str, Any], *, title: str) -> str:
    """The notebook as a whole page, each view in its static form. ``notebook`` is not changed."""
    import nbconvert

    # nbconvert says it is typed and its exporters are not.
    exporter: Any = nbconvert.HTMLExporter
    still, _ = static_form(deepcopy(notebook))
    body, _ = exporter(template_name="basic").from_notebook_node(still)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )
