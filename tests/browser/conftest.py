"""A real JupyterLab in a real Chromium: started here, driven through Playwright, stopped here.

Everything is loopback: the server has a home, settings and a token of its own, the browser resolves no outside name.
Playwright lives per module, because while it is started its event loop counts as running in this thread and
would disturb the asyncio tests of other rooms.
"""

import contextlib
import ctypes
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = "/usr/bin/chromium"
CHROMIUM_ARGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
]
THEMES = {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.browser)


_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


class LabServer:
    """One JupyterLab process in an environment of its own; ``root`` is the folder it shows."""

    def __init__(self, base: Path, *, root: Path | None = None, env: dict[str, str] | None = None) -> None:
        self.base = base
        self.root = root or base / "notebooks"
        self.home = base / "home"
        self.settings = base / "settings"
        self.data = base / "data"
        for folder in (self.root, self.home, self.settings, self.data):
            folder.mkdir(parents=True, exist_ok=True)
        self.token = secrets.token_hex(16)
        self.env = {
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "JUPYTER_CONFIG_DIR": str(base / "config"),
            "JUPYTER_DATA_DIR": str(self.data),
            "JUPYTER_RUNTIME_DIR": str(base / "runtime"),
            "JUPYTERLAB_SETTINGS_DIR": str(self.settings),
            "JUPYTERLAB_WORKSPACES_DIR": str(base / "workspaces"),
            "IPYTHONDIR": str(base / "ipython"),
            **(env or {}),
        }
        self.log = base / "lab.log"
        self.url = ""
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, timeout: float = 60) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        command = [
            *(sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--expose-app-in-browser"),
            *("--ServerApp.ip=127.0.0.1", f"--ServerApp.port={port}", "--ServerApp.port_retries=0"),
            *(f"--ServerApp.root_dir={self.root}", f"--IdentityProvider.token={self.token}"),
            *("--LabApp.news_url=None", "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate"),
            *("--LabApp.extension_manager=readonly", "--KernelManager.transport=ipc"),
        ]
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                env=self.env,
                cwd=self.root,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                preexec_fn=_end_with_parent,
            )
        deadline = time.monotonic() + timeout
        while True:
            try:
                urllib.request.urlopen(f"{self.url}/api/status?token={self.token}", timeout=2).close()
                return
            except (urllib.error.URLError, OSError):
                if self._process.poll() is not None or time.monotonic() > deadline:
                    self.stop()
                    pytest.fail(f"JupyterLab did not start:\n{self.log.read_text(errors='replace')[-3000:]}")
                time.sleep(0.1)

    def stop(self) -> None:
        """A polite end, so that the server shuts its kernels down; then the whole group."""
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(5)

    def write(self, name: str, cells: list[str | tuple[str, str]], *, kernel: str = "python3") -> Path:
        """A notebook of code cells (``("markdown", text)`` for others) in the root folder."""
        import nbformat.v4 as v4

        made = [
            v4.new_code_cell(cell) if isinstance(cell, str) else v4.new_markdown_cell(cell[1])
            for cell in cells
        ]
        notebook = v4.new_notebook(
            cells=made,
            metadata={"kernelspec": {"name": kernel, "display_name": kernel, "language": "python"}},
        )
        return self.save(name, notebook)

    def save(self, name: str, notebook: Any) -> Path:
        import nbformat

        path = self.root / name
        nbformat.write(notebook, path)
        return path

    def execute(self, path: Path, timeout: int = 90) -> Any:
        """Run the notebook headless, widget state and outputs stored, as a cron does; nothing is signed."""
        import nbformat
        from nbclient import NotebookClient

        notebook = nbformat.read(path, as_version=4)
        client = NotebookClient(notebook, timeout=timeout, resources={"metadata": {"path": str(self.root)}})
        with self.log.open("ab") as log:
            client.execute(env=self.env, stderr=log)
        nbformat.write(notebook, path)
        return notebook

    def trust(self, path: Path) -> None:
        """Sign the notebook as ``jupyter trust`` would in this server's data folder."""
        import nbformat
        from nbformat.sign import NotebookNotary

        notary = NotebookNotary(data_dir=str(self.data))
        notary.sign(nbformat.read(path, as_version=4))
        notary.store.close()

    def set_theme(self, theme: str) -> None:
        self._set("apputils-extension/themes", {"theme": THEMES[theme]})
        # Every cell in the page, also those out of sight: text and accessibility are asked of the whole notebook.
        self._set("notebook-extension/tracker", {"windowingMode": "none", "scrollPastEnd": False})
        if "JUPYTER_CONFIG_PATH" not in self.env:
            # JupyterLab's own question about its news would lie over the notebook; `rightlab lab` asks none.
            self._set("apputils-extension/notification", {"fetchNews": "false", "checkForUpdates": False})

    @contextlib.contextmanager
    def setting(self, plugin: str, values: dict[str, Any]) -> Iterator[None]:
        """JupyterLab settings of ``plugin`` (``apputils-extension/themes``) for notebooks opened inside."""
        path = self._set(plugin, values)
        yield
        path.unlink()

    def _set(self, plugin: str, values: dict[str, Any]) -> Path:
        path = self.settings / "@jupyterlab" / f"{plugin}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(values))
        return path


