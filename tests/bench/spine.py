"""The spine's figures in one command: ``python3 tests/bench/spine.py [--quick] [--json]``.

* turn wall over a bare ``claude -p`` with the same MCP config, schema, prompt file and an instant upstream (ratio)
* the bot's latency while a cell of its kernel sleeps
* ``demo --once`` wall
* import and extension load over bare Python and a bare kernel
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

INSTANT = """
rules:
  - reply: {text: pong}
"""


def median_ms(samples: list[float]) -> dict[str, Any]:
    ordered = sorted(samples)
    return {
        "n": len(ordered),
        "median_ms": round(statistics.median(ordered) * 1000, 2),
        "min_ms": round(ordered[0] * 1000, 2),
        "max_ms": round(ordered[-1] * 1000, 2),
    }


def make_agent(folder: Path, upstream: str, **more: Any) -> Any:
    from rightlab.home import Home
    from rightlab.runtime.setup import make_agent as make

    return make(
        Home.resolve(folder), "bench", bootstrap=False, overrides={"gateway.upstream": upstream, **more}
    )


def bench_turn(folder: Path, rounds: int) -> dict[str, Any]:
    """Our turn against the bare CLI, alternating, both on the same scripted upstream; first turns and resumed ones."""
    from rightlab.testing import ScriptedModel

    script = folder / "instant.yaml"
    script.write_text(INSTANT)
    with ScriptedModel(script) as model:
        agent = make_agent(folder / "home", model.url)
        agent.secrets().set("claude_credential", "sk-ant-api03-bench")
        runner = _Bench(agent, model.url)
        return runner.run(rounds)


class _Bench:
    """Keeps one runtime up and alternates its turns with bare CLI calls made from the very same parts."""

    def __init__(self, agent: Any, url: str) -> None:
        self.agent = agent
        self.url = url

    def run(self, rounds: int) -> dict[str, Any]:
        from rightlab.mcp import Aggregator, InvocationRegistry, builtin_tools
        from rightlab.runtime import host
        from rightlab.runtime.thread import host_thread

        runtime = host.up(self.agent, host="bench")
        # The same tool table over loopback TCP: the bare CLI has no sandbox to reach a unix socket through.
        self.tools = Aggregator(InvocationRegistry(), builtin_tools())
        host_thread().call(self.tools.start(tcp=True))
        try:
            ours: list[float] = []
            bare: list[float] = []
            ratios: list[float] = []
            host.ask(self.agent, "warm up")
            self.bare(runtime.services, str(uuid.uuid4()), resume=False)
            session = str(uuid.uuid4())
            self.bare(runtime.services, session, resume=False)
            for _ in range(rounds):
                started = time.perf_counter()
                turn = host.ask(self.agent, "ping")
                ours.append(time.perf_counter() - started)
                assert turn["status"] == "delivered", turn
                bare.append(self.bare(runtime.services, session, resume=True))
                ratios.append(ours[-1] / bare[-1])
        finally:
            host_thread().call(self.tools.stop())
            host.down(self.agent)
        return {
            "ours": median_ms(ours),
            "bare": median_ms(bare),
            "ratio_median": round(statistics.median(ours) / statistics.median(bare), 3),
            "ratio_pairwise_median": round(statistics.median(ratios), 3),
        }

    def bare(self, services: Any, session: str, *, resume: bool) -> float:
        """``claude -p`` with the same flags, schema, MCP server and prompt bytes, straight to the upstream."""
        from rightlab.claude import Invocation, claude_env
        from rightlab.runtime.prompts import assemble_now

        folder = self.agent.root / "bare"
        (folder / "home").mkdir(parents=True, exist_ok=True)
        prompt = folder / "prompt.md"
        if not prompt.exists():
            prompt.write_bytes(assemble_now(self.agent, "normal").render_bytes())
        mcp = folder / "mcp.json"
        invocation_id = uuid.uuid4().hex
        mcp.write_text(json.dumps(self.tools.client_config(invocation_id, str(self.tools.url))))
        invocation = Invocation.of(
            "worker",
            invocation_id=invocation_id,
            session_id=session,
            resume=resume,
            model="sonnet",
            prompt_file=str(prompt),
            mcp_config=str(mcp),
        )
        env = claude_env(
            base_url=self.url,
            bearer="bench",
            config_dir=str(folder / "home" / ".claude"),
            home=str(folder / "home"),
            path="/usr/bin:/bin",
            invocation_id=invocation_id,
            root=os.geteuid() == 0,
        )
        started = time.perf_counter()
        done = subprocess.run(
            invocation.argv(str(services.cli.path)),
            input='messages:\n- id: 1\n  text: "ping"\n',
            env=env,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=60,
        )
        elapsed = time.perf_counter() - started
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr
        return elapsed


def bench_latency(folder: Path, messages: int) -> dict[str, Any]:
    """From an update at the Bot API to its acknowledgement, while the main thread of the bot's kernel sleeps."""
    from rightlab.testing import BotApi

    with BotApi(token="123456:bench-token-bench-token-bench-tok") as api:
        script = folder / "instant.yaml"
        script.write_text(INSTANT)
        agent = make_agent(
            folder / "bot",
            f"scripted:{script}",
            **{"telegram.api_base": api.base_url, "telegram.token": api.token},
        )
        agent.allowlist().allow(42)
        from jupyter_client.manager import KernelManager

        manager = KernelManager(kernel_name="rightlab", transport="ipc")
        manager.start_kernel(env={**_env(), "RIGHTLAB_HOME": str(folder / "bot")})
        client = manager.client()
        client.start_channels()
        client.wait_for_ready(timeout=60)
        try:
            client.execute_interactive("%rightlab up", timeout=60, output_hook=lambda _: None)
            client.execute("import time\ntime.sleep(5)")
            time.sleep(0.3)
            samples = []
            for number in range(messages):
                started = time.perf_counter()
                update = api.send_text(7, f"/ignored {number}", user=7)
                api.wait_for(lambda u=update: u not in api.pending_updates, timeout=5)
                samples.append(time.perf_counter() - started)
            return median_ms(samples)
        finally:
            client.stop_channels()
            manager.shutdown_kernel()


