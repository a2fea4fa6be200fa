"""An agent in a process of its own, as people run it: the real runtime, Claude Code and sandbox, on a stand-in bot.

Used by the tests beside it and by ``tests/bench/turn_kills.py``.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rightlab.home import Home, update_config
from rightlab.runtime.setup import make_agent
from rightlab.store import Store
from rightlab.testing import BotApi

__all__ = ["AgentProcess", "wait_until"]

NAME = "alice"


def wait_until(predicate: Callable[[], Any], timeout: float = 30.0, what: str = "") -> Any:
    deadline = time.monotonic() + timeout
    while not (result := predicate()):
        assert time.monotonic() < deadline, f"not within {timeout:g} s: {what or predicate}"
        time.sleep(0.01)
    return result


class AgentProcess:
    """``rightlab run`` of one agent whose model is scripted and whose bot talks to ``api``."""

    def __init__(
        self, folder: Path, api: BotApi, *, allow: Sequence[int] = (42,), rules: Any = None, **overrides: Any
    ) -> None:
        self.folder = folder
        self.api = api
        self.script_file = folder / "script.yaml"
        self.script(rules if rules is not None else [{"reply": "ok"}])
        self.agent = make_agent(
            Home.resolve(folder / "home"),
            NAME,
            telegram_token=api.token,
            allow=allow,
            bootstrap=False,
            overrides={
                "gateway.upstream": f"scripted:{self.script_file}",
                "telegram.api_base": api.base_url,
                **overrides,
            },
        )
        self.process: subprocess.Popen[bytes] | None = None
        self.output = folder / "output.txt"

    def script(self, rules: Any) -> None:
        """What the model says from the next start on. JSON is YAML."""
        self.script_file.write_text(json.dumps({"rules": rules}, ensure_ascii=False))

    def configure(self, **values: Any) -> None:
        update_config(self.agent.config_path, values)

    def start(self, *, wait: bool = True) -> None:
        """Start it; with ``wait`` until it polls its bot."""
        assert self.process is None
        polls = len(self.api.calls_of("getUpdates"))
        with self.output.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "rightlab", "--home", str(self.folder / "home"), "run", NAME],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={
                    "PATH": os.environ["PATH"],
                    "HOME": str(self.folder),
                    "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
                },
                start_new_session=True,
            )
        if wait:
            wait_until(
                lambda: len(self.api.calls_of("getUpdates")) > polls or self._ended(), what="the bot polls"
            )
            assert not self._ended(), self.output.read_text()

    def _ended(self) -> bool:
        return self.process is None or self.process.poll() is not None

    def kill(self) -> None:
        """kill -9 of the runtime, as a machine or a person would."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End it as a person would; nothing when it is not running."""
        self._end(signal.SIGTERM)

    def _end(self, number: int) -> None:
        process, self.process = self.process, None
        if process is None:
            return
        process.send_signal(number)
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(5)
            raise

    def rows(self, sql: str, *params: Any) -> list[dict[str, Any]]:
        """What stands in the agent's database; nothing while it has no tables yet."""
        with Store.open(self.agent.db_path, role="reader") as store:
            return [dict(row) for row in store.rows(sql, *params)]

    def turns(self) -> list[dict[str, Any]]:
        return self.rows("SELECT * FROM turns ORDER BY id")

    def guest_file(self, name: str) -> Path:
        return self.agent.guest_dir / name

    def open_ends(self) -> list[str]:
        """What is not settled yet: messages without a turn, turns that run, parts to be sent."""
        return [
            f"{row['what']} {row['id']}"
            for row in self.rows(
                "SELECT 'message' AS what, id FROM inbox WHERE state IN ('received', 'queued', 'turn')"
                " UNION ALL SELECT 'turn', id FROM turns WHERE status IN ('running', 'replied')"
                " UNION ALL SELECT 'part', outbox_id FROM outbox_parts WHERE state IN ('pending', 'sending')"
            )
        ]

    def settled(self, timeout: float = 60.0) -> None:
        """Wait until nothing is open: every update acknowledged, every turn ended, every part sent or given up."""
        wait_until(
            lambda: not self.api.pending_updates and not self.open_ends(), timeout, "everything is settled"
        )

    def log(self) -> str:
        return "\n".join(path.read_text() for path in self.agent.logs_dir.glob("*.log"))
