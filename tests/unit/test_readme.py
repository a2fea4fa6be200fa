"""The README is always true: its links exist, its commands parse, the messages it quotes are ours."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
SOURCES = "\n".join(path.read_text() for path in (ROOT / "rightlab").rglob("*.py"))


@pytest.mark.parametrize("target", re.findall(r"\]\(([^)#]+)\)", README))
def test_a_link_leads_to_a_file(target: str) -> None:
    assert target.startswith("https://") or (ROOT / target).exists()


def _commands() -> list[str]:
    blocks = re.findall(r"```bash\n(.*?)```", README, re.S)
    lines = [line.split("#")[0].strip() for block in blocks for line in block.splitlines()]
    parts = [part.strip() for line in lines for part in line.split("&&")]
    return [part for part in parts if part.startswith("rightlab ")]


@pytest.mark.parametrize("command", _commands())
def test_a_command_exists_with_its_options(command: str) -> None:
    words = shlex.split(command)[1:]
    names = []
    for word in words:
        if word.startswith("-") or not word.isalpha() or len(names) == 2:
            break
        names.append(word)
    for depth in range(len(names), 0, -1):
        done = subprocess.run(
            [sys.executable, "-m", "rightlab", *names[:depth], "--help"], capture_output=True, text=True
        )
        if done.returncode == 0 and "Commands:" not in done.stdout:
            break
    assert done.returncode == 0, command
    for option in (word for word in words if word.startswith("--")):
        assert option in done.stdout, command


def test_the_messages_it_quotes_are_ours() -> None:
    table = README[README.index("## Troubleshooting") : README.index("## Develop")]
    quoted = [row.split("|")[1].strip() for row in table.splitlines() if row.startswith("| `")]
    assert len(quoted) >= 3
    for cell in quoted:
        text = cell.strip("`").removesuffix("...").removesuffix("process N").strip(": ")
        assert text in SOURCES, text
