"""The bubblewrap backend: own namespaces, and only the agent's folder to write in."""

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from rightlab.errors import SandboxError
from rightlab.home.sockets import connect_unix
from rightlab.sandbox.base import Check, Health
from rightlab.sandbox.diagnosis import INSTALL, diagnose
from rightlab.sandbox.egress import EgressProxy
from rightlab.sandbox.guest import (
    FILES,
    GUEST_ROOT,
    PREPARE,
    RUN,
    Bridge,
    env_file,
    guest_env,
    health_script,
    init_script,
    proxy_env,
    system_files,
)
from rightlab.sandbox.launch import Launched, LaunchFailed, launch
from rightlab.sandbox.mounts import OWN_PLACES, real_directory, real_file, sandbox_args, system_args
from rightlab.sandbox.report import read_report
from rightlab.sandbox.seccomp import program

__all__ = ["BwrapSandbox"]

_PROXY_PORT = 61100
_PORTS = {"gateway": 61101, "mcp": 61102}
_LAUNCH_TIME = 20.0


class BwrapSandbox:
    """See :class:`rightlab.sandbox.Sandbox`. ``await prepare()`` once before the first ``spawn``.

    Each launch makes fresh namespaces; what persists is the agent's folder. The network inside has nothing
    but loopback; one socat per service leads a fixed port to the service's unix socket.
    """

    def __init__(
        self,
        *,
        root: Path,
        files_dir: Path,
        services: Mapping[str, Path],
        tools: Mapping[str, Path],
        proxy: EgressProxy,
    ) -> None:
        if sys.platform != "linux":
            raise SandboxError("bubblewrap works on Linux only", fix="Ask for `sandbox: none` by name.")
        missing = [name for name in ("bwrap", "socat", "bash") if shutil.which(name) is None]
        if missing:
            raise SandboxError(f"no sandbox: {' and '.join(missing)} not found", fix=INSTALL)
        self._bwrap = str(shutil.which("bwrap"))
        self._root_path, self._files_dir = root, files_dir
        self._tools = {name: real_file(name, path) for name, path in tools.items()}
        self._proxy = proxy
        self._sockets = {**services, "egress": proxy.path}
        self._bridges = _bridges(services)
        self._system = system_args()
        self._files = {
            **{name: text.encode() for name, text in system_files(GUEST_ROOT).items()},
            f"{RUN}/init": init_script(self._bridges).encode(),
        }
        self._filter = program()
        self._options = _options(self._bwrap)
        self._env = guest_env(
            GUEST_ROOT, f"{RUN}/bin", tmpdir="/tmp", user="agent", ca_file=_ca_file()
        ) | proxy_env(f"http://127.0.0.1:{_PROXY_PORT}")
        self._launched = Launched()
        self._closed = False

    mode = "bwrap"
    note: str | None = None
    guest_root = GUEST_ROOT

    @property
    def files_dir(self) -> Path:
        return self._files_dir

    def files_at(self, files: Path) -> str:
        return FILES

    def scratch_at(self, files: Path) -> str:
        return "/tmp"

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
        return f"{RUN}/bin/{name}"

    def url(self, name: str) -> str:
        for bridge in self._bridges:
            if bridge.name == name:
                return bridge.url
        raise SandboxError(f"the sandbox was opened without the service {name!r}")

    async def spawn(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: str | None = None,
        files: Path | None = None,
    ) -> asyncio.subprocess.Process:
        return await self._spawn(argv, env=env, cwd=cwd, keep=" ".join(env), shown=files)

    async def prepare(self) -> None:
        """Make the agent's folders and its env file, from inside. Raises SandboxError: it does not start."""
        await self._inside(PREPARE, env_file(self._env))

    async def health(self) -> Health:
        checks = []
        for name, path in self._sockets.items():
            try:
                (await asyncio.to_thread(connect_unix, path, 2.0)).close()
                checks.append(Check(name, True, f"{name} listens"))
            except OSError as error:
                checks.append(
                    Check(name, False, f"{name} does not listen at {path}: {error.strerror or error}")
                )
        places = (str(Path.home()), "/root", "/home", str(self._root_path.parent), "/var/run/docker.sock")
        hidden = tuple(place for place in dict.fromkeys(places) if place not in OWN_PLACES)
        script = health_script(hidden=hidden, proxy_port=_PROXY_PORT)
        try:
            output = await self._inside(script)
        except SandboxError as error:
            return Health(False, error.message, error.fix, tuple(checks))
        return read_report(output, checks, "bwrap: works, looked at from inside")

    async def close(self) -> None:
        self._closed = True
        await self._launched.close()
        await self._proxy.stop()

    async def _inside(self, script: str, *args: str) -> str:
        """Run a script of ours inside to its end and return its stdout."""
        argv = ["/bin/bash", "--noprofile", "--norc", "-c", script, "rightlab", *args]
        process = await self._spawn(argv, env={}, cwd=None, keep="*")
        try:
            output, errors = await asyncio.wait_for(process.communicate(), _LAUNCH_TIME)
        except TimeoutError:
            raise SandboxError(
                "the sandbox started but did not answer in time", where=self._root_path
            ) from None
        finally:
            self._launched.end(process)
        if process.returncode != 0:
            raise diagnose(process.returncode, errors.decode("utf-8", "replace"), self._root_path)
        return output.decode("utf-8", "replace")

    async def _spawn(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: str | None,
        keep: str,
        shown: Path | None = None,
    ) -> asyncio.subprocess.Process:
        if self._closed:
            raise SandboxError("the sandbox is closed", where=self._root_path)
        if not argv:
            raise SandboxError("nothing to start in the sandbox")
        root = real_directory(self._root_path, "the agent's folder")
        if shown is not None:
            shown = real_directory(shown, "the folder of the launch's files")
        for name, path in self._sockets.items():
            if not path.is_socket():
                raise SandboxError(f"the {name} socket is not there", where=path, fix="Restart the agent.")
        reading, writing = os.pipe()
        fds: list[int] = []
        try:
            files = {name: _memory(data, fds) for name, data in self._files.items()}
            args = sandbox_args(
                system=self._system,
                files=files,
                root=root,
                shown=shown,
                sockets={name: path.resolve() for name, path in self._sockets.items()},
                tools=self._tools,
                options=self._options,
            )
            # The environment goes by descriptor, not on the command line, which every user can read.
            args += ["--clearenv"]
            for name, value in {**self._env, **env}.items():
                args += ["--setenv", name, value]
            args += ["--chdir", cwd or GUEST_ROOT, "--seccomp", str(_memory(self._filter, fds))]
            options = _memory(b"".join(os.fsencode(each) + b"\0" for each in args), fds)
            command = [self._bwrap, "--args", str(options), "--", "/bin/bash", "--noprofile", "--norc"]
            command += [f"{RUN}/init", str(writing), keep, *argv]
        except BaseException:
            _close_all(reading, writing, *fds)
            raise
        try:
            process = await launch(
                command,
                ready=(reading, writing),
                env={"PATH": os.defpath, "LANG": "C.UTF-8"},
                cwd="/",
                fds=fds,
                timeout=_LAUNCH_TIME,
            )
        except LaunchFailed as failure:
            raise diagnose(failure.code, failure.output, self._root_path) from None
        except (OSError, ValueError) as error:
            raise SandboxError(f"the sandbox cannot be started: {error}", where=self._bwrap) from error
        finally:
            _close_all(*fds)
        self._launched.add(process)
        return process


