"""Static HTML of rightlab.html in JupyterLab: live, and from a file nobody trusts (spec jupyter 1.5)."""

from typing import Any

PAGE = """
from rightlab.html import Footer, Page, Table
Page(
    "alice \u00b7 sections", "The prompt has two sections.",
    Table(
        [["base", 1200, None], ["soul <script>alert(1)</script>", 900, True]],
        ["section", "bytes", "cached"],
        caption="Sections",
    ),
    footer=Footer(n=2, source="scripted model"),
)
"""


def test_page_is_readable_live_and_untrusted(lab_server: Any, open_notebook: Any) -> None:
    path = lab_server.write("static.ipynb", [PAGE])
    live = open_notebook(path)
    live.run_all()
    stored = lab_server.write("static-stored.ipynb", [PAGE])
    lab_server.execute(stored)
    untrusted = open_notebook(stored)
    for notebook in (live, untrusted):
        notebook.wait_for("The prompt has two sections.")
        for theme in ("light", "dark"):
            notebook.set_theme(theme)
            _check(notebook)


def _check(notebook: Any) -> None:
    page = notebook.page
    table = page.locator(".jp-OutputArea-output table")
    assert table.is_visible()
    assert table.locator("caption").inner_text() == "Sections \u00b7 2 rows"
    assert table.locator("th[scope=row]").all_inner_texts() == ["base", "soul <script>alert(1)</script>"]
    assert "n = 2 \u00b7 source: scripted model" in notebook.outputs()[0]
    assert _contrast(page) >= 4.5
    assert notebook.violations() == []
    assert notebook.console_errors() == []
    assert notebook.outside == []


def _contrast(page: Any) -> float:
    """WCAG contrast of the table's text against what is painted behind it."""
    return float(
        page.evaluate(
            """() => {
              const rgb = text => text.match(/[\\d.]+/g).map(Number);
              const light = ([r, g, b]) => [r, g, b].map(v => v / 255)
                .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
                .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
              const fill = element => rgb(getComputedStyle(element).backgroundColor);
              const cell = document.querySelector('.jp-OutputArea-output table td');
              let behind = cell;
              while (behind && (fill(behind)[3] ?? 1) === 0) behind = behind.parentElement;
              const [a, b] = [light(rgb(getComputedStyle(cell).color)), light(fill(behind))];
              return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
            }"""
        )
    )
