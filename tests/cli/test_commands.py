"""The command line as people use it: exit codes, one clear line, JSON that is alone on stdout (contract)."""

import json
import os
import signal
import socket
import stat
import subprocess
import time
from pathlib import Path

import pytest

pytestmark = [pytest.mark.claude, pytest.mark.sandbox]


def one_line(done: subprocess.CompletedProcess[str], code: int) -> str:
    assert done.returncode == code, (done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    assert len(lines) == 1, done.stderr
    if code == 2:
        assert done.stdout == ""
    return lines[0]


@pytest.fixture
def alice(cli, tmp_path):
    """An agent on the scripted model: ``alice("status", ...)`` runs a command on its home."""
    home = tmp_path / "home"
    made = cli("--home", str(home), "init", "alice", "-y")
    assert made.returncode == 0, made.stderr
    config = home / "agents/alice/agent.yaml"
    text = config.read_text()
    assert "https://api.anthropic.com" in text
    config.write_text(text.replace("https://api.anthropic.com", "scripted:builtin"))

    def run(*args: str, **more):
        return cli("--home", str(home), *args, **more)

    run.home = home
    yield run
    run("down", "alice")


def test_help_and_version_need_no_home(cli, tmp_path) -> None:
    for args in (["--help"], ["--version"], ["cron", "--help"]):
        done = cli("--home", str(tmp_path / "x"), *args)
        assert done.returncode == 0
        assert done.stdout
    assert not (tmp_path / "x").exists()


def test_usage_errors_are_one_line_and_exit_2(cli, tmp_path) -> None:
    home = ["--home", str(tmp_path / "home")]
    for args in (
        ["fly"],
        ["init"],
        ["init", "Alice", "-y"],
        ["init", "a" * 40, "-y"],
        ["init", "alice", "-y", "--sandbox", "cage"],
        ["init", "alice", "-y", "--allow", "me"],
        ["ask", "nobody", "hi"],
        ["ask", "nobody", "hi", "--json"],
        ["prompt", "nobody", "--json"],
        ["status", "nobody"],
        ["cron", "list", "nobody", "--json"],
        ["cron", "explain", "* * * * * *", "--tz", "UTC", "--json"],
        ["cron", "explain", "0 9 * * *", "--tz", "Mars/Base"],
        ["demo", "--json"],
    ):
        one_line(cli(*home, *args), 2)


def test_what_comes_later_says_so(cli) -> None:
    for args in (
        ["skills", "x"],
        ["curator", "x", "--plan"],
        ["export", "x", "--html", "y"],
        ["mcp", "status", "x"],
        ["agent", "backup", "x"],
    ):
        done = cli(*args)
        assert done.returncode == 1
        assert "not available yet" in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1


def test_explain_is_the_contracts_document_and_needs_no_home(cli, tmp_path) -> None:
    done = cli(
        "--home", str(tmp_path / "x"), "cron", "explain", "30 2 * * *", "--tz", "America/New_York",
        "--from", "2026-03-07T12:00:00Z", "-n", "3", "--json",
    )  # fmt: skip
    found = json.loads(done.stdout)
    assert set(found) >= {"expr", "tz", "sentence", "fires"}
    assert [fire["local"][:16] for fire in found["fires"]] == [
        "2026-03-08T03:00",
        "2026-03-09T02:30",
        "2026-03-10T02:30",
    ]
    assert found["fires"][0]["offset"] == "-04:00"
    assert not (tmp_path / "x").exists()


def test_init_makes_what_the_contract_says(alice) -> None:
    root = alice.home / "agents/alice"
    for name in (
        "agent.yaml",
        "allowlist.yaml",
        "data.db",
        "secrets.json",
        "BOOTSTRAP.md",
        "sandbox/TOOLS.md",
    ):
        assert (root / name).exists(), name
    assert stat.S_IMODE((root / "secrets.json").stat().st_mode) == 0o600
    assert (alice.home / "rightlab.json").exists()
    assert "already" in one_line(alice("init", "alice", "-y"), 2)


def test_a_foreign_folder_is_refused(cli, tmp_path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    for args in (["init", "alice", "-y"], ["list"], ["status"], ["demo", "--once"]):
        one_line(cli("--home", str(tmp_path), *args), 2)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_list_status_and_agent_commands(alice) -> None:
    assert "alice" in alice("list").stdout
    assert json.loads(alice("status", "alice", "--json").stdout)["up"] is False
    assert "down" in alice("status").stdout
    assert alice("agent", "allow", "alice", "42", "--label", "me").returncode == 0
    allowed = json.loads(alice("agent", "allowed", "alice", "--json").stdout)
    assert allowed["users"][0]["id"] == 42
    assert alice("agent", "deny", "alice", "42").returncode == 0
    assert "Nobody" in alice("agent", "allowed", "alice").stdout
    one_line(alice("agent", "destroy", "alice"), 2)
    assert alice("agent", "destroy", "alice", "-y").returncode == 0
    assert not (alice.home / "agents/alice").exists()


def test_prompt_json_is_the_contracts_document(alice) -> None:
    document = json.loads(alice("prompt", "alice", "--json").stdout)
    assert document["mode"] == "normal"
    sections = document["sections"]
    assert document["bytes"] == len(document["text"].encode())
    assert document["bytes"] == sum(s["bytes"] for s in sections) + 2 * (len(sections) - 1)
    assert set(sections[0]) == {"name", "order", "owner", "bytes", "tokens", "sha256", "stability"}
    cron = json.loads(alice("prompt", "alice", "--mode", "cron", "--json").stdout)
    assert "## Cron Delivery Contract" in cron["text"]
    assert "## Cron Delivery Contract" not in document["text"]


def test_ask_without_an_owner_takes_the_lease_for_one_turn(alice) -> None:
    done = alice("ask", "alice", "hello there", "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    for key in ("reply", "session_id", "turn_id", "num_turns", "cost_usd", "usage", "elapsed_ms", "skills"):
        assert key in document
    assert document["num_turns"] == 2
    assert document["cost_usd"] > 0
    again = json.loads(alice("ask", "alice", "and again", "--json").stdout)
    assert again["session_id"] == document["session_id"]
    # A ledger that summed the cumulative total would show the second turn dearer by the first.
    assert again["cost_usd"] < 2 * document["cost_usd"]
    assert not (alice.home / "run/alice/state.json").exists()


def test_up_ask_down_through_the_owner(alice) -> None:
    assert alice("up", "alice").returncode == 0
    state = json.loads((alice.home / "run/alice/state.json").read_text())
    for name in ("state.json", "control.sock"):
        assert stat.S_IMODE((alice.home / "run/alice" / name).stat().st_mode) == 0o600
    assert "was up already" in alice("up", "alice").stdout
    assert json.loads(alice("status", "alice", "--json").stdout)["pid"] == state["pid"]
    assert alice("ask", "alice", "hello").returncode == 0
    assert "is up" in one_line(alice("agent", "destroy", "alice", "-y"), 2)
    assert "alice" in alice("logs", "alice").stdout
    assert alice("down", "alice").returncode == 0
    assert "was not up" in alice("down", "alice").stdout
    deadline = time.monotonic() + 5
    while Path(f"/proc/{state['pid']}").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not Path(f"/proc/{state['pid']}").exists()


def test_run_in_the_foreground_ends_on_sigterm(alice, rightlab_command) -> None:
    process = subprocess.Popen(
        [*rightlab_command, "--home", str(alice.home), "run", "alice"],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert "is up" in process.stderr.readline()
        second = alice("run", "alice")
        assert "already run" in one_line(second, 1)
        assert alice("ask", "alice", "hello").returncode == 0
        process.send_signal(signal.SIGTERM)
        assert process.wait(15) == 0
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert not (alice.home / "run/alice/state.json").exists()


def test_bad_agent_yaml_is_one_line_and_the_file_stays(alice) -> None:
    config = alice.home / "agents/alice/agent.yaml"
    before = config.read_text()
    config.write_text(before + "\nmodle: opus\n")
    line = one_line(alice("ask", "alice", "hi"), 2)
    assert "modle" in line
    assert "model" in line
    assert alice("doctor", "alice").returncode == 1
    assert "modle" in json.loads(alice("status", "alice", "--json").stdout)["problem"]
    config.write_text("model: [")
    one_line(alice("up", "alice"), 2)


def test_corrupt_database_is_one_line(alice) -> None:
    database = alice.home / "agents/alice/data.db"
    for extra in ("-wal", "-shm"):
        database.with_name(database.name + extra).unlink(missing_ok=True)
    database.write_bytes(b"this is no database" * 100)
    one_line(alice("ask", "alice", "hi"), 1)
    assert database.read_bytes().startswith(b"this is no database")


def test_missing_and_old_cli(alice, tmp_path) -> None:
    line = one_line(alice("ask", "alice", "hi", env={"RIGHTLAB_CLAUDE": str(tmp_path / "none")}), 1)
    assert "RIGHTLAB_CLAUDE" in line
    old = tmp_path / "claude"
    old.write_text("#!/bin/sh\necho '1.0.3 (Claude Code)'\n")
    old.chmod(0o755)
    line = one_line(alice("ask", "alice", "hi", env={"RIGHTLAB_CLAUDE": str(old)}), 1)
    assert "1.0.3" in line


def test_unreachable_upstream_fails_the_turn_in_one_line(alice) -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    config = alice.home / "agents/alice/agent.yaml"
    config.write_text(config.read_text().replace("scripted:builtin", f"http://127.0.0.1:{port}"))
    line = one_line(alice("ask", "alice", "hi"), 1)
    assert "failed" in line


def test_wrong_telegram_token_is_said_at_start(alice) -> None:
    from rightlab.testing import BotApi

    with BotApi(token="123456:the-right-one-the-right-one-the-right") as api:
        config = alice.home / "agents/alice/agent.yaml"
        text = config.read_text().replace("https://api.telegram.org", api.base_url)
        config.write_text(text)
        secrets = alice.home / "agents/alice/secrets.json"
        secrets.write_text(json.dumps({"telegram_token": "999999:wrong-wrong-wrong-wrong-wrong-wrong"}))
        line = one_line(alice("up", "alice"), 1)
        assert "token" in line
        assert "wrong-wrong" not in line
        assert alice("ask", "alice", "the notebook chat works all the same").returncode == 0


def test_doctor_names_a_fix_for_each_finding(alice) -> None:
    done = alice("doctor", "alice", "--json")
    report = json.loads(done.stdout)
    assert done.returncode == 0, report
    for finding in report["findings"]:
        assert finding["level"] == "pass" or finding["fix"], finding
    os.chmod(alice.home / "agents/alice/secrets.json", 0o644)
    assert alice("doctor", "alice").returncode == 1


def test_crons_from_the_command_line(alice, tmp_path) -> None:
    assert (
        alice("cron", "add", "alice", "note", "--schedule", "17 9 * * *", "--prompt", "say hi").returncode
        == 0
    )
    jobs = json.loads(alice("cron", "list", "alice", "--json").stdout)
    assert [job["job_name"] for job in jobs["jobs"]] == ["note"]
    one_line(alice("cron", "add", "alice", "note", "--schedule", "17 9 * * *", "--prompt", "again"), 2)
    one_line(alice("cron", "add", "alice", "x", "--schedule", "17 9 * * *"), 2)
    one_line(alice("cron", "add", "alice", "x", "--schedule", "61 9 * * *", "--prompt", "p"), 2)
    one_line(
        alice("cron", "add", "alice", "x", "--schedule", "@daily", "--notebook", str(tmp_path / "no.ipynb")),
        2,
    )
    one_line(alice("cron", "trigger", "alice", "nothing"), 2)
    assert alice("cron", "trigger", "alice", "note").returncode == 0
    assert alice("up", "alice").returncode == 0
    deadline = time.monotonic() + 40
    while time.monotonic() < deadline:
        runs = json.loads(alice("cron", "runs", "alice", "note", "--json").stdout)["runs"]
        if runs and runs[0]["status"] == "success" and runs[0]["delivery_status"] == "delivered":
            break
        time.sleep(0.5)
    else:
        raise AssertionError(runs)
    assert Path(runs[0]["notebook"]).is_file()
    assert alice("cron", "remove", "alice", "note").returncode == 0
    assert json.loads(alice("cron", "list", "alice", "--json").stdout)["jobs"] == []


def test_demo_once_is_one_document_in_under_30_seconds(cli, tmp_path) -> None:
    home = tmp_path / "home"
    started = time.monotonic()
    done = cli("--home", str(home), "demo", "--once", "--json")
    assert done.returncode == 0, done.stderr
    assert time.monotonic() - started < 30
    document = json.loads(done.stdout)
    assert set(document) >= {"turn", "cron", "home", "notebooks"}
    assert document["turn"]["status"] == "delivered"
    assert document["cron"]["status"] == "success"
    assert document["cron"]["delivery_status"] == "delivered"
    assert "scripted" in json.dumps(document["turn"]["reply"])
    notebook = Path(document["notebooks"]) / "00_start.ipynb"
    notebook.write_text(notebook.read_text() + "\n")
    again = json.loads(cli("--home", str(home), "demo", "--once", "--json").stdout)
    assert again["home"] == document["home"] == str(home / "demo")
    assert again["turn"]["session_id"] == document["turn"]["session_id"]
    assert notebook.read_text().endswith("\n\n")
