"""The store: roles, rows, transactions, the fence, snapshots, and faults as one line."""

import asyncio
import gc
import os
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rightlab.errors import FencedOut, StoreError
from rightlab.store import Migration, Store, Tx

STEPS = (
    Migration(
        1,
        "core",
        (
            "CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID",
            "INSERT OR IGNORE INTO meta (key, value) VALUES ('fence', 0)",
            "CREATE TABLE IF NOT EXISTS parent (id INTEGER PRIMARY KEY, name TEXT UNIQUE)",
            "CREATE TABLE IF NOT EXISTS child (parent_id INTEGER REFERENCES parent (id))",
        ),
    ),
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data.db"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    with Store.open(path, role="owner", migrations=STEPS) as store:
        yield store


def add(name: str) -> Callable[[Tx], object]:
    return lambda tx: tx.run("INSERT INTO parent (name) VALUES (?)", name)


def names(store: Store) -> list[str]:
    return [row["name"] for row in store.rows("SELECT name FROM parent ORDER BY id")]


def test_pragmas(store: Store) -> None:
    def read(tx: Tx) -> dict[str, object]:
        return {
            name: tx.value(f"PRAGMA {name}")
            for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        }

    assert store.transact(read) == {
        "journal_mode": "wal",
        "synchronous": 2,
        "foreign_keys": 1,
        "busy_timeout": 5000,
    }
    assert store.value("PRAGMA query_only") == 1
    assert store.path.stat().st_mode & 0o777 == 0o600


def test_rows_read_as_mapping_and_as_tuple(store: Store) -> None:
    result = store.transact(lambda tx: tx.run("INSERT INTO parent (name) VALUES (?)", "ann"))
    assert (result.rowcount, result.lastrowid) == (1, 1)
    row = store.row("SELECT id, name FROM parent WHERE name = ?", "ann")
    assert row is not None
    assert (row["name"], row[1], row.get("name"), row.get("none"), row.get("none", 5)) == (
        "ann",
        "ann",
        "ann",
        None,
        5,
    )
    assert dict(row) == {"id": 1, "name": "ann"}
    id, name = row
    assert (id, name) == (1, "ann")
    assert repr(row) == "Row({'id': 1, 'name': 'ann'})"
    assert store.row("SELECT 1 WHERE 0") is None
    assert store.value("SELECT 1 WHERE 0") is None
    assert (
        store.transact(lambda tx: tx.run_many("INSERT INTO parent (name) VALUES (?)", [("b",), ("c",)])) == 2
    )
    assert names(store) == ["ann", "b", "c"]


def test_an_exception_rolls_everything_back(store: Store) -> None:
    def work(tx: Tx) -> None:
        tx.run("INSERT INTO parent (name) VALUES ('x')")
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        store.transact(work)
    assert names(store) == []
    store.transact(add("y"))
    assert names(store) == ["y"]


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("INSERT INTO parent (name) VALUES ('ann')", "UNIQUE constraint failed"),
        ("INSERT INTO child VALUES (99)", "FOREIGN KEY constraint failed"),
        ("SELEKT", "syntax error"),
        ("COMMIT; SELECT 1", "one statement"),
    ],
)
def test_sqlites_errors_are_store_errors(store: Store, sql: str, told: str) -> None:
    store.transact(add("ann"))
    with pytest.raises(StoreError, match=told) as caught:
        store.transact(lambda tx: (tx.run("INSERT INTO parent (name) VALUES ('other')"), tx.run(sql)))
    assert isinstance(caught.value.__cause__, sqlite3.Error)
    assert names(store) == ["ann"]


def test_a_constraint_found_only_at_commit(store: Store) -> None:
    def work(tx: Tx) -> None:
        tx.run("PRAGMA defer_foreign_keys = ON")
        tx.run("INSERT INTO child VALUES (99)")

    with pytest.raises(StoreError, match="FOREIGN KEY"):
        store.transact(work)
    store.transact(add("y"))
    assert store.value("SELECT count(*) FROM child") == 0


def test_a_transaction_is_over_when_it_is_over(store: Store) -> None:
    kept = store.transact(lambda tx: tx)
    with pytest.raises(StoreError, match="over"):
        kept.value("SELECT 1")


