"""A home: fresh, ours or refused; agents that appear and disappear whole."""

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rightlab.errors import ConfigError, HomeError, OwnedElsewhere, UsageError
from rightlab.home import Home, Secrets, atomic_write


def tree(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*")} if folder.exists() else set()


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


def test_resolve_asks_option_then_variable_then_default() -> None:
    environ = {"HOME": "/h", "RIGHTLAB_HOME": "~/other"}
    assert Home.resolve("/x/../y", environ).path == Path("/y")
    assert Home.resolve(None, environ).path == Path("/h/other")
    assert Home.resolve(None, {"HOME": "/h", "RIGHTLAB_HOME": ""}).path == Path("/h/.rightlab")
    assert Home.resolve(Path("rel"), environ).path == Path.cwd() / "rel"


def test_reading_a_fresh_home_touches_nothing(home: Home) -> None:
    home.check()
    assert home.agents() == []
    with pytest.raises(UsageError, match="no agent alice"):
        home.agent("alice")
    assert not home.path.exists()


def test_an_empty_folder_is_a_fresh_home(home: Home) -> None:
    home.path.mkdir()
    home.check()
    home.mark()
    assert json.loads((home.path / "rightlab.json").read_text()) == {"format": 1}
    home.mark()
    home.check()


def test_a_folder_of_somebody_else_is_refused_and_left_alone(home: Home) -> None:
    home.path.mkdir()
    (home.path / "thesis.tex").write_text("mine")
    for use in (home.check, home.mark, home.agents, lambda: home.create_agent("alice")):
        with pytest.raises(HomeError, match="not a home of ours") as caught:
            use()
        assert "\n" not in str(caught.value)
        assert caught.value.exit_code == 2
    assert tree(home.path) == {"thesis.tex"}


def test_a_mark_cut_off_by_a_crash_does_not_lock_us_out(home: Home) -> None:
    home.path.mkdir()
    (home.path / ".rightlab.json.0123456789ab.tmp").write_text("{")
    home.mark()
    assert home.marked


def test_the_references_own_folder_is_never_used(tmp_path: Path) -> None:
    for place in (tmp_path / ".right", tmp_path / ".right" / "lab"):
        with pytest.raises(HomeError, match="Right Agent"):
            Home(place).mark()
    assert tree(tmp_path) == set()


def test_a_file_instead_of_a_folder(home: Home) -> None:
    home.path.write_text("")
    with pytest.raises(HomeError, match="no folder"):
        home.check()


def test_a_home_of_a_newer_version_or_a_damaged_mark(home: Home) -> None:
    home.path.mkdir()
    (home.path / "rightlab.json").write_text('{"format": 99}')
    with pytest.raises(HomeError, match=r"newer rightlab.*Upgrade"):
        home.check()
    (home.path / "rightlab.json").write_text("{")
    with pytest.raises(HomeError, match="damaged"):
        home.check()


def test_a_home_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HomeError) as caught:
        Home(tmp_path / "file" / "home").mark()
    assert "\n" not in str(caught.value)
    script = (
        "import os, sys\nfrom pathlib import Path\nfrom rightlab.home import Home\n"
        "from rightlab.errors import HomeError\n"
        "if os.getuid() == 0: os.setuid(65534)\n"
        "try: Home(Path('/proc/rightlab-home')).mark()\nexcept HomeError as error: print(error)\n"
    )
    told = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert len(told.stdout.splitlines()) == 1
    assert "cannot be written" in told.stdout


def test_another_home_inside_a_home_is_refused(home: Home) -> None:
    home.mark()
    with pytest.raises(HomeError, match="inside another home"):
        Home(home.path / "stuff").mark()


def test_create_agent_lays_out_the_contracts_files(home: Home) -> None:
    agent = home.create_agent(
        "alice", telegram_token="123:abc", allow=[42, -100], sandbox="bwrap", model="opus"
    )
    assert tree(agent.root) == {
        *("agent.yaml", "allowlist.yaml", "secrets.json", "BOOTSTRAP.md", "recordings", "runs", "logs"),
        *("sandbox", "sandbox/TOOLS.md", "sandbox/.claude", "sandbox/inbox", "sandbox/outbox"),
    }
    assert agent.secrets_path.stat().st_mode & 0o777 == 0o600
    assert agent.root.stat().st_mode & 0o777 == 0o700
    assert (agent.guest_dir / "TOOLS.md").read_bytes() == b""
    assert agent.is_bootstrapping
    config = agent.config()
    assert (config.model, config.sandbox.mode, config.restart, config.max_restarts) == (
        "opus",
        "bwrap",
        "on_failure",
        5,
    )
    assert config.warnings == ()
    assert agent.telegram_token({}) == "123:abc"
    assert "123:abc" not in agent.config_path.read_text()
    assert agent.allowlist().trusts(42)
    assert agent.allowlist().group(-100) is not None
    assert home.agents() == ["alice"]
    assert home.agent("alice") == agent


def test_create_agent_with_overrides_and_without_bootstrap(home: Home) -> None:
    agent = home.create_agent(
        "demo", bootstrap=False, overrides={"gateway.upstream": "scripted:builtin", "sandbox.mode": "none"}
    )
    assert not agent.is_bootstrapping
    assert agent.config().gateway.upstream == "scripted:builtin"
    assert agent.config().sandbox.mode == "none"
    assert agent.telegram_token({}) is None
    assert "# auto | bwrap" in agent.config_path.read_text()


@pytest.mark.parametrize("name", ["", "Alice", "1a", "a_b", "a/b", "..", "a" * 32, "-a", "a\n"])
def test_bad_names_are_refused_before_anything_is_written(home: Home, name: str) -> None:
    for use in (home.create_agent, home.agent, home.destroy_agent):
        with pytest.raises(UsageError, match="no name for an agent"):
            use(name)
    assert not home.path.exists()


