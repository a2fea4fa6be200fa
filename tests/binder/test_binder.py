"""``binder/``: what repo2docker makes of it, and both scripts run in a scratch environment (spec jupyter 1.7)."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import time
import tomllib
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
BINDER = ROOT / "binder"
LANDING = "rightlab-demo/demo/notebooks/00_start.ipynb"

SHIMS = {
    "rightlab": "rightlab",
    "jupyter": "jupyter",
    "jupyter-lab": "jupyterlab",
    "jupyter-kernelspec": "jupyter_client.kernelspecapp",
}


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    """A virtual environment that sees our packages but has a prefix of its own, as after ``pip install '.[agent]'``."""
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    packages = next(venv.glob("lib/python3*/site-packages"))
    packages.joinpath("ours.pth").write_text(
        f"import site; site.addsitedir({sysconfig.get_paths()['purelib']!r})\n"
    )
    for name, module in SHIMS.items():
        shim = venv / "bin" / name
        shim.write_text(f'#!/bin/sh\nexec "{venv}/bin/python" -m {module} "$@"\n')
        shim.chmod(0o755)
    share = venv / "share/jupyter"
    # What the wheel installs, and JupyterLab's own application folder.
    shutil.copytree(ROOT / "extensions/kernelspec/rightlab", share / "kernels/rightlab")
    lab = Path(sys.prefix) / "share/jupyter/lab"
    share.joinpath("lab").symlink_to(lab)
    return venv


@pytest.fixture
def environment(scratch: Path, tmp_path: Path) -> dict[str, str]:
    """A person's environment on Binder: a home, the scratch environment first on PATH, no account of any kind."""
    home = tmp_path / "jovyan"
    home.mkdir()
    return {
        "PATH": os.pathsep.join([str(scratch / "bin"), os.environ.get("PATH", os.defpath)]),
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "JUPYTER_PLATFORM_DIRS": "0",
        "BINDER_LAUNCH_HOST": "https://binder.example/",
    }


