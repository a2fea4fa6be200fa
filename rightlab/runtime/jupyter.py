"""JupyterLab on a home's notebooks, with the kernel "rightlab" and the headless kernels to attach to."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

from rightlab.errors import RightlabError
from rightlab.home import Home, atomic_write, make_dir, write_agent_owned
from rightlab.runtime.environment import child_environment, named_variables
from rightlab.runtime.headless import connection_dir

__all__ = ["copy_notebooks", "lab_command", "lab_environment", "serve_lab", "shipped_notebooks"]

_DEFAULTS = {"@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": False}}
"""JupyterLab's first start asks whether to fetch its news, over the notebook; ours does not ask and fetches none."""


def shipped_notebooks() -> Path:
    """The notebooks that come with rightlab: in the wheel, or beside the package in a checkout."""
    package = Path(str(files("rightlab")))
    for folder in (package / "_notebooks", package.parent / "notebooks"):
        if folder.is_dir():
            return folder
    raise RightlabError("the notebooks are missing from this installation", fix="Install rightlab again.")


def copy_notebooks(home: Home) -> Path:
    """``<home>/notebooks`` with a writable copy of each shipped notebook; what is there already is kept."""
    home.mark()
    target = make_dir(home.notebooks_dir)
    for source in sorted(shipped_notebooks().glob("*.ipynb")):
        write_agent_owned(target / source.name, source.read_bytes())
    return target


def lab_command(home: Home, notebooks: Path, *, open_path: str, browser: bool, port: int | None) -> list[str]:
    """The JupyterLab command line: loopback only, our kernel first, external kernels visible."""
    folder = make_dir(connection_dir(home), 0o700)
    command = [
        sys.executable,
        "-m",
        "jupyterlab",
        "--ServerApp.ip=127.0.0.1",
        f"--ServerApp.root_dir={notebooks}",
        "--ServerApp.allow_external_kernels=True",
        f"--ServerApp.external_connection_dir={folder}",
        "--MultiKernelManager.default_kernel_name=rightlab",
        # A kernel whose bot waits for messages looks idle: this server must not cull it, whatever its config says.
        "--MappingKernelManager.cull_idle_timeout=0",
        f"--LabApp.default_url=/lab/tree/{open_path}",
        "--LabApp.news_url=None",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    ]
    if os.geteuid() == 0:
        command.append("--allow-root")
    if not browser:
        command.append("--no-browser")
    if port is not None:
        command += [f"--ServerApp.port={port}", "--ServerApp.port_retries=0"]
    return command


def lab_environment(home: Home, agent: str | None = None) -> dict[str, str]:
    """The environment JupyterLab runs in: the home, the agent, and our defaults for JupyterLab's settings.

    The defaults are a folder on Jupyter's configuration path, for this server only: a person's own settings and
    files stand before it and are not touched.
    """
    defaults = make_dir(home.path / "run" / ".jupyter")  # no agent can have this name
    overrides = make_dir(defaults / "labconfig") / "default_setting_overrides.json"
    atomic_write(overrides, json.dumps(_DEFAULTS, indent=2) + "\n")
    theirs = os.environ.get("JUPYTER_CONFIG_PATH", "")
    known = [home.agent(name) for name in home.agents()]
    extra = {
        **named_variables(known),
        "RIGHTLAB_HOME": str(home.path),
        "JUPYTER_CONFIG_PATH": os.pathsep.join(one for one in (theirs, str(defaults)) if one),
    }
    if agent is not None:
        extra["RIGHTLAB_AGENT"] = agent
    return child_environment(extra)


def serve_lab(
    home: Home,
    *,
    notebooks: Path,
    open_path: str,
    agent: str | None = None,
    browser: bool = True,
    port: int | None = None,
    say: Callable[[str], None],
) -> None:
    """Run JupyterLab until it ends (Ctrl-C). Raises RightlabError when it cannot start."""
    if port is not None:
        _require_free(port)
    command = lab_command(home, notebooks, open_path=open_path, browser=browser, port=port)
    say(f"JupyterLab opens {open_path} from {notebooks}; stop it with Ctrl-C.")
    process = subprocess.Popen(
        command, env=lab_environment(home, agent), cwd=notebooks, start_new_session=True
    )
    code = _wait_for(process)
    if code > 0:
        raise RightlabError(f"JupyterLab ended with exit code {code}", fix="Its own lines above say why.")


def _wait_for(process: "subprocess.Popen[bytes]") -> int:
    """Wait for JupyterLab. Ctrl-C, SIGTERM and a closed terminal end it and its kernels; we never end before it.

    It stands in a session of its own, so that each of these reaches it once, from here, as the signal on which it
    shuts down without asking.
    """

    def end(number: int, frame: object) -> None:
        process.terminate()

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        return process.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _require_free(port: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise RightlabError(
                f"port {port} cannot be used ({error.strerror})", fix="Choose another with --port, or none."
            ) from None


def installed_kernelspec() -> dict[str, object] | None:
    """The kernelspec "rightlab" as Jupyter sees it, or None."""
    from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel

    try:
        spec = KernelSpecManager().get_kernel_spec("rightlab")
    except NoSuchKernel:
        return None
    return dict(json.loads(spec.to_json()))
