"""Zone simulation: every IANA zone, two years, every real minute against the schedule module.

One command::

    python tests/bench/zones.py [--zones N] [--years 2026 2028]

Prints one line of figures and exits 1 at the first difference.
"""

import argparse
import sys
import time
import zoneinfo
from datetime import UTC, datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "unit" / "cron"))

import zone_oracle

from rightlab.cron import parse_schedule

EXPRESSIONS = (
    "30 2 * * *",
    "15,45 0-3 * * *",
    "0 0 * * *",
    "0 9 * * 1-5",
    "0 0 13 * 5",
    "*/30 0-3 * * *",
    "0 */2 * * *",
    "30 * * * 0,6",
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--zones", type=int, default=0, help="only this many zones, evenly spread")
    parser.add_argument("--years", type=int, nargs=2, default=(2026, 2028))
    options = parser.parse_args()
    names = sorted(zoneinfo.available_timezones() - {"localtime", "Factory"})
    if options.zones:
        names = names[:: max(1, len(names) // options.zones)]
    start, end = (datetime(year, 1, 1, tzinfo=UTC) for year in options.years)
    answers: dict[object, list[list[int]]] = {}
    fires = changes = 0
    began = time.perf_counter()
    for name in names:
        instants, offsets = zone_oracle.transitions(name)
        inside = (instants > start.timestamp() - 7 * 86_400) & (instants <= end.timestamp())
        shape = (tuple(instants[inside]), tuple(offsets[1:][inside]), int(offsets[:-1][inside][0]) if
                 inside.any() else int(offsets[(instants <= start.timestamp()).sum()]))  # fmt: skip
        changes += int(inside.sum())
        if shape not in answers:  # zones with the same clock share the oracle's answer, never ours
            answers[shape] = [zone_oracle.expected(expr, name, start, end) for expr in EXPRESSIONS]
        for expr, want in zip(EXPRESSIONS, answers[shape], strict=True):
            got = []
            for fire in parse_schedule(expr).fires(name, start):
                if fire.astimezone(UTC) > end:
                    break
                got.append(int(fire.timestamp()) // 60)
            if got != want:
                wrong = sorted(set(got) ^ set(want)) or got
                print(f"{name} {expr}: differs at {datetime.fromtimestamp(wrong[0] * 60, UTC)}")
                return 1
            fires += len(want)
    took = time.perf_counter() - began
    print(
        f"{len(names)} zones ({len(answers)} distinct), {changes} clock changes,"
        f" {len(EXPRESSIONS)} schedules, {fires} fires from {options.years[0]} to {options.years[1]}: all right,"
        f" {took:.0f} s"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