def bench_demo(folder: Path) -> dict[str, Any]:
    walls = []
    for _ in range(2):
        started = time.perf_counter()
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "rightlab",
                "--home",
                str(folder / "demo-home"),
                "demo",
                "--once",
                "--json",
            ],
            capture_output=True,
            text=True,
            env=_env(),
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        walls.append(round(time.perf_counter() - started, 2))
    return {"first_s": walls[0], "second_s": walls[1]}


def bench_import(rounds: int) -> dict[str, Any]:
    def wall(code: str) -> float:
        started = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True, env=_env())
        return time.perf_counter() - started

    bare, ours = [], []
    for _ in range(rounds):
        bare.append(wall("pass"))
        ours.append(wall("import rightlab"))
    return {
        "bare": median_ms(bare),
        "import_rightlab": median_ms(ours),
        "over_ms": round((statistics.median(ours) - statistics.median(bare)) * 1000, 1),
    }


def bench_load(rounds: int) -> dict[str, Any]:
    from jupyter_client.manager import KernelManager

    samples = []
    for _ in range(rounds):
        manager = KernelManager(kernel_name="python3", transport="ipc")
        manager.start_kernel(env=_env())
        client = manager.client()
        client.start_channels()
        client.wait_for_ready(timeout=60)
        code = (
            "import time as _t; _s = _t.perf_counter(); get_ipython().run_line_magic('load_ext', 'rightlab');"
            " print(_t.perf_counter() - _s)"
        )
        said: list[str] = []
        client.execute_interactive(
            code,
            timeout=30,
            output_hook=lambda m, said=said: said.append(m["content"].get("text", "")),
        )
        samples.append(float("".join(said).strip()))
        client.stop_channels()
        manager.shutdown_kernel()
    return median_ms(samples)


def _env() -> dict[str, str]:
    path = os.pathsep.join([str(Path(sys.executable).parent), "/usr/local/bin", "/usr/bin", "/bin"])
    return {"PATH": path, "HOME": os.environ["HOME"], "LANG": "C.UTF-8"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rounds = 5 if options.quick else 20
    with tempfile.TemporaryDirectory(prefix="rightlab-bench-") as scratch:
        folder = Path(scratch)
        os.environ["HOME"] = str(folder)
        found = {
            "turn": bench_turn(folder, rounds),
            "bot_latency_while_cell_sleeps": bench_latency(folder, rounds),
            "demo_once": bench_demo(folder),
            "import": bench_import(rounds),
            "load_ext": bench_load(3 if options.quick else 7),
        }
    if options.json:
        print(json.dumps(found, indent=2))
        return
    for name, figures in found.items():
        print(name)
        for key, value in figures.items():
            print(f"  {key}: {value}")


if __name__ == "__main__":
    asyncio.set_event_loop(None)
    main()
