"""What a sandbox is to the rest of the house: one protocol, whatever the backend (design 8)."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

__all__ = ["STREAM_LIMIT", "Check", "Health", "Sandbox"]

STREAM_LIMIT = 64 * 1024 * 1024
"""Bytes a line on a guest's stdout may have; one stream-json event can hold a whole file."""


@dataclass(frozen=True)
class Check:
    """One thing that was looked at from inside the sandbox."""

    name: str
    ok: bool
    detail: str


@dataclass(frozen=True)
class Health:
    """What a look from inside found. ``detail`` is one line; ``fix`` says what to do when ``ok`` is false."""

    ok: bool
    detail: str
    fix: str | None = None
    checks: tuple[Check, ...] = field(default=(), repr=False)


@runtime_checkable
class Sandbox(Protocol):
    """Where an agent's processes run. Made by :func:`rightlab.sandbox.open_sandbox`."""

    @property
    def mode(self) -> str:
        """``bwrap`` or ``none``."""

    @property
    def note(self) -> str | None:
        """One line people must see, when this is not the sandbox that was asked for."""

    @property
    def guest_root(self) -> str:
        """The agent's folder as its processes see it: ``/sandbox``, or the host's path in mode ``none``."""

    @property
    def files_dir(self) -> Path:
        """The host folder for what single launches are shown; no launch sees the folder itself."""

    def files_at(self, files: Path) -> str:
        """Where a launch with these ``files`` sees them."""

    def scratch_at(self, files: Path) -> str:
        """A folder a launch with these ``files`` may write to, which no other launch sees and nobody keeps."""

    @property
    def env(self) -> Mapping[str, str]:
        """The variables every process in here gets; ``spawn(env=...)`` adds to them and wins."""

    @property
    def path_env(self) -> str:
        """``PATH`` inside."""

    @property
    def config_dir(self) -> str:
        """``CLAUDE_CONFIG_DIR`` inside."""

    def tool(self, name: str) -> str:
        """The path inside of a host program that was handed in. Raises SandboxError: there is none."""

    def url(self, name: str) -> str:
        """The base URL inside of a service (``gateway``, ``mcp``). Raises SandboxError: there is none."""

    async def spawn(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: str | None = None,
        files: Path | None = None,
    ) -> asyncio.subprocess.Process:
        """Start ``argv`` inside, in a session of its own, with pipes for stdin, stdout and stderr.

        Returns when the way to the services is open and the program is being started. Killing the returned
        process (or its group) kills everything it started. ``cwd`` is a path inside; default the guest root.
        ``files`` is a host folder shown read-only to this launch alone, at ``files_at(files)``.

        Raises:
            SandboxError: the sandbox is down, with a diagnosis; nothing was run anywhere else.
        """

    async def health(self) -> Health:
        """Look from inside, now."""

    async def close(self) -> None:
        """Kill what still runs and stop the proxy; the agent's folder stays as it is."""
