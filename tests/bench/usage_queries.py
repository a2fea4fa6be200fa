"""Questions over a big ledger: the engine against DuckDB on the same Parquet, and against SQLite with pandas.

One command::

    python tests/bench/usage_queries.py [--rows 1000000] [--days 90] [--repeats 5]

P50, P90 and P99 of three metrics by source, model and day. "first" is a fresh engine over segments on disk, "warm" the
same engine again, "other" another question to it. Times are medians in ms of one process; ratios are what counts.
"""

import argparse
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd

from rightlab.clock import iso
from rightlab.store import Store
from rightlab.usage import percentile
from rightlab.usage.engine import Engine

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
SOURCES = ("interactive", "cron", "delivery", "reflection", "background")
MODELS = ("claude-sonnet-5-5", "claude-opus-5-5", "claude-haiku-5-5")
COLUMNS = "ts, source, model, chat_id, total_cost_usd, num_turns, input_tokens, wall_elapsed_ms, session_uuid"


class Clock:
    def now(self) -> datetime:
        return NOW


def fill(path: Path, rows: int, days: int) -> None:
    random = np.random.default_rng(1)
    first = NOW - timedelta(days=days)
    seconds = np.sort(random.uniform(0, days * 86_400 - 3_600, rows))
    costs, steps = random.lognormal(-4, 1, rows), random.integers(1, 20, rows)
    elapsed, pick = random.lognormal(9, 1, rows), random.integers(0, 1 << 30, rows)

    def lines() -> Any:
        for n in range(rows):
            at = iso(first + timedelta(seconds=float(seconds[n])))
            ms = None if pick[n] % 10 == 0 else int(elapsed[n])
            source, model = SOURCES[pick[n] % 5], MODELS[pick[n] % 7 % 3]
            yield at, source, model, 42, float(costs[n]), int(steps[n]), 100, ms, f"s{pick[n] % 999}"

    with Store.open(path, role="owner") as store:
        marks = ", ".join("?" * 9)
        store.transact(
            lambda tx: tx.run_many(f"INSERT INTO usage_events ({COLUMNS}) VALUES ({marks})", lines())
        )


def timed(work: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    times, found = [], None
    for _ in range(repeats):
        start = time.perf_counter()
        found = work()
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times), found


def duck(files: str) -> Any:
    with duckdb.connect(":memory:") as connection:
        return connection.execute(
            "SELECT source, model, ts_us // 86400000000 AS day, count(*),"
            " quantile_cont(total_cost_usd, [0.5, 0.9, 0.99]), quantile_cont(num_turns, [0.5, 0.9, 0.99]),"
            f" quantile_cont(wall_elapsed_ms, [0.5, 0.9, 0.99]) FROM read_parquet('{files}') GROUP BY ALL"
        ).fetchall()


def with_pandas(path: Path) -> Any:
    with Store.open(path, role="reader") as store:
        rows = store.rows(
            "SELECT ts, source, model, total_cost_usd, num_turns, wall_elapsed_ms FROM usage_events"
        )
    frame = pd.DataFrame(
        [tuple(row) for row in rows], columns=["ts", "source", "model", "cost", "steps", "ms"]
    )
    frame["day"] = frame["ts"].str[:10]
    grouped = frame.groupby(["source", "model", "day"])[["cost", "steps", "ms"]]
    return grouped.quantile([0.5, 0.9, 0.99], interpolation="linear")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--days", type=int, default=90)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path, cache = Path(folder) / "data.db", Path(folder) / "segments"
        fill(path, options.rows, options.days)

        def fresh() -> Any:
            with Engine(path, cache, Clock()) as engine:
                return engine.percentiles()

        build, _ = timed(fresh, 1)
        duck(f"{cache}/*.parquet")
        firsts, ducks = [], []
        for _ in range(options.repeats):
            firsts.append(timed(fresh, 1)[0])
            ducks.append(timed(lambda: duck(f"{cache}/*.parquet"), 1)[0])
        first, direct = statistics.median(firsts), statistics.median(ducks)
        with Engine(path, cache, Clock()) as engine:
            answer = engine.percentiles()
            warm, _ = timed(engine.percentiles, options.repeats)

            def unseen() -> Any:
                engine._answers.clear()
                return engine.percentiles()

            again, _ = timed(unseen, options.repeats)
            berlin, _ = timed(lambda: engine.percentiles(("source", "day"), tz="Europe/Berlin"), 1)
            exact = check(engine, answer)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        slow, _ = timed(lambda: with_pandas(path), 1)
    print(
        f"{options.rows:,} rows, {len(answer)} groups, exact: {exact}\n"
        f"segments written and first answer {build:.0f} ms, peak so far {peak:.0f} MB\n"
        f"first from disk {first:.0f} ms, DuckDB on the same Parquet {direct:.0f} ms: {first / direct:.2f}x\n"
        f"warm {warm:.2f} ms; same columns, no kept answer {again:.0f} ms; another zone and grouping {berlin:.0f} ms\n"
        f"SQLite with pandas {slow:.0f} ms: {slow / first:.1f}x the first answer"
    )
    return 0 if exact else 1


def check(engine: Engine, answer: Any) -> bool:
    """A group's percentiles are the ones of rightlab.usage.percentile."""
    for record in list(answer.records())[:: max(1, len(answer) // 20)]:
        table = engine.sql(
            "SELECT total_cost_usd FROM usage WHERE source = ? AND model = ? AND ts_us // 86400000000 = ?",
            [
                record["source"],
                record["model"],
                (datetime.fromisoformat(record["day"]) - datetime(1970, 1, 1)).days,
            ],
        )
        values = [value for value in table.column(0).to_pylist() if value is not None]
        if len(values) >= 20 and record["cost_usd_p90"] != percentile(values, 0.9):
            return False
    return True


if __name__ == "__main__":
    raise SystemExit(main())
