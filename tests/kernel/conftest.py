"""A real kernel per test, over ipc, with an environment of its own."""

import os
import queue
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


class Kernel:
    """A started kernel and a client; ``run`` executes a cell and gathers what it gave."""

    def __init__(self, manager: Any, client: Any) -> None:
        self.manager = manager
        self.client = client

    def start(self, code: str) -> str:
        return self.client.execute(code)

    def run(self, code: str, timeout: float = 60) -> "Outputs":
        return self.collect(self.start(code), timeout)

    def collect(self, message_id: str, timeout: float = 60) -> "Outputs":
        outputs = Outputs()
        deadline = time.monotonic() + timeout
        while True:
            message = self.client.get_iopub_msg(timeout=max(0.1, deadline - time.monotonic()))
            if message["parent_header"].get("msg_id") != message_id:
                outputs.strays.append(message)
                continue
            kind, content = message["msg_type"], message["content"]
            if kind == "stream":
                outputs.streams += content["text"]
            elif kind in {"execute_result", "display_data"}:
                outputs.data.append(content["data"])
            elif kind == "error":
                outputs.errors.append(f"{content['ename']}: {content['evalue']}")
            elif kind == "status" and content["execution_state"] == "idle":
                break
        while True:
            try:
                reply = self.client.get_shell_msg(timeout=10)
            except queue.Empty as error:
                raise AssertionError("the kernel did not reply") from error
            if reply["parent_header"].get("msg_id") == message_id:
                outputs.status = reply["content"]["status"]
                return outputs


class Outputs:
    def __init__(self) -> None:
        self.streams = ""
        self.data: list[dict[str, Any]] = []
        self.errors: list[str] = []
        self.strays: list[Any] = []
        self.status = ""

    @property
    def html(self) -> str:
        return "\n".join(item.get("text/html", "") for item in self.data)

    @property
    def text(self) -> str:
        return "\n".join(item.get("text/plain", "") for item in self.data)


@pytest.fixture
def demo_home(tmp_path: Path) -> Path:
    """A demo home, made without starting anything."""
    from rightlab.home import Home
    from rightlab.runtime.demo import prepare_demo

    return prepare_demo(Home.resolve(tmp_path / "home")).home.path


@pytest.fixture
def start_kernel(_private_home: Path) -> Iterator[Any]:
    from jupyter_client.manager import KernelManager

    started: list[Kernel] = []

    def start(
        home: Path | None = None, *, kernel_name: str = "rightlab", env: dict[str, str] | None = None
    ) -> Kernel:
        manager = KernelManager(kernel_name=kernel_name, transport="ipc")
        variables = {**os.environ, "IPYTHONDIR": str(_private_home / "ipython"), **(env or {})}
        variables["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), variables.get("PATH", "")])
        if home is not None:
            variables["RIGHTLAB_HOME"] = str(home)
        manager.start_kernel(env=variables)
        client = manager.client()
        client.start_channels()
        client.wait_for_ready(timeout=60)
        kernel = Kernel(manager, client)
        started.append(kernel)
        return kernel

    yield start
    for kernel in started:
        kernel.client.stop_channels()
        if kernel.manager.is_alive():
            kernel.manager.shutdown_kernel(now=False)
        kernel.manager.cleanup_resources()
