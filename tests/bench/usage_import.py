"""The transcript import's figures in one command: ``python tests/bench/usage_import.py [--mb N] [--json]``.

Writes a tree of N MB (200) as the CLI writes it, and compares on the same files, in the same run:

* ``rightlab usage import --json`` as people start it, and with ``--store``: first, and again unchanged
* a plain reader: one process, ``json.loads``, message ids in a dict
* ``ccusage``, only where it is already installed

Prints the least and the median of the seconds, processor seconds, MB/s, peak memory of all processes
together, and the ratios.
"""

import argparse
import json
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

PLAIN = """
import json, os, sys
seen = {}
for folder, _, names in os.walk(sys.argv[1]):
    for name in names:
        if name.endswith(".jsonl"):
            for line in open(os.path.join(folder, name), "rb"):
                row = json.loads(line)
                if row.get("type") == "assistant":
                    message = row["message"]
                    kept = seen.get(message["id"])
                    if kept is None or message["usage"]["output_tokens"] > kept["output_tokens"]:
                        seen[message["id"]] = message["usage"]
print(len(seen))
"""


def write_tree(root: Path, size: int) -> dict[str, int]:
    """About ``size`` bytes of sessions in projects, with sub-agents; returns what is in it."""
    chance = random.Random(6)
    words = ["parse", "the", "file", "def", "return", "value", "naïve", "test", "\n    ", '"x"', "path/to"]
    written = lines = requests = number = 0
    while written < size:
        number += 1
        session = f"{number:08x}-0000-4000-8000-000000000000"
        folder = root / "projects" / f"-home-me-project{number % 20}"
        inside = folder / session / "subagents" / f"agent-{number:x}.jsonl" if number % 4 == 0 else None
        path = inside or folder / f"{session}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        frame = {
            "isSidechain": inside is not None,
            "userType": "external",
            "cwd": f"/home/me/project{number % 20}",
            "sessionId": session,
            "version": "2.1.332",
            "gitBranch": "main",
        }
        rows = []
        for turn in range(chance.randrange(20, 400)):
            stamp = f"2026-{1 + number % 11:02}-{1 + turn % 28:02}T{turn % 24:02}:00:00.{turn % 1000:03}Z"
            text = " ".join(chance.choices(words, k=chance.randrange(20, 200)))
            common = {**frame, "timestamp": stamp, "uuid": f"u-{number}-{turn}", "parentUuid": None}
            rows.append({"type": "user", "message": {"role": "user", "content": text}, **common})
            usage = {
                "input_tokens": 3,
                "cache_creation_input_tokens": turn * 7,
                "cache_read_input_tokens": turn * 900,
                "output_tokens": 81 + turn,
                "server_tool_use": {"web_search_requests": 0, "web_fetch_requests": 0},
                "service_tier": "standard",
                "cache_creation": {
                    "ephemeral_1h_input_tokens": 0,
                    "ephemeral_5m_input_tokens": turn * 7,
                },
            }
            for block in ({"type": "text", "text": text}, {"type": "tool_use", "name": "Bash", "input": {}}):
                message = {"id": f"msg_{number}_{turn}", "model": "claude-sonnet-5-5", "role": "assistant"}
                message |= {"content": [block], "usage": usage}
                rows.append({"type": "assistant", "message": message, "requestId": "req", **common})
            result = {"type": "tool_result", "tool_use_id": "t", "content": text * chance.randrange(1, 4)}
            rows.append(
                {
                    "type": "user",
                    "message": {"role": "user", "content": [result]},
                    "toolUseResult": {"stdout": text},
                    **common,
                }
            )
            requests += 1
        data = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()
        path.write_bytes(data)
        written += len(data)
        lines += len(rows)
    return {"bytes": written, "lines": lines, "requests": requests, "files": number}


def timed(argv: list[str], rounds: int) -> tuple[dict[str, float], str]:
    """The medians of wall and processor time in seconds, and what was printed.

    On a machine that others use too, the processor time is the one to compare.
    """
    walls, works, output = [], [], ""
    for _ in range(rounds):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        began = time.perf_counter()
        output = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
        walls.append(time.perf_counter() - began)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        works.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return {
        "seconds": min(walls),
        "median": statistics.median(walls),
        "cpu": statistics.median(works),
    }, output


def peak(argv: list[str]) -> float:
    """Peak memory of a command in MB: the largest sum over its process group, sampled."""
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, start_new_session=True)
    most = 0
    while process.poll() is None:
        most = max(most, sum(_resident(pid) for pid in _family(process.pid)))
        time.sleep(0.01)
    own = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    return round(most / 1024 if most else own, 1)


def _family(root: int) -> list[int]:
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, IndexError):
                continue
    found = [root]
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return found


def _resident(pid: int) -> int:
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1])
    except OSError:
        pass
    return 0


def run(size_mb: int, rounds: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as base:
        root, store = Path(base) / "tree", Path(base) / "store"
        tree = write_tree(root, size_mb * 1_000_000)
        megabytes = tree["bytes"] / 1e6
        command = [sys.executable, "-m", "rightlab", "usage", "import", str(root), "--json"]
        figures: dict[str, Any] = {"tree": tree, "cpus": os.cpu_count()}

        def put(name: str, times: dict[str, float]) -> None:
            figures[name] = {key: round(value, 3) for key, value in times.items()}
            figures[name]["mb_per_s"] = round(megabytes / times["seconds"], 1)

        plain, told = timed([sys.executable, "-c", PLAIN, str(root)], rounds)
        assert int(told) == tree["requests"]
        put("plain_json", plain)
        ours, told = timed(command, rounds)
        report = json.loads(told)
        assert (report["requests"], report["lines"]) == (tree["requests"], tree["lines"])
        put("rightlab", ours)
        first, told = timed([*command, "--store", str(store)], 1)
        put("rightlab_store_first", first)
        again, told_again = timed([*command, "--store", str(store)], rounds)
        assert told_again == told
        put("rightlab_store_unchanged", again)
        figures["peak_mb"] = peak(command)
        figures["peak_mb_plain"] = peak([sys.executable, "-c", PLAIN, str(root)])
        figures["plain_over_rightlab"] = round(plain["seconds"] / ours["seconds"], 2)
        ccusage = shutil.which("ccusage")
        if ccusage is not None:
            other = ["env", f"CLAUDE_CONFIG_DIR={root}", ccusage, "daily", "--json", "--offline"]
            theirs, _ = timed(other, rounds)
            put("ccusage", theirs)
            figures["ccusage_over_rightlab"] = round(theirs["seconds"] / ours["seconds"], 2)
        return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mb", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    figures = run(arguments.mb, arguments.rounds)
    if arguments.json:
        print(json.dumps(figures, indent=2))
        return
    for name, value in figures.items():
        print(f"{name:26} {value}")
    print("aims: as fast as ccusage (about 250 MB/s), under 500 MB, unchanged under 1 s")


if __name__ == "__main__":
    main()
