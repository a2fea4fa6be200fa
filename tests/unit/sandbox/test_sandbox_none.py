"""Mode none: asked for by name, the same doors, a scrubbed environment."""

import asyncio
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from rightlab.errors import SandboxError
from rightlab.sandbox import Sandbox


async def test_the_same_doors(opening: Any, run: Any, tmp_path: Path) -> None:
    box = await opening(
        mode="none", service_urls={"gateway": "http://127.0.0.1:5"}, tools={"true": Path("/bin/true")}
    )
    root = tmp_path / "agents/alice/sandbox"
    assert isinstance(box, Sandbox)
    assert (box.mode, box.note, box.guest_root) == ("none", None, str(root))
    assert box.url("gateway") == "http://127.0.0.1:5"
    assert box.tool("true") == str(Path("/bin/true").resolve())
    assert (
        box.files_at(box.files_dir / "a") == box.scratch_at(box.files_dir / "a") == str(box.files_dir / "a")
    )
    assert box.config_dir == f"{root}/.claude"
    ran = await run(box, "pwd; echo $HOME; ls -A")
    assert ran.out.split() == [str(root), str(root), ".bashrc", ".claude", ".local", ".npm", ".right"]
    with pytest.raises(SandboxError):
        box.url("mcp")
    with pytest.raises(SandboxError):
        box.tool("claude")
    assert (await box.health()).ok


async def test_the_environment_is_scrubbed(opening: Any, run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RIGHTLAB_TEST_SECRET", "hidden")
    box = await opening(mode="none")
    names = {line.partition("=")[0] for line in (await run(box, "env", env={"MINE": "1"})).out.splitlines()}
    assert names - set(box.env) == {"MINE", "PWD", "SHLVL", "_"}
    assert ("IS_SANDBOX" in box.env) is (os.geteuid() == 0)
    assert not [name for name in box.env if "PROXY" in name.upper()]


async def test_the_group_dies_together(opening: Any) -> None:
    box = await opening(mode="none")
    process = await box.spawn(["bash", "-c", "sleep 50 & echo $!; wait"], env={})
    assert process.stdout is not None
    child = int(await process.stdout.readline())
    assert os.getsid(process.pid) == process.pid
    os.killpg(process.pid, signal.SIGKILL)
    await process.wait()
    end = time.monotonic() + 5
    while time.monotonic() < end and Path(f"/proc/{child}").exists():
        if Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
            break
        await asyncio.sleep(0.01)
    else:
        assert not Path(f"/proc/{child}").exists()


async def test_closing_ends_what_runs(opening: Any) -> None:
    box = await opening(mode="none")
    process = await box.spawn(["sleep", "50"], env={})
    await box.close()
    assert process.returncode == -signal.SIGKILL
    with pytest.raises(SandboxError, match="closed"):
        await box.spawn(["true"], env={})


async def test_a_folder_that_is_not_there(opening: Any) -> None:
    box = await opening(mode="none")
    with pytest.raises(SandboxError, match="cannot be started"):
        await box.spawn(["true"], env={}, cwd="/nowhere")
