"""allowlist.yaml (spec agent-runtime 9.1, version 2)."""

import subprocess
import sys
from pathlib import Path

import pytest

from rightlab.errors import ConfigError
from rightlab.home import NOTEBOOK_CHAT_ID, Allowlist, Home


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return Home(tmp_path / "home").create_agent("alice").allowlist_path


def test_empty_or_missing_allows_nobody(path: Path) -> None:
    assert not Allowlist(path).trusts(1)
    path.write_text("")
    assert not Allowlist(path).trusts(1)
    path.unlink()
    allowlist = Allowlist(path)
    assert not allowlist.trusts(1)
    assert allowlist.group(-1) is None
    assert allowlist.trusts(NOTEBOOK_CHAT_ID)
    assert allowlist.allow(5)
    assert path.stat().st_mode & 0o777 == 0o600


def test_allow_and_deny(path: Path) -> None:
    allowlist = Allowlist(path)
    assert allowlist.allow(42, "Ann", by=7)
    assert not allowlist.allow(42)
    assert allowlist.allow(42, "Anna")
    assert allowlist.allow(-100, by="cli", mode="all", kind="channel")
    assert not allowlist.allow(-100, kind="channel")
    again = Allowlist(path)
    (user,) = again.users
    assert (user.id, user.label, user.added_by) == (42, "Anna", 7)
    assert user.added_at is not None
    assert user.added_at.endswith("Z")
    group = again.group(-100)
    assert group is not None
    assert (group.mode, group.kind, group.opened_by) == ("all", "channel", "cli")
    assert allowlist.deny(42)
    assert not allowlist.deny(42)
    assert not allowlist.trusts(42)
    assert not Allowlist(path).trusts(42)


def test_topics(path: Path) -> None:
    allowlist = Allowlist(path)
    assert not allowlist.set_topic_mode(-5, 3, "all")
    allowlist.allow(-5)
    assert allowlist.set_topic_mode(-5, 3, "all")
    assert not allowlist.set_topic_mode(-5, 3, "all")
    group = Allowlist(path).group(-5)
    assert group is not None
    assert (group.mode, group.mode_for(3), group.mode_for(0)) == ("addressed", "all", "addressed")


@pytest.mark.parametrize("id", [0, NOTEBOOK_CHAT_ID, True])
def test_ids_that_are_none(path: Path, id: int) -> None:
    before = path.read_bytes()
    with pytest.raises(ConfigError, match="no id"):
        Allowlist(path).allow(id)
    assert path.read_bytes() == before


def test_a_persons_comments_stay(path: Path) -> None:
    path.write_text(
        "# friends\nversion: 2\nusers:\n  # best\n  - id: 1   # Bob\n    label: B\n    added_at: 2026-01-02\n"
    )
    Allowlist(path).allow(2)
    text = path.read_text()
    assert "# friends" in text
    assert "# best" in text
    assert "# Bob" in text
    assert [user.id for user in Allowlist(path).users] == [1, 2]


def test_disk_first_memory_second(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    allowlist = Allowlist(path)

    def fail(*args: object) -> bytes:
        raise OSError("disk gone")

    monkeypatch.setattr("rightlab.home.allowlist.write_merged", fail)
    with pytest.raises(OSError, match="disk gone"):
        allowlist.allow(1)
    assert not allowlist.trusts(1)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("version: 1\n", "version"),
        ("users: []\n", "version: 2 is missing"),
        ("version: 2\nusers:\n- id: '5'\n", "users.0.id"),
        ("version: 2\nusers:\n- id: -5\n", "line 3"),
        ("version: 2\nusers:\n- id: 5\n  admin: true\n", "users.0.admin: unknown key"),
        ("version: 2\ngroups:\n- id: -5\n  mode: some\n", "groups.0.mode"),
        ("version: 2\nusers: [", "not readable as YAML"),
    ],
)
def test_a_broken_file_is_one_line_and_lets_nobody_in(path: Path, text: str, told: str) -> None:
    allowlist = Allowlist(path)
    allowlist.allow(1)
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        Allowlist(path)
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)
    with pytest.raises(ConfigError):
        allowlist.reload()
    assert allowlist.trusts(1)
    with pytest.raises(ConfigError):
        allowlist.allow(2)
    assert path.read_text() == text


def test_processes_that_allow_at_once_lose_nobody(path: Path) -> None:
    script = (
        "import sys\nfrom pathlib import Path\nfrom rightlab.home import Allowlist\n"
        "base = int(sys.argv[2])\nallowlist = Allowlist(Path(sys.argv[1]))\n"
        "for n in range(10): allowlist.allow(base + n)"
    )
    children = [
        subprocess.Popen([sys.executable, "-c", script, str(path), str(base)]) for base in (100, 200, 300)
    ]
    assert [child.wait(timeout=60) for child in children] == [0, 0, 0]
    ids = {user.id for user in Allowlist(path).users}
    assert ids == {base + n for base in (100, 200, 300) for n in range(10)}
