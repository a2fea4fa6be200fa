"""The prompt editor's figures in one command: ``python3 tests/bench/prompt_view.py [--rounds N] [--json]``.

An agent with a prompt of 60 kB; one section is edited over and over, a small one and one of 45 kB:

* ``kernel``: from the arrival of an edit until everything it changes was handed to the page
* ``end to end``: from the end of the pause in typing (when the editor sends) until what the model reads is in the page,
  in JupyterLab and Chromium, kernel and all (budget 50 ms)
* ``from the key``: the same from the last key, the pause of 120 ms included
* the view's state (budget 100 kB) and the time to open it

JupyterLab and Chromium are started here, on loopback, with a home of their own.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "browser"))

from conftest import CHROMIUM, CHROMIUM_ARGS, LabServer, Notebook, opened

BUDGETS = {"median end to end (ms)": 50, "largest state (bytes)": 100_000}

RULE = "- Rule {n}: say what is so, leave out what is not, and name the file it was read from.\n"
FILES = {"SOUL.md": 520, "USER.md": 4, "TOOLS.md": 90}
SECTIONS = {"small": "identity:user", "45 kB": "identity:soul"}

OPEN = """
import rightlab
lab = rightlab.open()
lab.prompt()
"""

TYPE = """([area, number]) => new Promise((done, fail) => {
  const marks = ["rightlab-edit", "rightlab-shown"];
  marks.forEach(one => performance.clearMarks(one));
  const half = area.value.indexOf("\\n", area.value.length / 2) + 1;
  area.focus();
  area.setSelectionRange(half, half);
  const start = performance.now();
  document.execCommand("insertText", false, `typed ${number} `);
  const look = () => {
    const [sent, shown] = marks.map(one => performance.getEntriesByName(one)[0]?.startTime);
    if (sent && shown > sent) requestAnimationFrame(() => done([shown - sent, shown - start]));
    else if (performance.now() - start > 10000) fail(new Error("no answer within 10 s"));
    else setTimeout(look, 1);
  };
  look();
})"""


def make(folder: Path) -> Any:
    from rightlab.home import Home
    from rightlab.runtime.setup import make_agent

    agent = make_agent(
        Home.resolve(folder / "home"), "bench", bootstrap=False, overrides={"sandbox.mode": "none"}
    )
    for name, lines in FILES.items():
        (agent.guest_dir / name).write_text("".join(RULE.format(n=n) for n in range(lines)))
    return agent


def kernel(agent: Any, rounds: int) -> dict[str, Any]:
    """Edits as they arrive from a page, without one; the widgets have nobody to talk to."""
    from rightlab.lab import Lab
    from rightlab.views import PromptView

    began = time.perf_counter()
    view = PromptView(Lab(agent))
    found: dict[str, Any] = {"open_ms": (time.perf_counter() - began) * 1000, "bytes": view.desk.bytes}
    for name, section in SECTIONS.items():
        view._on_message(view.editor, {"kind": "select", "section": section}, [])
        lines = view.editor.text.splitlines(keepends=True)
        samples = []
        for number in range(rounds):
            lines[len(lines) // 2] = f"- typed {number} and more\n"
            message = {
                "kind": "edit",
                "section": section,
                "text": "".join(lines),
                "page": "bench",
                "number": number,
            }
            began = time.perf_counter()
            view._on_message(view.editor, message, [])
            samples.append((time.perf_counter() - began) * 1000)
            time.sleep(0.02)
        found[name] = {**spread(samples), "state_bytes": view.state_bytes}
    view.close()
    return found


def page(notebook: Notebook, rounds: int) -> dict[str, Any]:
    notebook.run_all()
    view = notebook.page.locator(".rightlab-view")
    area = view.locator("textarea")
    found: dict[str, Any] = {}
    for name, section in SECTIONS.items():
        view.get_by_label(f"Edit {section}").check()
        view.get_by_text(f"{section} ·").wait_for()
        samples = []
        for number in range(rounds + 1):
            samples.append(notebook.page.evaluate(TYPE, [area.element_handle(), number]))
            # Lint and cache effect of the last edit are through: nobody types again so soon after a pause.
            notebook.page.wait_for_timeout(400)
        found[name] = {
            "end_to_end": spread([sent for sent, _ in samples[1:]]),
            "from_the_key": spread([key for _, key in samples[1:]]),
        }
    return found


def spread(samples: list[float]) -> dict[str, float]:
    ordered = sorted(samples)
    return {
        "median_ms": round(statistics.median(ordered), 1),
        "p90_ms": round(ordered[int(len(ordered) * 0.9)], 1),
        "max_ms": round(ordered[-1], 1),
    }


def measure(folder: Path, rounds: int) -> dict[str, Any]:
    from playwright.sync_api import sync_playwright

    agent = make(folder)
    inside = kernel(agent, rounds)
    server = LabServer(folder, env={"RIGHTLAB_HOME": str(agent.home.path)})
    server.start()
    try:
        path = server.write("prompt.ipynb", [OPEN], kernel="rightlab")
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=CHROMIUM_ARGS)
            notebook = opened(browser.new_context(), server, path, "light", width=1280, height=1000)
            outside = page(notebook, rounds)
            browser.close()
    finally:
        server.stop()
    figures = {
        "median end to end (ms)": max(one["end_to_end"]["median_ms"] for one in outside.values()),
        "largest state (bytes)": max(inside[name]["state_bytes"] for name in SECTIONS),
    }
    return {"rounds": rounds, "kernel": inside, "page": outside, "figures": figures, "budgets": BUDGETS}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rl-prompt-") as folder:
        found = measure(Path(folder), options.rounds)
    over = [name for name, most in BUDGETS.items() if found["figures"][name] > most]
    if options.json:
        print(json.dumps({**found, "over": over}, indent=2))
        return bool(over)
    print(
        f"a prompt of {found['kernel']['bytes'] / 1000:.1f} kB, opened in {found['kernel']['open_ms']:.0f} ms"
    )
    for name in SECTIONS:
        print(f"edits of a section, {name} (n = {options.rounds}; median, P90, longest):")
        rows = {"kernel": found["kernel"][name], **found["page"][name]}
        for label, one in rows.items():
            figures = (one[key] for key in ("median_ms", "p90_ms", "max_ms"))
            print(f"  {label.replace('_', ' '):<14}" + "".join(f"{value:>9.1f} ms" for value in figures))
        print(f"  {'state':<14}{found['kernel'][name]['state_bytes'] / 1000:>9.1f} kB")
    for name, value in found["figures"].items():
        print(f"{name}: {value:,} of {BUDGETS[name]:,}{'  OVER' if name in over else ''}")
    return bool(over)


if __name__ == "__main__":
    sys.exit(main())