def _bridges(services: Mapping[str, Path]) -> tuple[Bridge, ...]:
    found = [Bridge("egress", _PROXY_PORT, f"{RUN}/egress.sock")]
    spare = _PROXY_PORT + 1 + len(_PORTS)
    for name in sorted(services):
        if not name.isidentifier() or name == "egress":
            raise SandboxError(f"{name!r} is no name for a service in the sandbox")
        port = _PORTS.get(name, spare)
        spare += name not in _PORTS
        found.append(Bridge(name, port, f"{RUN}/{name}.sock"))
    return tuple(found)


def _memory(data: bytes, fds: list[int]) -> int:
    fd = os.memfd_create("rightlab", os.MFD_CLOEXEC)
    fds.append(fd)
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _close_all(*fds: int) -> None:
    for fd in fds:
        os.close(fd)


def _options(bwrap: str) -> str:
    """What this bubblewrap says it can do."""
    try:
        said = subprocess.run(
            [bwrap, "--help"], capture_output=True, timeout=10, env={"PATH": os.defpath}, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SandboxError(f"bubblewrap does not run: {error}", where=bwrap, fix=INSTALL) from error
    return (said.stdout + said.stderr).decode("utf-8", "replace")


def _ca_file() -> str | None:
    candidates = (
        "/etc/ssl/certs/ca-certificates.crt",
        "/etc/pki/tls/certs/ca-bundle.crt",
        "/etc/ssl/cert.pem",
    )
    return next((path for path in candidates if Path(path).is_file()), None)
