"""The prompt's figures in one command: ``python tests/bench/prompts.py [--quick] [--json]``.

* assembling and rendering a prompt of 60 kB in 40 sections (aim: under 2 ms)
* 10,000 assemblies: how much memory they leave behind
* the guest script's time over starting the command alone (aim: at most 15 ms)
* what the inspector takes: linter, cutting a recorded prompt, what-if over 200 requests
"""

import argparse
import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from rightlab.prompt import PromptRegistry, PromptSettings, build_assembly_script, right_agent_registry
from rightlab.prompt.inspect import WhatIf, lint, listed, suggest_order, trace

SECTIONS, BYTES = 40, 60_000


def timed(work: Callable[[], Any], rounds: int) -> dict[str, Any]:
    """Milliseconds of ``rounds`` calls: median, and the ends."""
    samples = []
    for _ in range(rounds):
        began = time.perf_counter()
        work()
        samples.append((time.perf_counter() - began) * 1000)
    samples.sort()
    return {
        "n": rounds,
        "median_ms": round(statistics.median(samples), 3),
        "min_ms": round(samples[0], 3),
        "p90_ms": round(samples[int(rounds * 0.9)], 3),
    }


def registry(root: Path) -> PromptRegistry:
    """40 sections of 1.5 kB: templates, literal ones, callables, six files; variables, tools, a scope."""
    made = PromptRegistry(identity=None)
    for name in ("agent_name", "place", "zone"):
        made.variable(name, f"the {name}")
    body = "Some rule of {{agent_name}} at {{place}}, said in plain words and to be kept. " * 19
    plain = "A line of text that says what it says and means nothing by it, in data. " * 20
    for number in range(SECTIONS):
        name, order = f"section:{number:02}", (number * 7) % SECTIONS
        kind = number % 4
        if number < 6:
            made.section(name, order, f"## File {number}", literal=True, file=f"F{number}.md")
            (root / f"F{number}.md").write_text(plain)
        elif kind == 0:
            made.section(name, order, f"## {number}\n\n{body}")
        elif kind == 1:
            made.section(name, order, plain, literal=True)
        else:
            made.section(name, order, lambda context, text=plain: text, literal=True)
    made.tools([{"name": f"tool{n}", "description": "does it", "parameters": {}} for n in range(20)])
    made.scope("variant").variable("place", "another place")
    return made


async def bench_assembly(root: Path, rounds: int) -> dict[str, Any]:
    """Inside a loop, as a turn does it."""
    made = registry(root)
    context = {"root": root, "scope": "variant"}
    samples = []
    for _ in range(rounds):
        began = time.perf_counter()
        data = (await made.assemble(context)).render_bytes()
        samples.append((time.perf_counter() - began) * 1000)
    samples.sort()
    return {
        "bytes": len(data),
        "sections": SECTIONS,
        "n": rounds,
        "median_ms": round(statistics.median(samples), 3),
        "min_ms": round(samples[0], 3),
        "p90_ms": round(samples[int(rounds * 0.9)], 3),
    }


async def bench_memory(root: Path, rounds: int) -> dict[str, Any]:
    """Bytes that Python holds more after ``rounds`` assemblies with scopes coming and going."""
    made = registry(root)

    async def some(times: int) -> None:
        for number in range(times):
            with made.scope(("variant", number % 7)) as scope:
                scope.section("section:10", 10, "shadowed")
                (await made.assemble({"root": root, "scope": scope})).render_bytes()

    await some(200)
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    await some(rounds)
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    return {"assemblies": rounds, "grown_bytes": grown}


