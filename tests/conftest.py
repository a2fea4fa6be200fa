"""What every test of rightlab relies on: a home of its own, no credentials of the machine, no skips in CI."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes says more about the machine than about the code; the seed is fixed in CI.
settings.register_profile(
    "rightlab",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=bool(os.environ.get("RIGHTLAB_CI")),
)
settings.load_profile("rightlab")

# Nothing of the machine's own accounts or model settings may reach a test or a child of one.
for _name in list(os.environ):
    if _name.startswith(("ANTHROPIC_", "CLAUDE_", "RIGHTLAB_HOME", "RIGHTLAB_CLAUDE")):
        del os.environ[_name]


@pytest.fixture(autouse=True)
def _private_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """HOME and RIGHTLAB_HOME point into the test's own folder: no test can touch another runtime."""
    folder = tmp_path_factory.mktemp("person")
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("RIGHTLAB_HOME", str(folder / ".rightlab"))
    return folder


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """In CI a skipped CLI, sandbox, kernel or browser test is a failure."""
    outcome = yield
    report = outcome.get_result()  # type: ignore[attr-defined]
    needed = {"claude", "sandbox", "kernel", "browser"}
    if report.skipped and os.environ.get("RIGHTLAB_CI") and any(item.get_closest_marker(m) for m in needed):
        report.outcome = "failed"
        report.longrepr = f"skipped in CI: {report.longrepr}"


@pytest.fixture(scope="session")
def python() -> str:
    return sys.executable


@pytest.fixture(scope="session")
def rightlab_command() -> list[str]:
    """How tests start the command line in a process of its own."""
    found = shutil.which("rightlab", path=str(Path(sys.executable).parent))
    return [found] if found else [sys.executable, "-m", "rightlab"]


@pytest.fixture
def cli(rightlab_command: list[str], _private_home: Path):
    """Run ``rightlab ARGS`` in a process of its own and return it finished."""

    def run(
        *args: str, timeout: float = 90, env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*rightlab_command, *args],
            capture_output=True,
            text=True,
            timeout=timeout,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **(env or {})},
        )

    return run
