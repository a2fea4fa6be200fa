"""The six notebooks as a person runs them: no error, nothing serious for axe, readable in both themes.

The pictures in the README are made by this test::

    RIGHTLAB_SCREENSHOTS=docs/notebooks python3 -m pytest tests/browser/test_notebooks.py
"""

import os
from pathlib import Path
from typing import Any

import pytest
from pictures import looks, small_picture

pytestmark = [pytest.mark.claude, pytest.mark.sandbox, pytest.mark.timeout(300)]

NOTEBOOKS = {
    "00_start": ["demo \u00b7 up", "scripted stand-in", "Runs, newest first"],
    "01_prompts": ["identity:soul", "Sections that differ"],
    "02_skills": ["Show around"],
    "03_costs": ["By source", "Dearest invocations"],
    "04_curator": ["By day", "Skills"],
    "05_crons": ["Jobs", "good-morning"],
}
LIMIT = 60_000
"""Bytes of a picture in the repository."""


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_notebook_reads_well_in_both_themes(
    name: str, demo_server: Any, open_notebook: Any, browser_context: Any, tmp_path: Path
) -> None:
    notebook = open_notebook(f"{name}.ipynb", "light", width=1000, server=demo_server)
    page = notebook.page
    notebook.run_all(timeout=150)
    for text in NOTEBOOKS[name]:
        page.locator(".jp-OutputArea-output").get_by_text(text).first.wait_for(timeout=30_000)
    assert page.locator(".jp-RenderedText[data-mime-type='application/vnd.jupyter.stderr']").count() == 0
    # JupyterLab's question about its news is not asked.
    assert page.locator(".Toastify__toast").count() == 0

    folder = Path(os.environ.get("RIGHTLAB_SCREENSHOTS") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    page.wait_for_timeout(500)
    seen = []
    for theme in ("light", "dark"):
        notebook.set_theme(theme)
        assert notebook.violations() == [], theme
        with notebook.whole():
            area = page.locator(".jp-Notebook").bounding_box()
            png = page.screenshot(clip={**area, "y": area["y"], "height": min(area["height"], 4_000)})
        box = [0.0, 0.0, area["width"], min(area["height"], 4_000)]
        seen += looks(browser_context, png, [box])
        picture = small_picture(browser_context, png, width=800, height=900)
        (folder / f"{name}-{theme}.png").write_bytes(picture)
        assert 5_000 < len(picture) <= LIMIT, f"{theme}: {len(picture):,} bytes"
    light, dark = seen
    assert light.ground > 200
    assert dark.ground < 80
    assert min(light.drawn, dark.drawn) > 0.005
    assert light.unlike(dark) < 0.1
    assert notebook.cut_off() == []
    assert notebook.console_errors() == []
    assert notebook.outside == []
