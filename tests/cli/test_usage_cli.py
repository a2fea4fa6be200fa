"""``rightlab usage import`` (contract)."""

import contextlib
import json
import os
import pty
import subprocess
from pathlib import Path
from typing import Any

import pytest

ENTRY = {
    "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_5m_tokens", "cache_write_1h_tokens",
    "cost_usd",
}  # fmt: skip


def row(key: str, model: str = "claude-sonnet-5-5", **more: Any) -> str:
    split = {"ephemeral_5m_input_tokens": 40, "ephemeral_1h_input_tokens": 60}
    usage = {"input_tokens": 10, "output_tokens": 20, "cache_read_input_tokens": 30, "cache_creation": split}
    usage["cache_creation_input_tokens"] = 100
    message = {"id": key, "model": model, "usage": usage}
    frame = {"type": "assistant", "timestamp": "2026-11-30T23:30:00Z", "sessionId": "s", "version": "2.1.332"}
    return json.dumps({**frame, "message": message, **more})


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "projects"
    (root / "p" / "s" / "subagents").mkdir(parents=True)
    ask = json.dumps({"type": "user", "uuid": "u1", "message": {"role": "user", "content": "hello"}})
    rows = [ask, row("m1"), row("m1"), "{broken", row("m2", "claude-zebra-9")]
    (root / "p" / "s.jsonl").write_text("\n".join(rows) + "\n")
    (root / "p" / "s" / "subagents" / "agent-1.jsonl").write_text(row("m3", version="2.1.50") + "\n")
    (root / "p" / "notes.txt").write_text("not a transcript")
    return root


def test_the_document_is_the_contracts(cli, tree: Path) -> None:
    done = cli("usage", "import", str(tree), "--json")
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert set(found) == {
        "files", "lines", "requests", "turns", "duplicates", "errors", "notes", "totals", "by_model", "by_day",
    }  # fmt: skip
    counts = [found[name] for name in ("files", "lines", "requests", "turns", "duplicates")]
    assert counts == [2, 6, 3, 1, 1]
    (error,) = found["errors"]
    assert set(error) == {"file", "line", "error"}
    assert (error["file"], error["line"]) == (str(tree / "p" / "s.jsonl"), 4)
    assert len(found["notes"]) == 1
    assert "agent-1.jsonl" in found["notes"][0]
    assert set(found["totals"]) == ENTRY | {"cost_complete", "unknown_models"}
    assert found["totals"]["cost_complete"] is False
    assert found["totals"]["unknown_models"] == ["claude-zebra-9"]
    assert set(found["by_model"]) == {"claude-sonnet-5-5", "claude-zebra-9"}
    assert all(set(entry) == ENTRY for entry in (*found["by_model"].values(), *found["by_day"].values()))
    cost = 2 * (10 * 2 + 20 * 10 + 30 * 0.10 + 40 * 2.50 + 60 * 4) / 1e6
    assert found["totals"]["cost_usd"] == pytest.approx(cost)
    assert found["by_model"]["claude-zebra-9"]["cost_usd"] is None
    assert list(found["by_day"]) == ["2026-11-30"]
    assert found["totals"]["output_tokens"] == 60


def test_days_are_in_the_asked_zone(cli, tree: Path) -> None:
    found = json.loads(cli("usage", "import", str(tree), "--tz", "Europe/Berlin", "--json").stdout)
    assert list(found["by_day"]) == ["2026-12-01"]


def test_people_get_a_text(cli, tree: Path) -> None:
    done = cli("usage", "import", str(tree))
    assert (done.returncode, done.stderr) == (0, "")
    for words in (
        "3 requests of 1 prompts",
        "unknown",
        "No known price: claude-zebra-9",
        "s.jsonl:4:",
        "2.1.50",
    ):
        assert words in done.stdout


def test_a_second_import_into_a_store_says_the_same(cli, tree: Path, tmp_path: Path) -> None:
    args = ("usage", "import", str(tree), "--store", str(tmp_path / "store"), "--json")
    first, second = cli(*args), cli(*args)
    assert first.returncode == second.returncode == 0
    assert first.stdout == second.stdout == cli("usage", "import", str(tree), "--json").stdout
    (tree / "p" / "s.jsonl").unlink()
    assert json.loads(cli(*args).stdout)["totals"] == json.loads(first.stdout)["totals"]


def test_it_neither_needs_nor_touches_a_home(cli, tree: Path, tmp_path: Path) -> None:
    strange = tmp_path / "strange"
    strange.mkdir()
    (strange / "file").write_text("no home of ours")
    home, user = tmp_path / "home", tmp_path / "user"
    user.mkdir()
    for env in ({"RIGHTLAB_HOME": str(strange)}, {"RIGHTLAB_HOME": str(home)}, {"HOME": str(user)}):
        assert cli("usage", "import", str(tree), "--json", env=env).returncode == 0
    assert cli("--home", str(home), "usage", "import", str(tree)).returncode == 0
    assert [path.name for path in strange.iterdir()] == ["file"]
    assert not home.exists()
    assert list(user.iterdir()) == []


@pytest.mark.parametrize(
    "args",
    [
        ["usage", "import"],
        ["usage", "import", "nowhere", "--json"],
        ["usage", "import", "/dev/null", "--json"],
        ["usage", "import", "{tree}", "nowhere", "--json"],
        ["usage", "import", "{tree}", "--tz", "Mars/Base", "--json"],
        ["usage", "import", "{tree}", "--wrong"],
        ["usage", "import", "{tree}", "--store", "{tree}/p/notes.txt", "--json"],
    ],
)
def test_bad_usage_is_one_line_and_exit_2(cli, tree: Path, args: list[str]) -> None:
    done = cli(*(arg.format(tree=tree) for arg in args))
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1


def test_people_at_a_terminal_see_a_bar_and_it_leaves_the_text_alone(
    rightlab_command: list[str], tree: Path
) -> None:
    ours, theirs = pty.openpty()
    done = subprocess.run(
        [*rightlab_command, "usage", "import", str(tree)],
        stdout=subprocess.PIPE,
        stderr=theirs,
        timeout=60,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "120"},
    )
    os.close(theirs)
    shown = b""
    with contextlib.suppress(OSError):  # so the end looks on Linux
        while chunk := os.read(ours, 65536):
            shown += chunk
    os.close(ours)
    assert done.returncode == 0
    assert b"2 files" in shown
    assert b"3 requests of 1 prompts" in done.stdout
    assert b"\x1b" not in done.stdout