def test_a_transaction_inside_a_transaction_is_refused_not_hung(store: Store) -> None:
    with pytest.raises(StoreError, match="inside a transaction"):
        store.transact(lambda tx: store.transact(lambda inner: None))


def test_one_writer_thread_for_all_stores_of_a_file(store: Store, path: Path) -> None:
    with Store.open(path, migrations=STEPS) as other:
        threads = {each.transact(lambda tx: threading.get_ident()) for each in (store, other, store)}
    assert len(threads) == 1
    assert threading.get_ident() not in threads
    assert store.transact(lambda tx: threading.get_ident()) in threads


async def test_atransact_does_not_block_the_loop(store: Store) -> None:
    started, release = threading.Event(), threading.Event()

    def slow(tx: Tx) -> str:
        started.set()
        release.wait(10)
        return "done"

    task = asyncio.create_task(store.atransact(slow))
    assert await asyncio.to_thread(started.wait, 5)
    assert not task.done()
    release.set()
    assert await task == "done"


async def test_a_cancelled_transaction_never_begins_or_is_finished(store: Store) -> None:
    started, release = threading.Event(), threading.Event()

    def running(tx: Tx) -> None:
        tx.run("INSERT INTO parent (name) VALUES ('running')")
        started.set()
        release.wait(10)

    first = asyncio.create_task(store.atransact(running))
    await asyncio.to_thread(started.wait, 5)
    second = asyncio.create_task(store.atransact(add("waiting")))
    await asyncio.sleep(0)
    first.cancel()
    second.cancel()
    release.set()
    await asyncio.gather(first, second, return_exceptions=True)
    store.transact(lambda tx: None)
    assert names(store) == ["running"]


def test_reads_see_commits_at_once_and_nothing_before(store: Store) -> None:
    seen: list[list[str]] = []

    def work(tx: Tx) -> None:
        tx.run("INSERT INTO parent (name) VALUES ('x')")
        reader = threading.Thread(target=lambda: seen.append(names(store)))
        reader.start()
        reader.join()

    store.transact(work)
    assert seen == [[]]
    assert names(store) == ["x"]


