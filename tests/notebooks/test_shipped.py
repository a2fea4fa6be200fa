"""The notebooks that come with rightlab: run from top to bottom, headless, on the demo agent and on a real one.

Each of them is run by papermill with our engine and by nbclient; what it shows must be readable where nothing but
sanitised HTML or text is (spec jupyter 1.5, 1.8; spec views).
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import nbformat
import pytest

pytestmark = [pytest.mark.kernel, pytest.mark.claude, pytest.mark.sandbox]

FOLDER = Path(__file__).resolve().parents[2] / "notebooks"

TABLES = {
    "00_start": ["System prompt of this turn", "Runs, newest first"],
    "01_prompts": [
        "Sections in the order the model reads them",
        "Sections that differ",
        "Predicted, not measured",
    ],
    "02_skills": ["Skills"],
    "03_costs": [
        "By source",
        "By day and model",
        "Dearest invocations",
        "Percentiles",
        "By day",
        "Cost by day and source",
        "Dearest turns and why",
    ],
    "04_curator": ["By day", "Skills"],
    "05_crons": ["Jobs", "Runs, newest first"],
}
"""The tables each notebook must show, as HTML and as text."""

WIDGET = "application/vnd.jupyter.widget-view+json"
STATE_LIMIT = 100_000
"""Bytes of state a view may leave in a file (design 11)."""

# What JupyterLab 4.6 keeps of an untrusted output, as far as we use it.
TAGS = {
    *(
        "a",
        "bdi",
        "br",
        "caption",
        "code",
        "del",
        "details",
        "div",
        "em",
        "ins",
        "kbd",
        "li",
        "mark",
        "meter",
    ),
    *("ol", "p", "pre", "span", "strong", "summary", "table", "tbody", "td", "th", "thead", "tr", "ul"),
}
ATTRIBUTES = {
    *("style", "title", "href", "open", "min", "max", "value", "colspan", "scope", "class", "border"),
}


class Sanitiser(HTMLParser):
    """Fails on what the sanitiser would take away."""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in TAGS, f"<{tag}> does not survive"
        for name, value in attrs:
            assert name in ATTRIBUTES, f"<{tag} {name}> does not survive"
            if name == "style":
                assert "var(" not in (value or ""), f"{value} does not survive"
                assert not re.search(r"(^|;)\s*color:", value or ""), f"{value} sets a text colour"
            if name == "href":
                assert not re.match(r"\s*(javascript|data|vbscript)", value or "", re.IGNORECASE)


@dataclass(frozen=True)
class Agent:
    """Where an agent lives, and its name."""

    home: Path
    name: str


@pytest.fixture(scope="session")
def demo_agent(tmp_path_factory: pytest.TempPathFactory) -> Agent:
    """The demo as ``rightlab demo`` leaves it: turns, a cron that ran."""
    from rightlab.home import Home
    from rightlab.runtime.demo import prepare_demo, run_once

    prepared = prepare_demo(Home.resolve(tmp_path_factory.mktemp("demo") / "home"))
    run_once(prepared)
    return Agent(prepared.home.path, prepared.agent.name)


@pytest.fixture(scope="session")
def scripted_upstream() -> Iterator[str]:
    """A Messages API on loopback, for agents that believe theirs is a real one."""
    from rightlab.testing import ScriptedModel

    with ScriptedModel() as model:
        yield model.url


def _init(home: Path, upstream: str) -> Any:
    from rightlab.home import Home
    from rightlab.runtime.setup import make_agent

    agent = make_agent(Home.resolve(home), "alice", overrides={"gateway.upstream": upstream})
    agent.secrets().set("claude_credential", "not-a-real-key")
    return agent


@pytest.fixture(scope="session")
def real_agent(tmp_path_factory: pytest.TempPathFactory, scripted_upstream: str) -> Agent:
    """An agent of ``rightlab init`` that has lived a little: a turn, a cron run, a skill it taught itself."""
    from rightlab.runtime import host
    from rightlab.runtime.crons import Crons

    agent = _init(tmp_path_factory.mktemp("real") / "home", scripted_upstream)
    skill = agent.guest_dir / ".claude/skills/rightx-release-notes/SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text(
        "---\nname: rightx-release-notes\ndescription: Write release notes.\n---\n\n1. Read the log.\n"
    )
    host.up(agent, host="test")
    try:
        host.ask(agent, "hello", timeout=90)
        crons = Crons(agent)
        crons.add("nightly", schedule="17 2 * * *", prompt="Say what happened.")
        assert crons.wait(crons.trigger("nightly"), timeout=90)["status"] == "success"
    finally:
        host.down(agent)
    return Agent(agent.home.path, agent.name)


@pytest.fixture(params=["demo_agent", "real_agent"])
def agent(request: pytest.FixtureRequest) -> Agent:
    found: Agent = request.getfixturevalue(request.param)
    return found


def run_papermill(
    source: Path, target: Path, where: Agent, monkeypatch: pytest.MonkeyPatch, **parameters: Any
) -> Any:
    """What ``papermill --engine rightlab`` does, without its 2 s of start."""
    import papermill

    monkeypatch.setenv("RIGHTLAB_HOME", str(where.home))
    papermill.execute_notebook(
        source,
        target,
        parameters=parameters,
        engine_name="rightlab",
        progress_bar=False,
        cwd=str(target.parent),
    )
    return nbformat.read(target, as_version=4)


def run_nbclient(source: Path | Any, target: Path, agent: Agent) -> Any:
    """The notebook executed as nbconvert and most CI systems do it."""
    from nbclient import NotebookClient

    notebook = nbformat.read(source, as_version=4) if isinstance(source, Path) else source
    client = NotebookClient(notebook, timeout=90, resources={"metadata": {"path": str(target.parent)}})
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    client.execute(env={**os.environ, "RIGHTLAB_HOME": str(agent.home), "PATH": path})
    nbformat.write(notebook, target)
    return notebook


def outputs_of(notebook: Any) -> list[Any]:
    return [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]


def check_shown(notebook: Any, captions: list[str]) -> None:
    """No error, nothing that only a widget or only HTML shows, sanitiser-safe, and the tables in both forms."""
    nbformat.validate(notebook)
    outputs = outputs_of(notebook)
    assert not [output for output in outputs if output.output_type == "error"]
    assert not [
        output.text for output in outputs if output.output_type == "stream" and output.name == "stderr"
    ]
    shown = [output.data for output in outputs if "data" in output]
    assert shown
    for data in shown:
        assert "text/plain" in data
        if WIDGET in data:
            assert "text/html" in data, f"only a widget: {data['text/plain'][:80]}"
        check_html(data.get("text/html", ""))
    live = {data[WIDGET]["model_id"] for data in shown if WIDGET in data}
    state = notebook.metadata.get("widgets", {})
    assert len(json.dumps(state)) <= STATE_LIMIT * len(live) + 1_000, (
        "the state of live views swells the file"
    )
    html = "\n".join(data.get("text/html", "") for data in shown)
    text = "\n".join(data["text/plain"] for data in shown)
    for caption in captions:
        assert re.search(rf"<caption[^>]*><strong>{re.escape(caption)}", html), f"no table {caption!r}"
        assert re.search(rf"^{re.escape(caption)}", text, re.MULTILINE), f"no text table {caption!r}"


def check_html(html: str) -> None:
    # pandas puts a style sheet before its tables; the sanitiser drops it and the table stays readable.
    html = re.sub(
        r'<style scoped>.*?</style>\s*(?=<table border="1" class="dataframe")', "", html, flags=re.DOTALL
    )
    reader = Sanitiser()
    reader.feed(html)
    reader.close()


def test_the_six_notebooks_are_there() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.ipynb")) == sorted(TABLES)


@pytest.mark.parametrize("name", TABLES)
def test_source_is_clean(name: str) -> None:
    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    nbformat.validate(notebook)
    assert notebook.metadata.kernelspec.name == "rightlab"
    assert set(notebook.metadata) == {"kernelspec", "language_info"}
    ids = [cell.id for cell in notebook.cells]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"[a-z0-9-]+", one) for one in ids), "ids are words, so that diffs stay small"
    for cell in notebook.cells:
        assert set(cell.metadata) <= {"tags"}
        if cell.cell_type == "code":
            assert cell.outputs == []
            assert cell.execution_count is None
            # Doctor looks into the sandbox: only a person asks for it.
            assert "doctor" not in cell.source
    links = re.findall(r"\]\((\d\d_\w+)\.ipynb\)", "\n".join(cell.source for cell in notebook.cells))
    assert links
    assert set(links) <= set(TABLES)


@pytest.mark.parametrize("name", TABLES)
def test_papermill_runs_it_with_our_engine(
    name: str, agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notebook = run_papermill(FOLDER / f"{name}.ipynb", tmp_path / "out.ipynb", agent, monkeypatch)
    check_shown(notebook, TABLES[name])
    assert {cell.metadata.papermill.status for cell in notebook.cells} == {"completed"}
    assert notebook.metadata.rightlab.status == "success"


@pytest.mark.parametrize("name", TABLES)
def test_nbclient_runs_it(name: str, agent: Agent, tmp_path: Path) -> None:
    notebook = run_nbclient(FOLDER / f"{name}.ipynb", tmp_path / "out.ipynb", agent)
    check_shown(notebook, TABLES[name])


def test_the_papermill_command_runs_the_first(demo_agent: Agent, tmp_path: Path) -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "papermill", "--engine", "rightlab", "-p", "agent", "demo"),
            *(str(FOLDER / "00_start.ipynb"), "out.ipynb"),
        ],
        cwd=tmp_path,
        env={**os.environ, "RIGHTLAB_HOME": str(demo_agent.home)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    check_shown(nbformat.read(tmp_path / "out.ipynb", as_version=4), TABLES["00_start"])


def test_an_agent_that_never_ran_is_no_error(
    tmp_path: Path, scripted_upstream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """01 to 05, one after another in one kernel, before the first turn: empty states, each saying what fills it."""
    agent = _init(tmp_path / "home", scripted_upstream)
    whole = nbformat.v4.new_notebook(
        metadata={"kernelspec": {"name": "rightlab", "display_name": "rightlab"}}
    )
    for name in list(TABLES)[1:]:
        part = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
        whole.cells += [
            {**cell, "id": f"{name[:2]}-{cell.id}"} for cell in part.cells if cell.cell_type == "code"
        ]
    whole = nbformat.from_dict(whole)
    notebook = run_nbclient(whole, tmp_path / "out.ipynb", Agent(agent.home.path, agent.name))
    check_shown(notebook, ["Sections in the order the model reads them"])
    text = "\n".join(output.data["text/plain"] for output in outputs_of(notebook) if "data" in output)
    for empty in ("0 learned", "No invocation in this window.", "No job yet.", "No run yet."):
        assert empty in text
    assert not (agent.run_dir / "state.json").exists()


def test_the_agent_is_the_one_lab_was_started_for(
    demo_agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scripted_upstream: str
) -> None:
    """In a home of two, a parameter or ``rightlab lab NAME`` says which; without both it is one clear line."""
    from papermill.exceptions import PapermillExecutionError

    from rightlab.home import Home
    from rightlab.runtime.setup import make_agent

    agent = _init(tmp_path / "home", scripted_upstream)
    make_agent(Home.resolve(tmp_path / "home"), "bob", overrides={"gateway.upstream": scripted_upstream})
    both = Agent(agent.home.path, "bob")
    source = FOLDER / "02_skills.ipynb"
    with pytest.raises(PapermillExecutionError, match="which agent\\? This home has: alice, bob"):
        run_papermill(source, tmp_path / "none.ipynb", both, monkeypatch)
    monkeypatch.setenv("RIGHTLAB_AGENT", "bob")
    named = run_papermill(source, tmp_path / "named.ipynb", both, monkeypatch)
    assert "bob · skills" in named.cells[2].outputs[0].data["text/plain"]
    given = run_papermill(source, tmp_path / "given.ipynb", both, monkeypatch, agent="alice")
    assert any(
        "alice · skills" in output.data["text/plain"] for output in outputs_of(given) if "data" in output
    )