def run(script: str, *args: str, environment: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [str(BINDER / script), *args],
        cwd=environment["HOME"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=150,
    )


def test_repo2docker_picks_every_file_up() -> None:
    command = Path(sys.executable).parent / "jupyter-repo2docker"
    assert command.exists(), "pip install '.[test]' brings jupyter-repo2docker"
    done = subprocess.run(
        [command, "--no-build", "--debug", "."], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    dockerfile = done.stdout + done.stderr
    assert re.search(r"apt-get install .*\bbubblewrap socat\b", dockerfile)
    assert 'pip install --no-cache-dir -r "binder/requirements.txt"' in dockerfile
    # The whole checkout is there before pip is asked to install it.
    assert dockerfile.index("COPY --chown=0:0 src/ ${REPO_DIR}/") < dockerfile.index(
        "pip install --no-cache-dir -r"
    )
    assert "RUN ./binder/postBuild" in dockerfile
    assert 'R2D_ENTRYPOINT="${REPO_DIR}/binder/start"' in dockerfile
    assert "python=3.11" in dockerfile


def test_files_agree_with_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = (BINDER / "requirements.txt").read_text().split()
    assert lines == [".[agent]"]
    assert "agent" in project["optional-dependencies"]
    runtime = re.fullmatch(r"python-(\d+)\.(\d+)\n", (BINDER / "runtime.txt").read_text())
    assert runtime is not None
    least = re.fullmatch(r">=(\d+)\.(\d+)", project["requires-python"])
    assert least is not None
    assert tuple(map(int, runtime.groups())) >= tuple(map(int, least.groups()))
    assert f"Programming Language :: Python :: {'.'.join(runtime.groups())}" in project["classifiers"]
    assert (BINDER / "apt.txt").read_text().split() == ["bubblewrap", "socat"]


@pytest.mark.parametrize("script", ["postBuild", "start"])
def test_scripts_are_executable_and_parse(script: str) -> None:
    path = BINDER / script
    subprocess.run(["bash", "-n", path], check=True)
    assert os.access(path, os.X_OK)
    listed = subprocess.run(
        ["git", "ls-files", "--stage", f"binder/{script}"], cwd=ROOT, capture_output=True, text=True
    )
    if listed.returncode == 0 and listed.stdout:  # not in an unpacked sdist
        assert listed.stdout.startswith("100755")
    if script == "start":
        assert path.read_text().rstrip().endswith('exec "$@"')


def test_post_build_sets_the_landing_page(scratch: Path, environment: dict[str, str]) -> None:
    done = run("postBuild", environment=environment)
    assert done.returncode == 0, done.stderr
    config = json.loads((scratch / "etc/jupyter/jupyter_server_config.json").read_text())
    assert config["LabApp"]["default_url"] == f"/lab/tree/{LANDING}"
    assert (ROOT / "notebooks" / Path(LANDING).name).exists()
    defaults = json.loads((scratch / "etc/jupyter/labconfig/default_setting_overrides.json").read_text())
    assert defaults["@jupyterlab/apputils-extension:notification"]["fetchNews"] == "false"


def test_post_build_fails_when_the_kernel_is_missing(scratch: Path, environment: dict[str, str]) -> None:
    shutil.rmtree(scratch / "share/jupyter/kernels/rightlab")
    done = run("postBuild", environment=environment)
    assert done.returncode != 0
    assert "does not know the kernel rightlab" in done.stderr


def test_post_build_fails_when_the_package_does(scratch: Path, environment: dict[str, str]) -> None:
    scratch.joinpath("bin/rightlab").write_text("#!/bin/sh\nexit 3\n")
    assert run("postBuild", environment=environment).returncode == 3


@pytest.mark.claude
@pytest.mark.sandbox
@pytest.mark.kernel
def test_start_lands_in_00_start_on_the_demo_agent_without_an_account(
    scratch: Path, environment: dict[str, str]
) -> None:
    """Both scripts, then JupyterLab as the command: its front page is 00_start, on an agent that has answered."""
    assert run("postBuild", environment=environment).returncode == 0
    with _started(environment) as ask:
        with ask("/") as front:
            assert front.url.split("?")[0].endswith(f"/lab/tree/{LANDING}")
        notebook = json.load(ask(f"/api/contents/{LANDING}"))["content"]
        assert notebook["metadata"]["kernelspec"]["name"] == "rightlab"
        kernels = json.load(ask("/api/kernelspecs"))
        assert kernels["default"] == "rightlab"
        assert "rightlab" in kernels["kernelspecs"]
    home = Path(environment["HOME"]) / "rightlab-demo/demo"
    seen = subprocess.run(
        [scratch / "bin/rightlab", "--home", home, "status", "demo", "--json"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    status = json.loads(seen.stdout)
    assert status["source"] == "scripted model"
    assert status["last_turn"]["status"] == "delivered"
    assert any("Binder runs this server" in line for line in status["warnings"])


def test_start_gives_way_to_its_command_also_when_the_demo_fails(
    scratch: Path, environment: dict[str, str]
) -> None:
    scratch.joinpath("bin/rightlab").write_text("#!/bin/sh\necho no demo today >&2\nexit 1\n")
    code = (
        "import json, os, sys; print(json.dumps([os.getppid(), os.environ['RIGHTLAB_HOME'], sys.argv[1:]]))"
    )
    done = run("start", "python", "-c", code, "two words", "", environment=environment)
    assert done.returncode == 0
    parent, home, arguments = json.loads(done.stdout)
    assert parent == os.getpid(), "the shell stayed in between"
    assert home == f"{environment['HOME']}/rightlab-demo/demo"
    assert arguments == ["two words", ""]
    assert "no demo today" in done.stderr
    assert "first turn failed" in done.stderr
    assert run("start", "sh", "-c", "exit 7", environment=environment).returncode == 7


@contextmanager
def _started(environment: dict[str, str]) -> Iterator[Any]:
    """JupyterLab as the command of ``start``; gives a function that asks it for a path."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    token = os.urandom(12).hex()
    command = [
        *(
            str(BINDER / "start"),
            "jupyter",
            "lab",
            "--no-browser",
            "--allow-root",
            "--ServerApp.ip=127.0.0.1",
        ),
        *(f"--ServerApp.port={port}", "--ServerApp.port_retries=0", f"--IdentityProvider.token={token}"),
    ]
    process = subprocess.Popen(
        command,
        cwd=environment["HOME"],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )

    def ask(path: str) -> Any:
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}{path}", headers={"Authorization": f"token {token}"}
        )
        return urllib.request.urlopen(request, timeout=20)

    try:
        deadline = time.monotonic() + 120
        while True:
            try:
                ask("/api/status").close()
                break
            except (urllib.error.URLError, OSError):
                assert process.poll() is None, process.stderr.read() if process.stderr else ""
                assert time.monotonic() < deadline, "JupyterLab did not start"
                time.sleep(0.2)
        yield ask
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
