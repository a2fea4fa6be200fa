"""``00_start`` in JupyterLab as a stranger sees it after ``rightlab demo``.

The README's picture is made by this test: ``RIGHTLAB_SCREENSHOTS=docs python -m pytest tests/browser/test_start.py``
writes ``docs/start.png``.
"""

from typing import Any

import pytest

pytestmark = [pytest.mark.claude, pytest.mark.sandbox, pytest.mark.timeout(300)]


def test_start_shows_the_reply_the_prompt_the_cost_and_the_cron(
    lived_demo: Any, demo_server: Any, open_notebook: Any
) -> None:
    once = lived_demo.once
    notebook = open_notebook("00_start.ipynb", "light", width=1100, server=demo_server)
    notebook.run_all(timeout=150)
    shown = "\n".join(notebook.outputs())

    assert "Error" not in shown
    # The scripted model says the same to the same message; the notebook's turn is a new one.
    assert once["turn"]["text"].split("\n")[0][:60] in shown
    assert "scripted" in shown

    tables = {text.split(" \u00b7 ")[0]: text for text in notebook.page.locator("caption").all_inner_texts()}
    assert any(caption.startswith("System prompt") for caption in tables)
    sections = notebook.page.locator(
        "table", has=notebook.page.locator("caption", has_text="System prompt")
    ).first
    headings = [text.lower() for text in sections.locator("thead th").all_inner_texts()]
    assert headings[0] == "section"
    assert any("bytes" in heading for heading in headings)
    assert any("tokens" in heading for heading in headings)
    assert sections.locator("tbody tr").count() >= 5

    assert "cost" in shown
    assert "good-morning" in shown
    assert "completed" in shown or "delivered" in shown
    assert notebook.console_errors() == []
    assert notebook.outside == []
    picture = notebook.screenshot("start", whole=True)
    assert picture.stat().st_size > 50_000
