"""A launcher on this machine and children that behave as badly as a test wants."""

import asyncio
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from rightlab.claude import CliTransport, Event, Invocation


class LocalLauncher:
    def __init__(self) -> None:
        self.processes: list[asyncio.subprocess.Process] = []
        self.environments: list[dict[str, str]] = []
        self.files: list[Path | None] = []

    async def spawn(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: str | None = None,
        files: Path | None = None,
    ) -> asyncio.subprocess.Process:
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *argv, stdin=pipe, stdout=pipe, stderr=pipe, env=dict(env), cwd=cwd, start_new_session=True
        )
        self.processes.append(process)
        self.environments.append(dict(env))
        self.files.append(files)
        return process


class Child:
    """A transport whose CLI is a Python program of the test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.launcher = LocalLauncher()
        self.transport = CliTransport(
            self.launcher,
            sys.executable,
            lambda invocation: {"PATH": "/usr/bin:/bin"},
            log_dir=folder / "log",
        )

    def stream(self, program: str, stdin: str = "hi", **fields: Any) -> Any:
        given = {"session_id": "session", **fields}
        invocation = Invocation("worker", "inv", **given)
        command = [sys.executable, "-I", "-u", "-c", program]
        return self.transport.run(invocation, stdin=stdin, command=command)

    async def run(self, program: str, stdin: str = "hi", **fields: Any) -> list[Event]:
        return [event async for event in self.stream(program, stdin, **fields)]


@pytest.fixture
def child(tmp_path: Path) -> Child:
    return Child(tmp_path)


@pytest.fixture
def make_program() -> Callable[..., str]:
    def make(*body: str) -> str:
        head = [
            "import json, os, signal, subprocess, sys, time",
            "def say(**event): sys.stdout.write(json.dumps(event) + '\\n'); sys.stdout.flush()",
            "def end(text='done', **more):",
            "    say(type='result', subtype='success', is_error=False, result=text, num_turns=1, **more)",
        ]
        return "\n".join([*head, *body])

    return make
