"""Mode ``none``: processes run on the host as whoever runs rightlab; asked for by name only."""

import asyncio
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from rightlab.errors import SandboxError
from rightlab.sandbox.base import Health
from rightlab.sandbox.guest import PREPARE, env_file, guest_env, health_script, init_script
from rightlab.sandbox.launch import Launched, LaunchFailed, launch
from rightlab.sandbox.mounts import real_directory, real_file
from rightlab.sandbox.report import read_report

__all__ = ["NoSandbox"]

_LAUNCH_TIME = 20.0


class NoSandbox:
    """See :class:`rightlab.sandbox.Sandbox`: the same doors, no walls, and still a scrubbed environment."""

    def __init__(
        self,
        *,
        root: Path,
        files_dir: Path,
        service_urls: Mapping[str, str],
        tools: Mapping[str, Path],
        note: str | None = None,
    ) -> None:
        bash = shutil.which("bash")
        if bash is None:
            raise SandboxError("bash not found", fix="Install bash.")
        self._bash = bash
        self._root = real_directory(root, "the agent's folder")
        self._files_dir = real_directory(files_dir, "the folder for the files of launches")
        self._urls = dict(service_urls)
        self._tools = {name: real_file(name, path) for name, path in tools.items()}
        self._env = guest_env(
            str(self._root),
            _tool_path(self._tools),
            tmpdir=f"{self._root}/.right/tmp",
            user="agent",
            ca_file=None,
        )
        if hasattr(os, "geteuid") and os.geteuid() == 0:
            # Claude Code refuses --dangerously-skip-permissions to root unless told where it is (platform B).
            self._env["IS_SANDBOX"] = "1"
        self._init = init_script(())
        self._launched = Launched()
        self._closed = False
        self.note = note

    mode = "none"

    @property
    def guest_root(self) -> str:
        return str(self._root)

    @property
    def files_dir(self) -> Path:
        return self._files_dir

    def files_at(self, files: Path) -> str:
        return str(files)

    def scratch_at(self, files: Path) -> str:
        return str(files)

    @property
    def env(self) -> Mapping[str, str]:
        return dict(self._env)

    @property
    def path_env(self) -> str:
        return self._env["PATH"]

    @property
    def config_dir(self) -> str:
        return self._env["CLAUDE_CONFIG_DIR"]

    def tool(self, name: str) -> str:
        if name not in self._tools:
            raise SandboxError(f"the sandbox was opened without the program {name!r}")
        return str(self._tools[name])

    def url(self, name: str) -> str:
        if name not in self._urls:
            raise SandboxError(f"the sandbox was opened without the service {name!r}")
        return self._urls[name]

    async def spawn(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: str | None = None,
        files: Path | None = None,
    ) -> asyncio.subprocess.Process:
        return await self._spawn(argv, env=env, cwd=cwd, keep=" ".join(env))

    async def prepare(self) -> None:
        """Make the agent's folders and its env file."""
        await self._run(PREPARE, env_file(self._env))

    async def health(self) -> Health:
        try:
            output = await self._run(health_script(hidden=(), proxy_port=None))
        except SandboxError as error:
            return Health(False, error.message, error.fix)
        return read_report(output, (), "none: the agent runs unconfined on this machine, as asked")

    async def close(self) -> None:
        self._closed = True
        await self._launched.close()

    async def _run(self, script: str, *args: str) -> str:
        argv = [self._bash, "--noprofile", "--norc", "-c", script, "rightlab", *args]
        process = await self._spawn(argv, env={}, cwd=None, keep="*")
        try:
            output, errors = await asyncio.wait_for(process.communicate(), _LAUNCH_TIME)
        except TimeoutError:
            raise SandboxError("a process did not answer in time", where=self._root) from None
        finally:
            self._launched.end(process)
        if process.returncode != 0:
            said = errors.decode("utf-8", "replace").strip().splitlines()
            raise SandboxError(
                f"the agent's folder cannot be prepared: {said[-1] if said else process.returncode}",
                where=self._root,
            )
        return output.decode("utf-8", "replace")

    async def _spawn(
        self, argv: Sequence[str], *, env: Mapping[str, str], cwd: str | None, keep: str
    ) -> asyncio.subprocess.Process:
        if self._closed:
            raise SandboxError("the sandbox is closed", where=self._root)
        if not argv:
            raise SandboxError("nothing to start")
        ready = os.pipe()
        command = [
            self._bash,
            "--noprofile",
            "--norc",
            "-c",
            self._init,
            "rightlab",
            str(ready[1]),
            keep,
            *argv,
        ]
        try:
            process = await launch(
                command,
                ready=ready,
                env={**self._env, **env},
                cwd=cwd or str(self._root),
                fds=(),
                timeout=_LAUNCH_TIME,
            )
        except LaunchFailed as failure:
            said = failure.output.splitlines()[-1] if failure.output else f"exit code {failure.code}"
            raise SandboxError(f"the process did not start: {said}", where=self._root) from None
        except (OSError, ValueError) as error:
            raise SandboxError(f"the process cannot be started: {error}", where=self._root) from error
        self._launched.add(process)
        return process


def _tool_path(tools: Mapping[str, Path]) -> str:
    folders = dict.fromkeys(str(path.parent) for path in tools.values())
    return ":".join(folders) or "/usr/bin"
