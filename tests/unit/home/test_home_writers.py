"""The sanctioned writers: whole files or none, categories, and no way through an agent's symlink."""

import errno
import os
import resource
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from rightlab.errors import HomeError, OwnershipError, RightlabError, UsageError
from rightlab.home import (
    Home,
    append_line,
    atomic_write,
    create_file,
    file_lock,
    make_dir,
    open_append,
    remove,
    write_agent_owned,
    write_merged,
    write_regenerated,
)
from rightlab.home.writers import write_failure


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    home.create_agent("alice")
    return home


def leftovers(folder: Path) -> list[str]:
    return [name for name in os.listdir(folder) if name.endswith(".tmp")]


def test_atomic_write_replaces_whole_and_sets_the_mode(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "er" / "file"
    atomic_write(path, "old", 0o600)
    atomic_write(path, b"new\xff", 0o640)
    assert path.read_bytes() == b"new\xff"
    assert path.stat().st_mode & 0o777 == 0o640
    assert leftovers(path.parent) == []


def test_atomic_write_never_shows_half_a_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    bodies = [bytes([65 + n]) * 200_000 for n in range(4)]
    atomic_write(path, bodies[0])
    done = threading.Event()
    torn: list[int] = []

    def read() -> None:
        while not done.is_set():
            data = path.read_bytes()
            if data not in bodies:
                torn.append(len(data))

    reader = threading.Thread(target=read)
    reader.start()
    for _ in range(10):
        for body in bodies:
            atomic_write(path, body)
    done.set()
    reader.join()
    assert torn == []


def test_a_failing_write_keeps_the_old_file_and_leaves_nothing_behind(tmp_path: Path) -> None:
    script = (
        "import resource, sys\n"
        "from rightlab.errors import RightlabError\n"
        "from rightlab.home import atomic_write\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "try:\n    atomic_write(sys.argv[1], b'x' * 5000)\n"
        "except RightlabError as error:\n    print(error.exit_code, error)\n"
    )
    path = tmp_path / "file"
    atomic_write(path, "old")
    told = subprocess.run(
        [sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    assert told == f"1 {path}: the disk is full. Free some space and try again.\n"
    assert path.read_text() == "old"
    assert leftovers(tmp_path) == []
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 1000


@pytest.mark.parametrize(
    ("number", "kind", "code"),
    [(errno.ENOSPC, RightlabError, 1), (errno.EROFS, UsageError, 2), (errno.EACCES, UsageError, 2)],
)
def test_write_failures_are_one_line_with_the_right_exit_code(
    tmp_path: Path, number: int, kind: type, code: int
) -> None:
    error = write_failure(OSError(number, os.strerror(number)), tmp_path / "f")
    assert type(error) is kind
    assert error.exit_code == code
    assert "\n" not in str(error)
    assert str(tmp_path) in str(error)


def test_write_failure_in_a_home_is_a_home_error(home: Home) -> None:
    assert isinstance(write_failure(OSError(errno.EACCES, ""), home.path / "run" / "x"), HomeError)


def test_a_file_where_a_folder_should_be_is_one_line(tmp_path: Path) -> None:
    atomic_write(tmp_path / "file", "")
    with pytest.raises(UsageError, match="cannot be written"):
        atomic_write(tmp_path / "file" / "inner", "")


def test_append_line_ends_a_torn_line_first(tmp_path: Path) -> None:
    path = tmp_path / "log"
    append_line(path, "one")
    with path.open("ab") as stream:
        stream.write(b'{"torn')
    append_line(path, b"two\n", sync=True)
    assert path.read_bytes() == b'one\n{"torn\ntwo\n'
    assert path.stat().st_mode & 0o777 == 0o600


def test_append_line_of_several_processes_does_not_mix(tmp_path: Path) -> None:
    path = tmp_path / "log"
    script = (
        "import sys\nfrom rightlab.home import append_line\n"
        "for n in range(200): append_line(sys.argv[1], sys.argv[2] * 300 + str(n))"
    )
    children = [subprocess.Popen([sys.executable, "-c", script, str(path), letter]) for letter in "abc"]
    assert [child.wait(timeout=60) for child in children] == [0, 0, 0]
    lines = path.read_text().splitlines()
    assert sorted(lines) == sorted(letter * 300 + str(n) for letter in "abc" for n in range(200))


def test_open_append_takes_a_childs_output(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "out"
    for text in ("one", "two"):
        with open_append(path) as stream:
            subprocess.run([sys.executable, "-c", f"print({text!r})"], stdout=stream, check=True, timeout=60)
    assert path.read_text() == "one\ntwo\n"


def test_write_merged_loses_no_change_of_several_processes(home: Home) -> None:
    path = home.path / "config.yaml"
    script = (
        "import sys\nfrom rightlab.home import write_merged\n"
        "for n in range(25): write_merged(sys.argv[1], lambda old: (old or b'') + sys.argv[2].encode())"
    )
    children = [subprocess.Popen([sys.executable, "-c", script, str(path), letter]) for letter in "abc"]
    assert [child.wait(timeout=60) for child in children] == [0, 0, 0]
    assert sorted(path.read_text()) == sorted("abc" * 25)


def test_write_merged_keeps_the_files_mode_and_a_failing_merge_the_file(home: Home) -> None:
    path = home.path / "config.yaml"
    write_merged(path, lambda old: "a: 1\n", 0o600)
    write_merged(path, lambda old: (old or b"") + b"b: 2\n")
    assert path.stat().st_mode & 0o777 == 0o600

    def fail(old: bytes | None) -> bytes:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        write_merged(path, fail)
    assert path.read_text() == "a: 1\nb: 2\n"


def test_write_regenerated_leaves_equal_bytes_alone(home: Home) -> None:
    path = home.agent("alice").guest_dir / ".claude" / "settings.json"
    assert write_regenerated(path, "{}")
    before = path.stat()
    assert not write_regenerated(path, "{}")
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert write_regenerated(path, '{"a": 1}')


def test_write_agent_owned_only_seeds_or_keeps_a_backup(home: Home) -> None:
    guest = home.agent("alice").guest_dir
    path = guest / "SOUL.md"
    assert write_agent_owned(path, "first")
    assert not write_agent_owned(path, "second")
    assert path.read_text() == "first"
    assert write_agent_owned(path, "second", backup=True)
    assert path.read_text() == "second"
    assert [kept.read_text() for kept in guest.glob("SOUL.md.*.bak")] == ["first"]
    assert not write_agent_owned(path, "second", backup=True)
    assert len(list(guest.glob("SOUL.md.*.bak"))) == 1


def test_pain_headlong_72_a_planted_symlink_is_never_followed(home: Home, tmp_path: Path) -> None:
    """pains 10, laude-institute/headlong PR#72: an agent points its own folder at one of the host's."""
    guest = home.agent("alice").guest_dir
    outside = tmp_path / "dot-ssh"
    outside.mkdir()
    (outside / "settings.json").write_text("host")
    (guest / ".claude").rmdir()
    (guest / ".claude").symlink_to(outside)
    with pytest.raises(OwnershipError, match="not a plain folder"):
        write_regenerated(guest / ".claude" / "settings.json", "{}")
    with pytest.raises(OwnershipError, match="not a plain folder"):
        make_dir(guest / ".claude" / "skills")
    with pytest.raises(OwnershipError, match="not a plain folder"):
        write_merged(guest / ".claude" / ".claude.json", lambda old: b"{}")
    with pytest.raises(OwnershipError, match="not a plain folder"):
        remove(guest / ".claude" / "settings.json")
    assert os.listdir(outside) == ["settings.json"]
    assert (outside / "settings.json").read_text() == "host"


def test_a_symlink_in_place_of_a_file_is_replaced_not_followed(home: Home, tmp_path: Path) -> None:
    guest = home.agent("alice").guest_dir
    target = tmp_path / "target"
    target.write_text("host")
    (guest / ".claude.json").symlink_to(target)
    assert write_merged(guest / ".claude.json", lambda old: b"none" if old is None else b"read") == b"none"
    assert target.read_text() == "host"
    (guest / "inbox" / "file").symlink_to(target)
    with pytest.raises(RightlabError):
        append_line(guest / "inbox" / "file", "more")
    assert target.read_text() == "host"
    (guest / "USER.md").symlink_to(tmp_path / "nowhere")
    assert not write_agent_owned(guest / "USER.md", "seed")


def test_a_fifo_in_place_of_a_file_does_not_hang(home: Home) -> None:
    guest = home.agent("alice").guest_dir
    os.mkfifo(guest / ".claude" / "settings.json")
    assert write_regenerated(guest / ".claude" / "settings.json", "{}")
    assert (guest / ".claude" / "settings.json").read_text() == "{}"


def test_create_file_refuses_what_exists(home: Home) -> None:
    with pytest.raises(OwnershipError, match="exists already"):
        create_file(home.agent("alice").config_path, "")


def test_remove_tells_whether_there_was_something(tmp_path: Path) -> None:
    atomic_write(tmp_path / "f", "")
    assert remove(tmp_path / "f")
    assert not remove(tmp_path / "f")
    assert not remove(tmp_path / "no" / "folder")


def test_file_lock_says_who_waits(home: Home) -> None:
    path = home.path / "config.yaml"
    told: list[str] = []

    def wait() -> None:
        try:
            with file_lock(path, timeout=0.05):
                told.append("got it")
        except RightlabError as error:
            told.append(str(error))

    with file_lock(path):
        thread = threading.Thread(target=wait)
        thread.start()
        thread.join()
    assert "another process is writing this file" in told[0]


def test_locks_of_a_home_lie_out_of_the_agents_reach(home: Home) -> None:
    guest = home.agent("alice").guest_dir
    write_merged(guest / ".claude.json", lambda old: b"{}")
    assert not [name for name in os.listdir(guest) if "lock" in name]
