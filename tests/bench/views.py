"""The views' figures in one command: ``python3 tests/bench/views.py [--rounds N] [--json]``.

* first paint of each view: from the request to run its cell until its text stands in the page, kernel and browser
  together, as a person waits: the first time in its kernel (imports, files), and the median of the next ``--rounds``
* a table of 10,000 rows visible (budget 500 ms)
* widget state each view adds to a saved notebook (budget 100 kB)
* ``%load_ext rightlab`` in a bare kernel (budget 150 ms)

JupyterLab and Chromium are started here, on loopback, with a home of their own.
"""

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "browser"))

from conftest import CHROMIUM, CHROMIUM_ARGS, LabServer, Notebook, opened
from test_every_view import SETUP, STATE, VIEWS, WIDGET, state_size

BUDGETS = {"table of 10,000 visible (ms)": 500, "largest state (bytes)": 100_000, "extension load (ms)": 150}

PAINT = """([at, texts]) => new Promise((done, fail) => {
  const notebook = window.jupyterapp.shell.currentWidget.content;
  notebook.activeCellIndex = at;
  notebook.deselectAll();
  const output = document.querySelectorAll('.jp-CodeCell')[at].querySelector('.jp-Cell-outputArea');
  const start = performance.now();
  const look = () => {
    const text = output.innerText;
    if (texts.every(one => text.includes(one))) done(performance.now() - start);
    else if (performance.now() - start > 30000) fail(new Error('not shown within 30 s: ' + text.slice(0, 300)));
    else requestAnimationFrame(look);
  };
  window.jupyterapp.commands.execute('notebook:clear-cell-output').then(() => {
    if (output.innerText.trim()) fail(new Error('the last output is still there'));
    window.jupyterapp.commands.execute('notebook:run-cell');
    look();
  });
})"""

LOAD = """
import time
start = time.perf_counter()
%load_ext rightlab
print(f"{(time.perf_counter() - start) * 1000:.1f}")
"""


def paint(notebook: Notebook, rounds: int) -> dict[str, list[float]]:
    notebook.command("notebook:run-cell")  # the setup: what it imports is no view's time
    found: dict[str, list[float]] = {}
    for at, (name, (_, texts)) in enumerate(VIEWS.items(), start=1):
        found[name] = [float(notebook.page.evaluate(PAINT, [at, texts])) for _ in range(rounds + 1)]
    return found


def extension_load(server: LabServer, rounds: int) -> list[float]:
    found = []
    for _ in range(rounds):
        cells = server.execute(server.write("load.ipynb", [LOAD])).cells
        found.append(float(cells[0].outputs[0].text))
    return found


def measure(folder: Path, rounds: int) -> dict[str, Any]:
    from playwright.sync_api import sync_playwright

    from rightlab.home import Home
    from rightlab.runtime.demo import prepare_demo, run_once

    demo = prepare_demo(Home.resolve(folder / "home"))
    run_once(demo)
    server = LabServer(folder, env={"RIGHTLAB_HOME": str(demo.home.path)})
    server.start()
    try:
        load = extension_load(server, max(3, rounds))
        cells = [SETUP, *(code for code, _ in VIEWS.values())]
        stored = server.execute(server.write("stored.ipynb", cells, kernel="rightlab"))
        state = stored.metadata.widgets[STATE]["state"]
        roots = [cell.outputs[0].data[WIDGET]["model_id"] for cell in stored.cells[1:]]
        path = server.write("paint.ipynb", cells, kernel="rightlab")
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=CHROMIUM_ARGS)
            notebook = opened(browser.new_context(), server, path, "light", width=1280, height=1000)
            painted = paint(notebook, rounds)
            browser.close()
    finally:
        server.stop()
    sizes = {name: state_size(state, root) for name, root in zip(VIEWS, roots, strict=True)}
    views = {
        name: {
            "first_ms": round(painted[name][0], 1),
            "next_ms": round(statistics.median(painted[name][1:]), 1),
            "state_bytes": sizes[name],
        }
        for name in VIEWS
    }
    figures = {
        "table of 10,000 visible (ms)": views["table of 10,000"]["next_ms"],
        "largest state (bytes)": max(sizes.values()),
        "extension load (ms)": round(statistics.median(load), 1),
    }
    return {"rounds": rounds, "views": views, "figures": figures, "budgets": BUDGETS}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rl-views-") as folder:
        found = measure(Path(folder), options.rounds)
    over = [name for name, most in BUDGETS.items() if found["figures"][name] > most]
    if options.json:
        print(json.dumps({**found, "over": over}, indent=2))
        return bool(over)
    print(f"{'view':<18}{'first':>9}{'next':>9}{'state':>13}   (next: median of {options.rounds})")
    for name, one in found["views"].items():
        print(
            f"{name:<18}{one['first_ms']:>6,.0f} ms{one['next_ms']:>6,.0f} ms{one['state_bytes'] / 1000:>10,.1f} kB"
        )
    for name, value in found["figures"].items():
        print(f"{name}: {value:,} of {BUDGETS[name]:,}{'  OVER' if name in over else ''}")
    return bool(over)


if __name__ == "__main__":
    sys.exit(main())