def test_readers_from_many_threads(store: Store) -> None:
    store.transact(add("x"))
    seen: list[list[str]] = []
    threads = [
        threading.Thread(target=lambda: [seen.append(names(store)) for _ in range(50)]) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [["x"]] * 400


# --- roles ----------------------------------------------------------------------------------------


def test_a_reader_never_writes(store: Store, path: Path) -> None:
    store.transact(add("x"))
    with Store.open(path, role="reader", migrations=STEPS) as reader:
        assert names(reader) == ["x"]
        with pytest.raises(StoreError, match="reading only"):
            reader.transact(add("y"))
        with pytest.raises(StoreError, match="reading only"):
            reader.take_fence()
        for sql in ("INSERT INTO parent (name) VALUES ('y')", "PRAGMA user_version = 5", "DROP TABLE parent"):
            with pytest.raises(StoreError, match="read-only"):
                reader.rows(sql)
    assert names(store) == ["x"]
    assert store.value("PRAGMA user_version") == 0


def test_a_reader_leaves_the_file_as_it_is(path: Path) -> None:
    with Store.open(path, role="owner", migrations=STEPS) as store:
        store.transact(add("x"))
    before = path.read_bytes()
    with Store.open(path, role="reader", migrations=STEPS) as reader:
        assert names(reader) == ["x"]
    assert path.read_bytes() == before


def test_a_reader_works_in_a_folder_it_cannot_write() -> None:
    """As another user, since root may write everywhere."""
    script = (
        "import os, sys\nfrom pathlib import Path\nfrom rightlab.store import Migration, Store\n"
        "folder = Path(sys.argv[1])\n"
        "if os.getuid() == 0: os.setuid(65534)\n"
        "assert not os.access(folder, os.W_OK)\n"
        "steps = (Migration(1, 'core', ()),)\n"
        "with Store.open(folder / 'data.db', role='reader', migrations=steps) as store:\n"
        "    print(store.value('SELECT name FROM parent'))\n"
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with Store.open(folder / "data.db", role="owner", migrations=STEPS) as store:
            store.transact(add("x"))
        (folder / "data.db").chmod(0o444)
        folder.chmod(0o555)
        try:
            told = subprocess.run(
                [sys.executable, "-c", script, name], capture_output=True, text=True, timeout=60
            )
            left = os.listdir(folder)
        finally:
            folder.chmod(0o700)
    assert told.stdout == "x\n", told.stderr
    assert sorted(left) == ["data.db", "data.db.migrate.lock"]


@pytest.mark.parametrize("role", ["reader", "writer"])
def test_no_file_is_one_line_and_makes_none(path: Path, role: str) -> None:
    with pytest.raises(StoreError, match=r"no database yet.*rightlab up"):
        Store.open(path, role=role)  # type: ignore[arg-type]
    assert os.listdir(path.parent) == []


def test_no_folder_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot be opened"):
        Store.open(tmp_path / "no" / "data.db", role="owner", migrations=STEPS)


@pytest.mark.parametrize("role", ["reader", "writer", "owner"])
def test_a_file_that_is_no_database(path: Path, role: str) -> None:
    path.write_bytes(b"dear diary " * 500)
    with pytest.raises(StoreError, match="not a database") as caught:
        Store.open(path, role=role, migrations=STEPS)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
    assert path.read_bytes() == b"dear diary " * 500


@pytest.mark.parametrize("role", ["reader", "writer", "owner"])
def test_a_database_of_somebody_else_is_left_alone(path: Path, role: str) -> None:
    with sqlite3.connect(path) as theirs:
        theirs.execute("CREATE TABLE sessions (id)")
    theirs.close()
    with pytest.raises(StoreError, match="not made by rightlab"):
        Store.open(path, role=role, migrations=STEPS)  # type: ignore[arg-type]
    with sqlite3.connect(path) as theirs:
        assert [row[0] for row in theirs.execute("SELECT name FROM sqlite_master")] == ["sessions"]
    theirs.close()


def test_a_damaged_database_is_one_line_and_check_finds_it(path: Path) -> None:
    with Store.open(path, role="owner", migrations=STEPS) as store:
        store.transact(
            lambda tx: tx.run_many(
                "INSERT INTO parent (name) VALUES (?)", ((f"n{n}" * 50,) for n in range(2000))
            )
        )
        assert store.check() == []
    with path.open("r+b") as raw:
        size = raw.seek(0, os.SEEK_END)
        for offset in range(4096 * 8, size, 4096 * 2):
            raw.seek(offset)
            raw.write(b"\xff" * 4096)
    with Store.open(path, role="reader", migrations=STEPS) as store:
        try:
            found = store.check()
        except StoreError as error:
            found = [str(error)]
        assert found
        with pytest.raises(StoreError, match="damaged") as caught:
            store.rows("SELECT * FROM parent ORDER BY id")
    assert "restore a backup" in str(caught.value)


def test_a_full_disk_stores_nothing_of_the_step_and_goes_on_after(store: Store) -> None:
    store.transact(lambda tx: tx.value("PRAGMA max_page_count = 12"))

    def work(tx: Tx) -> None:
        for n in range(200):
            tx.run("INSERT INTO parent (name) VALUES (?)", f"{n}" * 2000)

    with pytest.raises(StoreError, match=r"disk is full.*Free some space"):
        store.transact(work)
    assert names(store) == []
    store.transact(lambda tx: tx.value("PRAGMA max_page_count = 100000"))
    store.transact(work)
    assert len(names(store)) == 200


def test_locked_for_too_long_is_one_line(store: Store, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store.transact(lambda tx: tx.value("PRAGMA user_version"))
    monkeypatch.setattr("rightlab.store.writer.BUSY_SECONDS", 0.05)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    store._submit(lambda tx: None).cancel()
    writer = store._writer
    assert writer is not None
    writer._connection.execute("PRAGMA busy_timeout = 20")
    with pytest.raises(StoreError, match="stayed locked"):
        store.transact(add("x"))
    other.execute("ROLLBACK")
    other.close()
    store.transact(add("y"))
    assert names(store) == ["y"]


def test_another_writers_short_lock_is_waited_for(store: Store, path: Path) -> None:
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    timer = threading.Timer(0.3, lambda: other.execute("ROLLBACK"))
    timer.start()
    store.transact(add("x"))
    timer.join()
    other.close()
    assert names(store) == ["x"]


# --- the fence ------------------------------------------------------------------------------------


def test_who_was_taken_over_is_fenced_out(store: Store, path: Path) -> None:
    token = store.take_fence()
    assert (token, store.fence) == (1, 1)
    store.transact(add("first"))
    with (
        Store.open(path, fence=token, migrations=STEPS) as run,
        Store.open(path, role="owner", migrations=STEPS) as new,
    ):
        run.transact(add("run"))
        assert new.take_fence() == 2
        for old in (store, run):
            with pytest.raises(FencedOut, match="taken this agent over"):
                old.transact(add("late"))
        new.transact(add("new"))
        assert store.take_fence() == 3
        with pytest.raises(FencedOut):
            new.transact(add("late"))
    assert names(store) == ["first", "run", "new"]


async def test_the_fence_holds_for_async_too(store: Store, path: Path) -> None:
    store.take_fence()
    with Store.open(path, role="owner", migrations=STEPS) as new:
        new.take_fence()
        with pytest.raises(FencedOut):
            await store.atransact(add("late"))


def test_without_a_fence_nothing_is_checked(store: Store, path: Path) -> None:
    store.take_fence()
    with Store.open(path, migrations=STEPS) as other:
        other.transact(add("x"))
    assert names(store) == ["x"]


# --- snapshot, close ------------------------------------------------------------------------------


def test_snapshot_is_whole_private_and_replaces(store: Store, tmp_path: Path) -> None:
    store.transact(add("x"))
    target = tmp_path / "copy.db"
    target.write_text("older")
    seen: list[Path] = []
    # Also while a transaction is open: it shows what was committed before.
    store.transact(
        lambda tx: (tx.run("INSERT INTO parent (name) VALUES ('y')"), seen.append(store.snapshot(target)))
    )
    assert seen == [target]
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    with Store.open(target, role="owner", migrations=STEPS) as copy:
        assert names(copy) == ["x"]
        copy.transact(add("z"))
    assert [name for name in os.listdir(tmp_path) if name.endswith(".tmp")] == []


def test_snapshot_to_nowhere_is_one_line(store: Store, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="copy cannot be written"):
        store.snapshot(tmp_path / "no" / "copy.db")


def test_a_readers_store_can_snapshot_too(store: Store, path: Path, tmp_path: Path) -> None:
    store.transact(add("x"))
    with Store.open(path, role="reader", migrations=STEPS) as reader:
        reader.snapshot(tmp_path / "copy.db")
        with pytest.raises(StoreError):
            reader.rows("INSERT INTO parent (name) VALUES ('y')")


def test_close_finishes_what_waits_and_refuses_the_rest(path: Path) -> None:
    store = Store.open(path, role="owner", migrations=STEPS)
    futures = [store._submit(add(f"n{n}")) for n in range(20)]
    store.close()
    store.close()
    assert all(future.done() for future in futures)
    with pytest.raises(StoreError, match="closed"):
        store.transact(add("x"))
    with pytest.raises(StoreError, match="closed"):
        store.rows("SELECT 1")
    assert not [thread for thread in threading.enumerate() if thread.name == "rightlab-store-data.db"]
    with Store.open(path, role="reader", migrations=STEPS) as reader:
        assert len(names(reader)) == 20


def test_no_descriptor_is_left_after_close(path: Path) -> None:
    Store.open(path, role="owner", migrations=STEPS).close()
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        with Store.open(path, role="owner", migrations=STEPS) as store:
            store.transact(lambda tx: None)
            names(store)
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_database_made_anew_in_its_place_gets_a_new_writer(path: Path) -> None:
    old = Store.open(path, role="owner", migrations=STEPS)
    old.transact(add("old"))
    for name in os.listdir(path.parent):
        (path.parent / name).rename(path.parent / f"moved-{name}")
    with Store.open(path, role="owner", migrations=STEPS) as new:
        new.transact(add("new"))
        assert names(new) == ["new"]
    old.close()


def test_a_forked_child_can_open_its_own_store(store: Store, path: Path) -> None:
    store.transact(add("parent"))
    pid = os.fork()
    if pid == 0:
        try:
            with Store.open(path, migrations=STEPS) as mine:
                mine.transact(add("child"))
            os._exit(0)
        except BaseException:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    store.transact(add("parent again"))
    assert names(store) == ["parent", "child", "parent again"]