def bench_script(root: Path, rounds: int) -> dict[str, Any]:
    """Right Agent's prompt: the script with a command that ends at once, alternating with that command alone."""
    for name in ("IDENTITY", "SOUL", "USER", "TOOLS", "MEMORY"):
        (root / f"{name}.md").write_text("- a line of what it says\n" * 60)
    made = right_agent_registry(PromptSettings("bench", notice_token="0" * 32))
    assembly = made.assemble_now({"root": root})
    target = root / "run" / "prompt.md"
    text = build_assembly_script(assembly, root=root, prompt_file=target, argv=["/bin/true"])
    script = root / "run.sh"
    script.write_bytes(text.encode("utf-8", "surrogateescape"))
    environment = {"PATH": os.defpath}
    alone: list[float] = []
    whole: list[float] = []
    for _ in range(rounds):
        for samples, command in ((alone, ["/bin/true"]), (whole, ["/bin/sh", str(script)])):
            began = time.perf_counter()
            subprocess.run(command, check=True, env=environment)
            samples.append((time.perf_counter() - began) * 1000)
    over = statistics.median(whole) - statistics.median(alone)
    return {
        "n": rounds,
        "equal": target.read_bytes() == assembly.render_bytes(),
        "alone_ms": round(statistics.median(alone), 2),
        "with_script_ms": round(statistics.median(whole), 2),
        "over_ms": round(over, 2),
    }


class _Request:
    """A recorded request of a made-up conversation."""

    def __init__(self, prompt: str, number: int) -> None:
        from rightlab.claude.request_blocks import iter_blocks

        kept = {"type": "ephemeral"}
        said = [{"role": "user", "content": f"message {n} " * 30} for n in range(number % 20 + 1)]
        said[-1]["content"] = [{"type": "text", "text": said[-1]["content"], "cache_control": kept}]
        self.json = {
            "tools": [{"name": f"tool{n}", "description": "does it " * 90} for n in range(20)],
            "system": [{"type": "text", "text": prompt, "cache_control": kept}],
            "messages": said,
        }
        self.blocks = tuple(iter_blocks(self.json))
        self.at = (datetime(2026, 11, 30, tzinfo=UTC) + timedelta(minutes=number)).isoformat()
        self.model, self.usage, self.scripted, self.session_id = "claude-sonnet-5-5", None, True, "one"


def bench_inspector(root: Path, rounds: int) -> dict[str, Any]:
    assembly = registry(root).assemble_now({"root": root})
    known = listed(assembly)
    prompt = assembly.render()
    requests = [_Request(prompt.replace("mean", f"mean{n // 9}", 1), n) for n in range(200)]
    traces = [trace(one, known, scope="chat") for one in requests]
    what_if = WhatIf.over(traces)
    moved = what_if.move(what_if.order[3])
    return {
        "lint": timed(lambda: lint(assembly), rounds),
        "cut_one_request": timed(lambda: trace(requests[7], known), rounds),
        "what_if_200_requests": timed(moved.forecast, max(3, rounds // 10)),
        "suggest_order_200_requests": timed(lambda: suggest_order(what_if).forecast(), max(3, rounds // 10)),
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--json", action="store_true", help="one JSON document")
    options = parser.parse_args()
    import asyncio

    rounds = 50 if options.quick else 500
    with tempfile.TemporaryDirectory(prefix="rightlab-bench-") as folder:
        root = Path(folder)
        found = {
            "assemble_and_render": asyncio.run(bench_assembly(root, rounds)),
            "memory": asyncio.run(bench_memory(root, 1000 if options.quick else 10_000)),
            "guest_script": bench_script(root, 20 if options.quick else 100),
            "inspector": bench_inspector(root, 20 if options.quick else 50),
        }
    if options.json:
        print(json.dumps(found, indent=1))
        return 0
    one, memory, script = found["assemble_and_render"], found["memory"], found["guest_script"]
    print(
        f"assemble + render {one['bytes'] / 1000:.1f} kB, {one['sections']} sections: median {one['median_ms']} ms,"
        f" P90 {one['p90_ms']} ms (n = {one['n']}; aim < 2 ms)"
    )
    print(f"{memory['assemblies']:,} assemblies: {memory['grown_bytes']:+,} bytes held")
    print(
        f"guest script: {script['over_ms']} ms over the command alone ({script['alone_ms']} ms, n = {script['n']};"
        f" aim <= 15 ms); equal to the host: {script['equal']}"
    )
    for name, figures in found["inspector"].items():
        print(f"{name.replace('_', ' ')}: median {figures['median_ms']} ms (n = {figures['n']})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
