"""The scheduler's tick with 10,000 jobs that are not due: ``python3 tests/bench/cron_tick.py``."""

import asyncio
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

JOBS = 10_000


async def measure(folder: Path) -> list[float]:
    from rightlab.clock import SystemClock
    from rightlab.cron import JobStore, Scheduler
    from rightlab.store import Store

    async def nothing(*args: Any) -> Any:
        raise AssertionError("nothing is due")

    with Store.open(folder / "data.db", role="owner") as store:
        jobs = JobStore(store, SystemClock())
        jobs.add("j0", schedule="0 0 1 1 *", prompt="x", target_chat_id=1)
        store.transact(
            lambda tx: tx.run(
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)"
                " INSERT INTO cron_specs (job_name, schedule, prompt, next_slot, created_at, updated_at)"
                " SELECT 'x' || i, schedule, prompt, next_slot, created_at, updated_at FROM n, cron_specs",
                JOBS,
            )
        )
        scheduler = Scheduler(
            jobs,
            clock=SystemClock(),
            launch=nothing,
            deliver=nothing,
            runs_dir=folder,
            agent="a",
            home=folder,
        )
        took = []
        for _ in range(101):
            started = time.perf_counter()
            await scheduler.tick()
            took.append(time.perf_counter() - started)
        return took[1:]


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="rightlab-bench-") as folder:
        took = asyncio.run(measure(Path(folder)))
    print(
        f"tick with {JOBS} jobs: median {statistics.median(took) * 1000:.2f} ms, max {max(took) * 1000:.2f} ms (n=100)"
    )


if __name__ == "__main__":
    main()