def test_the_longest_name_works(home: Home) -> None:
    assert home.create_agent("a" * 31).config().model == "sonnet"


def test_creating_an_existing_agent_says_so_and_changes_nothing(home: Home) -> None:
    agent = home.create_agent("alice", telegram_token="1:one")
    with pytest.raises(UsageError, match="an agent alice already"):
        home.create_agent("alice", telegram_token="2:two")
    assert agent.secrets().get("telegram_token") == "1:one"


@pytest.mark.parametrize(
    "values", [{"sandbox": "bwrp"}, {"model": "-p"}, {"allow": [0]}, {"overrides": {"sandbox.mood": "x"}}]
)
def test_a_bad_value_makes_no_agent(home: Home, values: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        home.create_agent("alice", **values)  # type: ignore[arg-type]
    assert os.listdir(home.path / "agents") == []


def test_a_missing_agent_lists_those_there_are(home: Home) -> None:
    home.create_agent("bob")
    home.create_agent("alice")
    with pytest.raises(UsageError, match=r"no agent carol \(there are: alice, bob\).*rightlab init carol"):
        home.agent("carol")


def test_kill_9_while_an_agent_is_made_leaves_none_and_a_second_try_cleans_up(home: Home) -> None:
    script = (
        "import os, signal, sys\nfrom pathlib import Path\nimport rightlab.home.home as module\n"
        "module.rename_folder = lambda *paths: os.kill(os.getpid(), signal.SIGKILL)\n"
        "module.Home(Path(sys.argv[1])).create_agent('alice')\n"
    )
    assert subprocess.run([sys.executable, "-c", script, str(home.path)], timeout=60).returncode == -9
    assert home.agents() == []
    assert [name[:10] for name in os.listdir(home.path / "agents")] == [".new-alice"]
    home.create_agent("alice")
    assert os.listdir(home.path / "agents") == ["alice"]


def test_destroy_removes_all_of_it_and_nothing_else(home: Home, tmp_path: Path) -> None:
    home.create_agent("bob")
    before = tree(home.path)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "keep").write_text("")
    agent = home.create_agent("alice")
    atomic_write(agent.state_path, "{}")
    locked = agent.guest_dir / "npm" / "cache"
    locked.mkdir(parents=True)
    (locked / "file").write_text("")
    locked.chmod(0o500)
    (agent.guest_dir / "link").symlink_to(outside)
    home.destroy_agent("alice")
    assert tree(home.path) - before == {"run/.locks/agents+alice.lock"}
    assert (outside / "keep").exists()
    with pytest.raises(UsageError, match="no agent alice"):
        home.destroy_agent("alice")


def test_a_running_agent_is_not_destroyed(home: Home) -> None:
    agent = home.create_agent("alice")
    atomic_write(agent.lease_path, "")
    with agent.lease_path.open("rb") as lease:
        fcntl.flock(lease, fcntl.LOCK_EX)
        with pytest.raises(OwnedElsewhere, match="rightlab down alice"):
            home.destroy_agent("alice")
    assert home.agents() == ["alice"]
    home.destroy_agent("alice")
    assert home.agents() == []


def test_kill_9_while_destroying_is_finished_by_the_next(home: Home) -> None:
    home.create_agent("alice")
    script = (
        "import os, signal, sys\nfrom pathlib import Path\nimport rightlab.home.home as module\n"
        "module._delete_tree = lambda folder: os.kill(os.getpid(), signal.SIGKILL)\n"
        "module.Home(Path(sys.argv[1])).destroy_agent('alice')\n"
    )
    assert subprocess.run([sys.executable, "-c", script, str(home.path)], timeout=60).returncode == -9
    assert home.agents() == []
    home.create_agent("alice")
    assert os.listdir(home.path / "agents") == ["alice"]


def test_two_homes_know_nothing_of_each_other(tmp_path: Path) -> None:
    one, two = Home(tmp_path / "one"), Home(tmp_path / "two")
    one.create_agent("alice")
    before = {path: path.stat().st_mtime_ns for path in one.path.rglob("*")}
    two.create_agent("bob").secrets().set("telegram_token", "1:x")
    two.destroy_agent("bob")
    assert {path: path.stat().st_mtime_ns for path in one.path.rglob("*")} == before


def test_secrets_are_0600_hidden_and_durable(home: Home) -> None:
    secrets = home.create_agent("alice").secrets()
    secrets.set("telegram_token", "123:verysecret")
    secrets.set("mcp.files.token", "x")
    assert secrets.names() == ["mcp.files.token", "telegram_token"]
    assert Secrets(secrets.path).get("telegram_token") == "123:verysecret"
    assert "verysecret" not in repr(secrets) + str(secrets)
    assert secrets.path.stat().st_mode & 0o777 == 0o600
    assert secrets.delete("telegram_token")
    assert not secrets.delete("telegram_token")
    assert secrets.get("telegram_token") is None
    secrets.path.chmod(0o644)
    assert secrets.exposed
    secrets.set("a", "b")
    assert not secrets.exposed


def test_damaged_secrets_are_one_line_without_their_content(home: Home) -> None:
    secrets = home.create_agent("alice").secrets()
    for text in ('{"telegram_token": "123:verysecret"', '["verysecret"]', '{"a": {"verysecret": 1}}'):
        secrets.path.write_text(text)
        with pytest.raises(ConfigError, match="not a JSON object") as caught:
            secrets.set("b", "c")
        assert "verysecret" not in str(caught.value) + repr(caught.value)
        assert secrets.path.read_text() == text