def _end_with_parent() -> None:
    """A killed test run must not leave a server behind (Linux: PR_SET_PDEATHSIG)."""
    if _LIBC is not None:
        _LIBC.prctl(1, signal.SIGTERM)


@dataclass
class Notebook:
    """One notebook open in one browser page."""

    page: Any
    name: str
    outside: list[str] = field(default_factory=list)
    _errors: list[str] = field(default_factory=list)

    def console_errors(self) -> list[str]:
        """What went wrong in the page, JupyterLab's own errors included: it makes none when all is well."""
        return list(self._errors)

    def command(self, name: str, timeout: float = 60) -> None:
        """Run a JupyterLab command and wait until it has finished."""
        self.page.evaluate(
            """([name, ms]) => Promise.race([
                 window.jupyterapp.commands.execute(name).then(() => null),
                 new Promise((_, fail) => setTimeout(() => fail(new Error(name + ' took too long')), ms))])""",
            [name, timeout * 1000],
        )

    def run_all(self, timeout: float = 60) -> None:
        """Run every cell from the top and wait until the last has answered."""
        self.command("notebook:run-all-cells", timeout)

    def start_all(self) -> None:
        """Run every cell and do not wait."""
        self.page.evaluate("() => { window.jupyterapp.commands.execute('notebook:run-all-cells'); }")

    def wait_for(self, text: str, timeout: float = 30) -> Any:
        """Wait until ``text`` can be seen in an output; returns where."""
        found = self.page.locator(".jp-OutputArea-output", has_text=text).first
        found.wait_for(state="visible", timeout=timeout * 1000)
        return found

    def outputs(self) -> list[str]:
        """What a person reads under each code cell that has outputs, in order."""
        return [str(text) for text in self.page.locator(".jp-Cell-outputArea").all_inner_texts()]

    def outputs_html(self) -> str:
        return "\n".join(
            self.page.locator(".jp-Cell-outputArea").evaluate_all("all => all.map(one => one.innerHTML)")
        )

    def violations(self) -> list[str]:
        """What axe finds serious or worse in the outputs.

        A wide table scrolls in a place of its own. No tab stop survives the sanitiser, but browsers give such places
        one by themselves: axe's complaint counts only where this browser does not.
        """
        axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
        found = axe.run(self.page, context=".jp-Cell-outputArea").response["violations"]
        return [
            f"{one['id']}: {node['html'][:200]}"
            for one in found
            if one["impact"] in ("serious", "critical")
            for node in one["nodes"]
            if one["id"] != "scrollable-region-focusable" or not self._takes_focus(node["target"][-1])
        ]

    def _takes_focus(self, selector: str) -> bool:
        """Whether the keyboard can stand on it and scroll it sideways."""
        return bool(
            self.page.evaluate(
                """selector => {
                  const place = document.querySelector(selector), before = document.activeElement;
                  place.focus({ preventScroll: true });
                  const taken = document.activeElement === place && place.scrollWidth > place.clientWidth
                    && place.scrollHeight <= place.clientHeight + 1;
                  before?.focus?.({ preventScroll: true });
                  return taken;
                }""",
                selector,
            )
        )

    def screenshot(self, name: str, *, whole: bool = False) -> Path:
        """A picture in the folder of RIGHTLAB_SCREENSHOTS, else in the test's own; ``whole``: the notebook's full
        height."""
        folder = Path(os.environ.get("RIGHTLAB_SCREENSHOTS") or self.page.screenshots)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{name}.png"
        with self.whole() if whole else contextlib.nullcontext():
            self.page.screenshot(path=path)
        return path

    @contextlib.contextmanager
    def whole(self) -> Iterator[None]:
        """The window as high as the notebook, so that a screenshot has all of it."""
        before = self.page.viewport_size
        height = self.page.evaluate(
            """() => {
              document.activeElement?.blur();
              const cells = [...document.querySelectorAll('.jp-Notebook .jp-Cell')];
              const [first, last] = [cells[0], cells.at(-1)].map(cell => cell.getBoundingClientRect());
              return last.bottom - first.top + 140;
            }"""
        )
        self.page.set_viewport_size({"width": before["width"], "height": min(int(height), 16_000)})
        self.page.evaluate("() => { document.querySelector('.jp-WindowedPanel-outer').scrollTop = 0; }")
        self.page.wait_for_timeout(500)
        yield
        self.page.set_viewport_size(before)

    def set_theme(self, theme: str) -> None:
        """Switch JupyterLab's theme in the open page."""
        self.page.evaluate(
            "name => window.jupyterapp.commands.execute('apputils:change-theme', { theme: name })",
            THEMES[theme],
        )
        self._theme_is(theme)

    def _theme_is(self, theme: str) -> None:
        self.page.wait_for_function(
            "light => document.body.dataset.jpThemeLight === light",
            arg=str(theme == "light").lower(),
            timeout=30_000,
        )

    def set_width(self, width: int) -> None:
        self.page.set_viewport_size({"width": width, "height": self.page.viewport_size["height"]})
        self.page.wait_for_timeout(200)

    def output(self, at: int) -> Any:
        """Where code cell number ``at`` shows what it gave."""
        return self.page.locator(".jp-CodeCell").nth(at).locator(".jp-Cell-outputArea")

    def cut_off(self) -> list[str]:
        """What is wider than its place in an output and cannot be scrolled to."""
        return list(
            self.page.evaluate(
                """() => [...document.querySelectorAll('.jp-OutputArea-output, .jp-OutputArea-output *')]
                  .filter(one => one.scrollWidth > one.clientWidth + 2 && one.clientWidth > 1
                    && ['hidden', 'clip'].includes(getComputedStyle(one).overflowX))
                  .map(one => `${one.className}: ${one.scrollWidth} in ${one.clientWidth} px`)"""
            )
        )


