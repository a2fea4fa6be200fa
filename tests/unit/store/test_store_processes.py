"""Several processes on one database: nothing lost, nothing half done, also when one is killed."""

import subprocess
import sys
import threading
import time
from pathlib import Path

from rightlab.store import Migration, Store, Tx

STEPS = [
    Migration(
        1,
        "core",
        (
            "CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID",
            "INSERT OR IGNORE INTO meta (key, value) VALUES ('fence', 0)",
            "CREATE TABLE IF NOT EXISTS log (who TEXT, n INTEGER, PRIMARY KEY (who, n))",
            "CREATE TABLE IF NOT EXISTS counter (n INTEGER)",
            "INSERT INTO counter SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM counter)",
        ),
    )
]

WORK = """
import sys
from pathlib import Path
from rightlab.store import Migration, Store
who, count = sys.argv[2], int(sys.argv[3])
def work(n):
    def fn(tx):
        before = tx.value("SELECT n FROM counter")
        tx.run("INSERT INTO log VALUES (?, ?)", who, n)
        tx.run("UPDATE counter SET n = ?", before + 1)
    return fn
with Store.open(Path(sys.argv[1]), migrations=[Migration(1, "core", ())]) as store:
    for n in range(count):
        store.transact(work(n))
        print(n, flush=True)
"""


def test_the_writer_thread_and_four_processes_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "data.db"
    with Store.open(path, role="owner", migrations=STEPS) as store:
        children = [
            subprocess.Popen(
                [sys.executable, "-c", WORK, str(path), f"p{n}", "100"], stdout=subprocess.DEVNULL
            )
            for n in range(4)
        ]

        def here(who: str) -> None:
            for n in range(100):

                def fn(tx: Tx, n: int = n) -> None:
                    before = tx.value("SELECT n FROM counter")
                    tx.run("INSERT INTO log VALUES (?, ?)", who, n)
                    tx.run("UPDATE counter SET n = ?", before + 1)

                store.transact(fn)

        threads = [threading.Thread(target=here, args=(f"t{n}",)) for n in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [child.wait(timeout=120) for child in children] == [0] * 4
        assert store.value("SELECT count(*) FROM log") == 600
        assert store.value("SELECT n FROM counter") == 600
        assert store.check() == []


def test_kill_9_keeps_every_transaction_that_was_confirmed(tmp_path: Path) -> None:
    path = tmp_path / "data.db"
    with Store.open(path, role="owner", migrations=STEPS) as store:
        child = subprocess.Popen(
            [sys.executable, "-c", WORK, str(path), "p", "1000000"], stdout=subprocess.PIPE, text=True
        )
        assert child.stdout is not None
        confirmed = -1
        while confirmed < 50:
            confirmed = int(child.stdout.readline())
        child.kill()
        confirmed = max(
            [confirmed, *(int(line) for line in child.stdout.read().splitlines() if line.isdigit())]
        )
        child.wait(timeout=30)
        begun = time.monotonic()
        store.transact(lambda tx: tx.run("INSERT INTO log VALUES ('me', 1)"))
        assert time.monotonic() - begun < 4
        done = store.value("SELECT count(*) FROM log WHERE who = 'p'")
        assert done >= confirmed + 1
        assert store.value("SELECT n FROM counter") == done
        assert store.check() == []
