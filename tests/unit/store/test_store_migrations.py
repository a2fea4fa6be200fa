"""Migrations: one locked batch, all or nothing, in order, gaps allowed."""

import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rightlab.clock import parse_iso
from rightlab.errors import StoreError
from rightlab.store import Migration, Store, known_migrations

CORE = Migration(
    1,
    "core",
    (
        "CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID",
        "INSERT OR IGNORE INTO meta (key, value) VALUES ('fence', 0)",
        "CREATE TABLE IF NOT EXISTS trail (step)",
        "INSERT INTO trail VALUES (1)",
    ),
)


def step(number: int, *statements: str) -> Migration:
    return Migration(number, f"step{number}", (*statements, f"INSERT INTO trail VALUES ({number})"))


def trail(store: Store) -> list[int]:
    return [row[0] for row in store.rows("SELECT step FROM trail ORDER BY rowid")]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data.db"


def test_the_known_ones_are_sound_and_can_be_run_twice(path: Path) -> None:
    steps = known_migrations()
    numbers = [step.number for step in steps]
    assert numbers[0] == 1
    assert numbers == sorted(set(numbers))
    assert all(step.name and step.statements for step in steps)
    Store.open(path, role="owner").close()
    with sqlite3.connect(path) as raw:
        before = raw.execute("SELECT type, name, sql FROM sqlite_master ORDER BY 1, 2").fetchall()
        for migration in steps:
            for statement in migration.statements:
                raw.execute(statement)
        assert raw.execute("SELECT type, name, sql FROM sqlite_master ORDER BY 1, 2").fetchall() == before
    raw.close()


def test_applied_ones_are_written_down_with_their_time(path: Path) -> None:
    with Store.open(path, role="owner", migrations=[CORE, step(4)]) as store:
        assert [(row["number"], row["name"]) for row in store.schema()] == [(1, "core"), (4, "step4")]
        assert all(parse_iso(row["applied_at"]).tzinfo for row in store.schema())
        assert trail(store) == [1, 4]
    with Store.open(path, role="owner", migrations=[CORE, step(4)]) as store:
        assert trail(store) == [1, 4]


def test_a_missing_lower_number_found_later_is_applied_too(path: Path) -> None:
    Store.open(path, role="owner", migrations=[CORE, step(5)]).close()
    with Store.open(path, role="owner", migrations=[CORE, step(2), step(3), step(5), step(9)]) as store:
        assert trail(store) == [1, 5, 2, 3, 9]
        assert [row["number"] for row in store.schema()] == [1, 2, 3, 5, 9]


@pytest.mark.parametrize("role", ["writer", "reader"])
def test_only_an_owner_migrates(path: Path, role: str) -> None:
    Store.open(path, role="owner", migrations=[CORE]).close()
    with pytest.raises(StoreError, match=r"older rightlab.*needs migration 2, 3.*rightlab up"):
        Store.open(path, role=role, migrations=[CORE, step(2), step(3)])  # type: ignore[arg-type]
    with Store.open(path, role="reader", migrations=[CORE]) as store:
        assert trail(store) == [1]


@pytest.mark.parametrize("role", ["owner", "writer", "reader"])
def test_a_newer_schema_is_refused_and_left_alone(path: Path, role: str) -> None:
    Store.open(path, role="owner", migrations=[CORE, step(7)]).close()
    with pytest.raises(StoreError, match=r"newer rightlab.*migration 7.*Upgrade"):
        Store.open(path, role=role, migrations=[CORE, step(2)])  # type: ignore[arg-type]
    with Store.open(path, role="reader", migrations=[CORE, step(7)]) as store:
        assert trail(store) == [1, 7]


def test_an_empty_file_left_by_a_crash_is_a_new_database(path: Path) -> None:
    path.write_bytes(b"")
    with pytest.raises(StoreError, match="older"):
        Store.open(path, role="reader", migrations=[CORE])
    with Store.open(path, role="owner", migrations=[CORE]) as store:
        assert trail(store) == [1]


def test_a_batch_that_fails_leaves_the_old_version(path: Path) -> None:
    Store.open(path, role="owner", migrations=[CORE]).close()
    broken = [CORE, step(2, "CREATE TABLE IF NOT EXISTS two (x)"), step(3, "INSERT INTO nowhere VALUES (1)")]
    with pytest.raises(StoreError, match="nowhere"):
        Store.open(path, role="owner", migrations=broken)
    with Store.open(path, role="owner", migrations=[CORE]) as store:
        assert trail(store) == [1]
        assert store.value("SELECT count(*) FROM sqlite_master WHERE name = 'two'") == 0


RACE = """
import sys, time
from pathlib import Path
from rightlab.store import Migration, Store
core = ("CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID",
        "INSERT OR IGNORE INTO meta (key, value) VALUES ('fence', 0)",
        "CREATE TABLE IF NOT EXISTS trail (step)", "INSERT INTO trail VALUES (1)")
steps = [Migration(1, "core", core)]
steps += [Migration(n, f"step{n}", (f"INSERT INTO trail VALUES ({n})",)) for n in range(2, 30)]
while time.time() < float(sys.argv[2]): pass
with Store.open(Path(sys.argv[1]), role="owner", migrations=steps) as store:
    print([row[0] for row in store.rows("SELECT step FROM trail ORDER BY rowid")], store.take_fence())
"""


def test_processes_that_migrate_at_once_apply_each_step_once(path: Path) -> None:
    start = str(time.time() + 1.5)
    children = [
        subprocess.Popen([sys.executable, "-c", RACE, str(path), start], stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    told = [child.communicate(timeout=90)[0].strip() for child in children]
    assert [child.returncode for child in children] == [0] * 4
    assert sorted(told) == [f"{list(range(1, 30))} {fence}" for fence in range(1, 5)]


SLOW = """
import sys
from pathlib import Path
from rightlab.store import Migration, Store
core = ("CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID",
        "INSERT OR IGNORE INTO meta (key, value) VALUES ('fence', 0)",
        "CREATE TABLE IF NOT EXISTS trail (step)", "INSERT INTO trail VALUES (1)")
count = "WITH RECURSIVE c (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c"
two = ("CREATE TABLE IF NOT EXISTS two AS SELECT 1 AS x", "INSERT INTO trail VALUES (2)", count)
steps = [Migration(1, "core", core), Migration(2, "two", two)]
Store.open(Path(sys.argv[1]), role="owner", migrations=steps)
"""


def test_kill_9_in_the_middle_of_a_batch_leaves_the_old_version_and_reopening_completes(path: Path) -> None:
    Store.open(path, role="owner", migrations=[CORE]).close()
    child = subprocess.Popen([sys.executable, "-c", SLOW, str(path)])
    try:
        probe = sqlite3.connect(path, timeout=0, isolation_level=None)
        deadline = time.monotonic() + 60
        while True:
            assert time.monotonic() < deadline
            assert child.poll() is None
            try:
                probe.execute("BEGIN IMMEDIATE")
                probe.execute("ROLLBACK")
            except sqlite3.OperationalError:
                break
            time.sleep(0.01)
        time.sleep(0.2)
        probe.close()
    finally:
        child.kill()
    assert child.wait(timeout=30) == -9
    with Store.open(path, role="reader", migrations=[CORE]) as store:
        assert trail(store) == [1]
        assert store.value("SELECT count(*) FROM sqlite_master WHERE name = 'two'") == 0
    with Store.open(
        path, role="owner", migrations=[CORE, step(2, "CREATE TABLE IF NOT EXISTS two (x)")]
    ) as store:
        assert trail(store) == [1, 2]
        assert store.check() == []
