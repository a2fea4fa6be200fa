"""Finding the CLI (contract, Environment)."""

from pathlib import Path

import pytest

from rightlab.claude import MINIMUM_VERSION, find_cli
from rightlab.errors import ClaudeError

MINIMUM = ".".join(map(str, MINIMUM_VERSION))


def make(folder: Path, version: str, name: str = "claude", *, count: Path | None = None) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    note = f"echo x >> {count}\n" if count else ""
    path.write_text(f"#!/bin/sh\n{note}echo '{version} (Claude Code)'\n")
    path.chmod(0o755)
    return path


def test_the_named_one_goes_first(tmp_path: Path) -> None:
    named = make(tmp_path / "a", "2.4.0", "mine")
    make(tmp_path / "b", "2.5.0")
    cli = find_cli({"RIGHTLAB_CLAUDE": str(named), "PATH": str(tmp_path / "b")})
    assert (cli.path, cli.version, cli.source) == (named, "2.4.0", "env")


def test_the_one_on_path_if_new_enough(tmp_path: Path) -> None:
    path = make(tmp_path, MINIMUM)
    assert find_cli({"PATH": str(tmp_path)}).path == path
    make(tmp_path, "2.1.197")
    assert find_cli({"PATH": str(tmp_path)}).source == "bundled"


@pytest.mark.parametrize(
    ("version", "words"),
    [("2.1.197", "2.1.197 is too old"), ("3.0.0", "3.0.0 is too new"), ("hello", "not Claude Code")],
)
def test_a_named_one_of_another_version_is_an_error(tmp_path: Path, version: str, words: str) -> None:
    named = make(tmp_path, version)
    with pytest.raises(ClaudeError, match=words) as caught:
        find_cli({"RIGHTLAB_CLAUDE": str(named)})
    text = str(caught.value)
    assert str(named) in text
    assert "pip install" in text
    assert "\n" not in text
    if version[0].isdigit():
        assert f">={MINIMUM},<3" in text


def test_missing_not_executable_and_failing_ones(tmp_path: Path) -> None:
    with pytest.raises(ClaudeError, match="no Claude Code here"):
        find_cli({"RIGHTLAB_CLAUDE": str(tmp_path / "none")})
    path = make(tmp_path, MINIMUM)
    path.chmod(0o644)
    with pytest.raises(ClaudeError, match="cannot be executed"):
        find_cli({"RIGHTLAB_CLAUDE": str(path)})
    with pytest.raises(ClaudeError, match="cannot be executed"):
        find_cli({"RIGHTLAB_CLAUDE": str(tmp_path)})
    path.write_text("#!/bin/sh\nexit 7\n")
    path.chmod(0o755)
    with pytest.raises(ClaudeError, match="exit code 7"):
        find_cli({"RIGHTLAB_CLAUDE": str(path)})
    path.write_bytes(b"\x00garbage")
    with pytest.raises(ClaudeError, match="does not start"):
        find_cli({"RIGHTLAB_CLAUDE": str(path)})


def test_the_version_is_asked_once_per_file(tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    path = make(tmp_path, MINIMUM, count=asked)
    for _ in range(3):
        find_cli({"RIGHTLAB_CLAUDE": str(path)})
    assert asked.read_text() == "x\n"
    make(tmp_path, "2.9.10", count=asked)
    assert find_cli({"RIGHTLAB_CLAUDE": str(path)}).version == "2.9.10"


def test_no_cli_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rightlab.claude.cli.find_spec", lambda name: None)
    with pytest.raises(ClaudeError, match="not installed"):
        find_cli({"PATH": str(tmp_path)})
    make(tmp_path, "1.0.0")
    with pytest.raises(ClaudeError, match=r"1\.0\.0 is too old"):
        find_cli({"PATH": str(tmp_path)})
