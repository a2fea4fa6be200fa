"""What JupyterLab is started with: our defaults beside a person's own settings, never in their place."""

import json
import os
from pathlib import Path

import pytest

from rightlab.home import Home
from rightlab.runtime.jupyter import lab_environment
from rightlab.runtime.setup import make_agent


def test_jupyterlab_asks_nothing_at_its_first_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JUPYTER_CONFIG_PATH", raising=False)
    home = Home.resolve(tmp_path / "home")
    home.mark()
    environment = lab_environment(home)
    assert environment["RIGHTLAB_HOME"] == str(home.path)
    assert "RIGHTLAB_AGENT" not in environment
    folder = Path(environment["JUPYTER_CONFIG_PATH"])
    assert folder.is_relative_to(home.path), "a setting of the person's was touched"
    defaults = json.loads((folder / "labconfig/default_setting_overrides.json").read_text())
    assert defaults == {
        "@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": False}
    }
    assert home.agents() == []
    assert lab_environment(home) == environment


def test_the_persons_own_configuration_stands_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", f"/etc/theirs{os.pathsep}/etc/more")
    agent = make_agent(
        Home.resolve(tmp_path / "home"), "alice", overrides={"gateway.upstream": "scripted:builtin"}
    )
    environment = lab_environment(agent.home, "alice")
    path = environment["JUPYTER_CONFIG_PATH"].split(os.pathsep)
    assert path[:2] == ["/etc/theirs", "/etc/more"]
    assert len(path) == 3
    assert environment["RIGHTLAB_AGENT"] == "alice"