def opened(
    context: Any,
    server: LabServer,
    path: Path | str,
    theme: str,
    *,
    width: int,
    height: int,
    kernel: bool = True,
    screenshots: Path | None = None,
) -> Notebook:
    """The notebook in a new page of ``context``; its kernel is ready."""
    server.set_theme(theme)
    page = context.new_page()
    page.set_viewport_size({"width": width, "height": height})
    page.screenshots = screenshots
    name = str(Path(path).relative_to(server.root)) if Path(path).is_absolute() else str(path)
    notebook = Notebook(page, name)
    page.on("console", lambda line: notebook._errors.append(line.text) if line.type == "error" else None)
    page.on("pageerror", lambda error: notebook._errors.append(f"uncaught: {error}"))
    page.on(
        "request",
        lambda request: (
            notebook.outside.append(request.url)
            if request.url.startswith(("http", "ws")) and "//127.0.0.1:" not in request.url
            else None
        ),
    )
    workspace = secrets.token_hex(4)
    page.goto(f"{server.url}/lab/workspaces/{workspace}/tree/{name}?token={server.token}", timeout=60_000)
    page.locator(".jp-Notebook .jp-Cell").first.wait_for(state="visible", timeout=60_000)
    page.wait_for_function(_OPENED, arg=[kernel], timeout=60_000)
    notebook._theme_is(theme)
    notebook.command("application:toggle-left-area") if page.locator(
        "#jp-left-stack:visible"
    ).count() else None
    return notebook


