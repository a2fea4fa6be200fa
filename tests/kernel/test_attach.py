"""Attach: a headless kernel of ``rightlab up`` seen from the JupyterLab of ``rightlab lab`` (spec jupyter 1.7, 3).

JupyterLab shows what its server's REST interface lists, so that is asked here; the server is started with the very
options ``rightlab lab`` uses, on loopback, with a token.
"""

import asyncio
import json
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rightlab.home import AgentHome, Home

pytestmark = [pytest.mark.kernel, pytest.mark.claude, pytest.mark.sandbox]

HUB = {"JUPYTERHUB_SERVICE_PREFIX": "/user/ada/", "JUPYTERHUB_API_TOKEN": "very-secret-token"}


class Server:
    """The Jupyter server behind ``rightlab lab``, without a browser."""

    def __init__(self, home: Home, notebooks: Path, base: Path) -> None:
        from rightlab.runtime.environment import child_environment
        from rightlab.runtime.jupyter import lab_command

        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.token = uuid.uuid4().hex
        command = lab_command(home, notebooks, open_path="00_start.ipynb", browser=False, port=self.port)
        # A person's own setting that culls at once: the server of `rightlab lab` must not obey it.
        config = base / "config"
        config.mkdir(parents=True)
        config.joinpath("jupyter_server_config.json").write_text(
            json.dumps({"MappingKernelManager": {"cull_idle_timeout": 1, "cull_interval": 1}})
        )
        environment = child_environment(
            {
                "RIGHTLAB_HOME": str(home.path),
                "JUPYTER_CONFIG_DIR": str(config),
                "JUPYTER_DATA_DIR": str(base / "data"),
                "JUPYTER_RUNTIME_DIR": str(base / "runtime"),
            }
        )
        self.log = base / "server.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*command, f"--IdentityProvider.token={self.token}"],
                env=environment,
                cwd=notebooks,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + 60
        while True:
            try:
                self.ask("/api/status")
                return
            except (urllib.error.URLError, OSError):
                if self.process.poll() is not None or time.monotonic() > deadline:
                    self.stop()
                    pytest.fail(f"the server did not start:\n{self.log.read_text(errors='replace')[-3000:]}")
                time.sleep(0.1)

    def ask(self, path: str, body: Any = None, *, token: str | None = None) -> Any:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"token {self.token if token is None else token}"},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def kernels(self) -> list[dict[str, Any]]:
        return list(self.ask("/api/kernels"))

    def await_kernel(self, timeout: float = 30) -> dict[str, Any]:
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            if found := self.kernels():
                return found[0]
            time.sleep(0.2)
        raise AssertionError("the headless kernel did not appear")

    def execute(self, kernel_id: str, code: str) -> str:
        return asyncio.run(self._execute(kernel_id, code))

    async def _execute(self, kernel_id: str, code: str) -> str:
        from tornado.httpclient import HTTPRequest
        from tornado.websocket import websocket_connect

        session = uuid.uuid4().hex
        url = f"ws://127.0.0.1:{self.port}/api/kernels/{kernel_id}/channels?session_id={session}"
        channel = await websocket_connect(HTTPRequest(url, headers={"Authorization": f"token {self.token}"}))
        header = {
            "msg_id": uuid.uuid4().hex,
            "msg_type": "execute_request",
            "session": session,
            "version": "5.3",
        }
        content = {"code": code, "silent": False, "store_history": False, "allow_stdin": False}
        message = {"header": {**header, "username": "", "date": ""}, "parent_header": {}, "metadata": {}}
        await channel.write_message(json.dumps({**message, "content": content, "channel": "shell"}))
        text = ""
        async with asyncio.timeout(60):
            while True:
                raw = await channel.read_message()
                assert isinstance(raw, str), "the channel was closed"
                answer = json.loads(raw)
                if answer["parent_header"].get("msg_id") != header["msg_id"]:
                    continue
                kind, found = answer["header"]["msg_type"], answer["content"]
                if kind == "stream":
                    text += found["text"]
                elif kind in {"execute_result", "display_data"}:
                    text += found["data"]["text/plain"]
                elif kind == "error":
                    raise AssertionError(found["evalue"])
                elif kind == "status" and found["execution_state"] == "idle":
                    break
        channel.close()
        return text

    def stop(self) -> None:
        if self.process.poll() is not None:
            return
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(5)


