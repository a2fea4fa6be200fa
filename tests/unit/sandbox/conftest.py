"""A sandbox over a temporary agent, and a way to run a shell script in it."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rightlab.sandbox import Sandbox, open_sandbox


@dataclass(frozen=True)
class Ran:
    code: int | None
    out: str
    err: str


Run = Callable[..., Awaitable[Ran]]
Open = Callable[..., Awaitable[Sandbox]]


@pytest.fixture
async def opening(tmp_path: Path) -> AsyncIterator[Open]:
    """``await opening(**options)`` opens the sandbox of that agent under ``tmp_path``; closed at the end."""
    opened: list[Sandbox] = []

    async def make(agent: str = "alice", mode: str = "bwrap", **options: Any) -> Sandbox:
        sandbox = await open_sandbox(
            mode=mode,
            root=tmp_path / "agents" / agent / "sandbox",
            run_dir=tmp_path / "run" / agent,
            log=tmp_path / "egress.log",
            **options,
        )
        opened.append(sandbox)
        return sandbox

    yield make
    for sandbox in opened:
        await sandbox.close()


@pytest.fixture
async def box(opening: Open) -> Sandbox:
    return await opening()


@pytest.fixture
def run() -> Run:
    """``await run(sandbox, script)``: a bash script inside, to its end."""

    async def go(sandbox: Sandbox, script: str, *, timeout: float = 20.0, **options: Any) -> Ran:
        env = options.pop("env", {})
        process = await sandbox.spawn(["bash", "-c", script], env=env, **options)
        out, err = await asyncio.wait_for(process.communicate(), timeout)
        return Ran(process.returncode, out.decode(), err.decode())

    return go


@pytest.fixture
def log_lines(tmp_path: Path) -> Callable[[], list[dict[str, Any]]]:
    def read() -> list[dict[str, Any]]:
        path = tmp_path / "egress.log"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    return read


@pytest.fixture
async def echo_server() -> AsyncIterator[int]:
    """A loopback server on the host that answers every line with itself; its port."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            writer.write(b"echo " + line)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    server.close()