@pytest.fixture(scope="session")
def lab_server_factory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., LabServer]]:
    """Start a JupyterLab: ``factory(root=..., env=...)``; all are stopped at the end."""
    started: list[LabServer] = []

    def start(**options: Any) -> LabServer:
        server = LabServer(tmp_path_factory.mktemp("lab"), **options)
        server.start()
        started.append(server)
        return server

    yield start
    for server in started:
        server.stop()


@pytest.fixture(scope="session")
def lab_server(lab_server_factory: Callable[..., LabServer]) -> LabServer:
    return lab_server_factory()


@dataclass(frozen=True)
class LivedDemo:
    """The demo as ``rightlab demo`` leaves it; ``once`` says what the turn and the cron run gave."""

    home: Any
    agent: Any
    notebooks: Path
    once: dict[str, Any]


@pytest.fixture(scope="session")
def lived_demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LivedDemo]:
    """A demo with a past, shared by tests that do not count its turns; a notebook may have it up."""
    from rightlab.home import Home
    from rightlab.runtime.demo import prepare_demo, run_once

    # Pictures for the documentation show paths; they get one that is nobody's.
    pictured = bool(os.environ.get("RIGHTLAB_SCREENSHOTS"))
    base = Path("/tmp/rightlab") if pictured else tmp_path_factory.mktemp("lived")
    made = prepare_demo(Home.resolve(base / "home"))
    yield LivedDemo(made.home, made.agent, made.notebooks, run_once(made))
    shutil.rmtree(base, ignore_errors=True)


@pytest.fixture(scope="session")
def demo_server(lived_demo: LivedDemo, lab_server_factory: Callable[..., LabServer]) -> LabServer:
    """JupyterLab on that demo's notebooks, with the defaults that ``rightlab lab`` gives it."""
    from rightlab.runtime.jupyter import lab_environment

    ours = lab_environment(lived_demo.home)
    env = {name: ours[name] for name in ("RIGHTLAB_HOME", "JUPYTER_CONFIG_PATH")}
    return lab_server_factory(root=lived_demo.notebooks, env=env)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    if not Path(CHROMIUM).exists() and shutil.which("chromium") is None:
        pytest.skip("Chromium is not installed: apt install chromium")
    sync_api = pytest.importorskip("playwright.sync_api")
    path = CHROMIUM if Path(CHROMIUM).exists() else shutil.which("chromium")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=CHROMIUM_ARGS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def browser_context(chromium: Any) -> Iterator[Any]:
    """One for the module's tests: what JupyterLab loads, 22 MB, is fetched once."""
    context = chromium.new_context()
    yield context
    context.close()


@pytest.fixture
def open_notebook(
    browser_context: Any, lab_server: LabServer, tmp_path: Path
) -> Iterator[Callable[..., Notebook]]:
    """``open_notebook(path, theme="light", width=1280, server=None)`` -> :class:`Notebook`, its kernel ready."""
    pages: list[Any] = []

    def open_(
        path: Path | str,
        theme: str = "light",
        *,
        width: int = 1280,
        height: int = 1000,
        server: LabServer | None = None,
        kernel: bool = True,
    ) -> Notebook:
        notebook = opened(
            browser_context,
            server or lab_server,
            path,
            theme,
            width=width,
            height=height,
            kernel=kernel,
            screenshots=tmp_path / "screenshots",
        )
        pages.append(notebook.page)
        return notebook

    yield open_
    for page in pages:
        page.close()


_OPENED = """async ([kernel]) => {
  const app = window.jupyterapp;
  if (!app) return false;
  await app.restored;
  const panel = app.shell.currentWidget;
  if (!panel || !panel.sessionContext) return false;
  await panel.context.ready;
  if (!kernel) return true;
  await panel.sessionContext.ready;
  const running = panel.sessionContext.session?.kernel;
  return !!running && running.status === 'idle';
}"""
