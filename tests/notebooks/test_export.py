"""An executed notebook as HTML: every view in its static form, and nothing that the page would fetch (jupyter 1.5)."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest

from rightlab.html import static_form

pytestmark = [pytest.mark.kernel]

WIDGET = "application/vnd.jupyter.widget-view+json"

CELLS = [
    "from rightlab.html import Footer, Page, Table\n"
    "from rightlab.views import TableView, View\n"
    "View(Page('alice · sections', 'The prompt has two sections.', Table([['base', 1200]], ['section', 'bytes'],"
    " caption='Sections'), footer=Footer(n=1, source='scripted model')))",
    "import pandas\nTableView(pandas.DataFrame({'turn': range(300)}), caption='Turns')",
    "import ipywidgets\nipywidgets.IntSlider(7)",
    "pandas.DataFrame({'a': [1]})",
]


@pytest.fixture(scope="module")
def executed() -> Any:
    from nbclient import NotebookClient

    cells = [nbformat.v4.new_code_cell(code) for code in CELLS]
    cells.insert(0, nbformat.v4.new_markdown_cell("# A title with $x^2$\n\n[a link](https://example.org/)"))
    notebook = nbformat.v4.new_notebook(
        cells=cells, metadata={"kernelspec": {"name": "python3", "display_name": "Python"}}
    )
    NotebookClient(notebook, timeout=60, kernel_name="python3").execute()
    return notebook


def fetched(html: str) -> list[str]:
    """What a browser would load: everything with a URL but what a reader has to click."""
    found = re.findall(
        r"""<(?!a\b)[^>]*?\b(?:src|href|srcset|data)\s*=\s*["']?((?!data:|["'#])[^"'\s>]+)""", html
    )
    found += re.findall(r"""url\(\s*["']?((?!data:)[^)"']+)|@import\s+["']([^"']+)""", html)
    found += re.findall(r"""\bimport\s*\(?\s*["']([^"']+)""", html)
    return [one if isinstance(one, str) else "".join(one) for one in found] + re.findall(r"<script", html)


def check(html: str) -> None:
    assert "The prompt has two sections." in html
    assert re.search(r"<caption[^>]*><strong>Sections</strong>", html)
    assert "50 of 300 rows" in html
    assert "n = 1 · source: scripted model" in html
    assert "widget-view" not in html
    assert "widget-state" not in html
    assert '<a href="https://example.org/"' in html, "a person's link stays"
    assert "IntSlider" in html
    assert fetched(html) == []


def test_one_page_without_anything_from_outside(executed: Any) -> None:
    from rightlab.runtime.export import notebook_html

    before = nbformat.writes(executed)
    html = notebook_html(executed, title="run <1>")
    check(html)
    assert nbformat.writes(executed) == before
    assert "<title>run &lt;1&gt;</title>" in html
    assert "default-src 'none'" in html
    assert len(html.encode()) < 100_000


def test_nbconvert_itself_with_our_preprocessor(executed: Any, tmp_path: Path) -> None:
    nbformat.write(executed, tmp_path / "run.ipynb")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "nbconvert", "--to", "html", "--template", "basic"),
            *("--HTMLExporter.preprocessors=rightlab.html.static_form", "run.ipynb"),
        ],
        cwd=tmp_path,
        env={**os.environ, "JUPYTER_CONFIG_DIR": str(tmp_path / "config")},
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert done.returncode == 0, done.stderr
    check((tmp_path / "run.html").read_text())


def test_without_it_nbconvert_would_fetch(executed: Any) -> None:
    """Why the preprocessor is there: when this fails nbconvert has learnt it, and ours can go."""
    from nbconvert.exporters import HTMLExporter

    html, _ = HTMLExporter().from_notebook_node(executed)
    assert "widget-view" in html
    assert fetched(html) != []


def test_a_view_without_another_form_is_kept_with_its_state() -> None:
    def output(**data: str) -> dict[str, Any]:
        return {"output_type": "display_data", "data": data, "metadata": {}}

    only = {
        "cells": [{"outputs": [output(**{WIDGET: "x"})]}, {"source": ""}],
        "metadata": {"widgets": {"s": 1}},
    }
    same, resources = static_form(only, {"kept": True})
    assert same["cells"][0]["outputs"][0]["data"] == {WIDGET: "x"}
    assert same["metadata"] == {"widgets": {"s": 1}}
    assert resources == {"kept": True}
    both = {
        "cells": [{"outputs": [output(**{WIDGET: "x", "text/html": "<p>"})]}],
        "metadata": {"widgets": {}},
    }
    assert static_form(both)[0]["cells"][0]["outputs"][0]["data"] == {"text/html": "<p>"}
    assert both["metadata"] == {}