@pytest.fixture
def agent(demo_home: Path) -> Iterator[AgentHome]:
    """The demo agent, up in a headless kernel as ``rightlab up`` starts it."""
    from rightlab.runtime.headless import start_kernel, stop_owner

    found = Home.resolve(demo_home).agent("demo")
    start_kernel(found)
    yield found
    stop_owner(found)


@pytest.fixture
def server(agent: AgentHome, tmp_path: Path) -> Iterator[Server]:
    from rightlab.runtime.jupyter import copy_notebooks

    started = Server(agent.home, copy_notebooks(agent.home), tmp_path / "server")
    yield started
    started.stop()


def test_the_headless_kernel_is_there_to_attach_to_and_outlives_the_server(
    agent: AgentHome, server: Server
) -> None:
    from rightlab.runtime import host
    from rightlab.runtime.state import read_state

    owner = read_state(agent)
    assert owner is not None
    with pytest.raises(urllib.error.HTTPError) as refused:
        server.ask("/api/kernels", token="wrong")
    assert refused.value.code in {401, 403}

    kernel = server.await_kernel()
    # A notebook's session on that kernel: what "Connect to existing kernel" does.
    session = server.ask(
        "/api/sessions",
        {
            "path": "00_start.ipynb",
            "name": "00_start.ipynb",
            "type": "notebook",
            "kernel": {"id": kernel["id"]},
        },
    )
    assert session["kernel"]["id"] == kernel["id"]
    assert server.execute(kernel["id"], "import os\nprint(os.getpid())").strip() == str(owner.pid)
    assert "demo · up" in server.execute(kernel["id"], "%rightlab status")
    assert "headless kernel" in server.execute(kernel["id"], "%rightlab status")

    # The culler of a server begins its work with the first kernel the server itself starts.
    other = server.ask("/api/kernels", {"name": "rightlab"})
    time.sleep(4)  # several times the person's own cull time
    assert {one["id"] for one in server.kernels()} == {kernel["id"], other["id"]}

    server.stop()
    assert read_state(agent) == owner
    assert host.ask(agent, "are you still there?", timeout=30)["status"] == "delivered"


def test_a_kernel_that_comes_later_appears_and_one_that_went_goes(agent: AgentHome, server: Server) -> None:
    from rightlab.runtime.headless import connection_file, start_kernel, stop_owner

    first = server.await_kernel()
    stop_owner(agent)
    assert not connection_file(agent).exists()
    deadline = time.monotonic() + 20
    while server.kernels() and time.monotonic() < deadline:
        time.sleep(0.2)
    assert server.kernels() == []
    pid, _ = start_kernel(agent)
    second = server.await_kernel()
    assert server.execute(second["id"], "import os\nprint(os.getpid())").strip() == str(pid)
    assert first["id"]


def test_a_hub_that_may_cull_is_said_by_the_owner_and_by_doctor(
    demo_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A headless kernel started inside a hub knows it, though it inherits no token of the hub."""
    from rightlab.runtime.doctor import examine
    from rightlab.runtime.headless import start_kernel, stop_owner
    from rightlab.runtime.status import read_status

    agent = Home.resolve(demo_home).agent("demo")
    for name, value in HUB.items():
        monkeypatch.setenv(name, value)
    pid, _ = start_kernel(agent)
    try:
        inherited = Path(f"/proc/{pid}/environ").read_bytes()
        assert b"JUPYTERHUB_SERVICE_PREFIX=" in inherited
        assert b"very-secret-token" not in inherited
        for name in HUB:
            monkeypatch.delenv(name)
        # Asked from outside the hub: the owner says where it stands.
        warnings = [line for line in read_status(agent).warnings if "JupyterHub" in line]
        assert len(warnings) == 1
        assert "the agent stops with it" in warnings[0]
        assert warnings[0] in read_status(agent).text()
    finally:
        stop_owner(agent)
    assert not [line for line in read_status(agent).warnings if "JupyterHub" in line]
    for name, value in HUB.items():
        monkeypatch.setenv(name, value)
    findings = [finding for finding in examine(agent).findings if finding.check == "hub"]
    assert [finding.level for finding in findings] == ["warn"]
    assert findings[0].fix is not None
    assert "rightlab run demo" in findings[0].fix
