"""House rules that a machine can check (design 3, 12)."""

import ast
import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import rightlab

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "rightlab"
MODULES = sorted(PACKAGE.rglob("*.py"))

# contract.md, "Python" and "Which issue brings which name": what the spine brings.
CONTRACT = {
    "rightlab": ["open", "demo", "result", "deliver", "silent"],
    "rightlab.prompt": [
        "PromptRegistry",
        "Assembly",
        "TOOL_ORDER_REST",
        "render_template",
        "join_sections",
        "wrap_untrusted",
        "sanitize_external",
        "build_assembly_script",
    ],
    "rightlab.errors": ["RightlabError", "PromptError", "TemplateError"],
    "rightlab.usage": ["percentile", "summarize", "price"],
    "rightlab.cron": ["next_fires", "parse_schedule"],
    "rightlab.telegram": ["RichContent", "split_text"],
    "rightlab.content": ["RichContent", "split_text"],
    "rightlab.claude": ["Invocation", "parse_stream", "ClaudeTransport"],
    "rightlab.sandbox": ["open_sandbox"],
    "rightlab.testing": ["ScriptedModel", "ScriptedTransport", "BotApi", "FrozenClock"],
    "rightlab.kernel": ["load_ipython_extension", "unload_ipython_extension"],
}


@pytest.mark.parametrize(("module", "name"), [(m, n) for m, names in CONTRACT.items() for n in names])
def test_contract_name_exists_and_is_exported(module: str, name: str) -> None:
    loaded = importlib.import_module(module)
    assert name in loaded.__all__
    assert getattr(loaded, name) is not None


def _all_modules() -> list[str]:
    return sorted(
        info.name
        for info in pkgutil.walk_packages(rightlab.__path__, "rightlab.")
        if not info.name.endswith("__main__")
    )


@pytest.mark.parametrize("name", _all_modules())
def test_every_module_lists_its_names_and_has_them(name: str) -> None:
    module = importlib.import_module(name)
    if ".migrations.m" in name:
        return
    assert isinstance(module.__all__, list | tuple), f"{name} has no __all__"
    for public in module.__all__:
        assert hasattr(module, public), f"{name} lists {public} and does not have it"


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_module_is_not_too_long(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 800


def test_imports_follow_the_layers() -> None:
    done = subprocess.run(
        [Path(sys.executable).parent / "lint-imports", "--config", ROOT / "pyproject.toml"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_types_hold() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", "pyproject.toml"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("arguments", [["check"], ["format", "--check"]])
def test_style_holds(arguments: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ruff", *arguments, "."], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_only_the_invocation_builder_makes_a_claude_command_line() -> None:
    offenders = []
    for path in MODULES:
        if path.name == "invocation.py" and path.parent.name == "claude":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.List | ast.Tuple):
                words = [item.value for item in node.elts if isinstance(item, ast.Constant)]
                if "-p" in words or "--output-format" in words or "--dangerously-skip-permissions" in words:
                    offenders.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert offenders == []


def test_nothing_speaks_of_other_machines() -> None:
    """No file names a folder of the machine it was written on."""
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    found = []
    for name in listed:
        path = ROOT / name
        if path.suffix in {".png", ".ico", ".db", ".sqlite"} or not path.is_file():
            continue
        text = path.read_text(errors="ignore")
        found += [
            f"{name}: {word}"
            for word in ("/wo" + "rk/main", "/opt/ve" + "nv", "/root/" + ".pyenv")
            if word in text
        ]
    assert found == []
