"""Finding the Claude Code CLI, and the environment it runs in."""

import os
import re
import shutil
import subprocess
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from rightlab.errors import ClaudeError

__all__ = ["BELOW_VERSION", "MINIMUM_VERSION", "Cli", "claude_env", "find_cli"]

MINIMUM_VERSION = (2, 1, 332)
"""The oldest release known to have what we build on: ``--system-prompt-snapshot off``, ``--json-schema`` as a
StructuredOutput tool, ``model_usage_since_last_result``; claude-agent-sdk 0.2.189, our lower bound."""
BELOW_VERSION = (3, 0, 0)

_WANTED = f">={'.'.join(map(str, MINIMUM_VERSION))},<{BELOW_VERSION[0]}"
_INSTALL = "Install it with `pip install 'rightlab[agent]'`, or set RIGHTLAB_CLAUDE to a newer one."
_NUMBERS = re.compile(r"(\d+)\.(\d+)\.(\d+)")
_SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"

_versions: dict[tuple[str, int, int], str] = {}
_versions_lock = threading.Lock()


@dataclass(frozen=True)
class Cli:
    """A usable Claude Code. ``source`` says how it was found: env, path or bundled."""

    path: Path
    version: str
    source: Literal["env", "path", "bundled"] = "path"


def find_cli(environ: Mapping[str, str] | None = None) -> Cli:
    """``RIGHTLAB_CLAUDE``; else ``claude`` on PATH if new enough; else claude-agent-sdk's (contract).

    Raises:
        ClaudeError: none there; not executable; or the named one is too old or too new.
    """
    given = os.environ if environ is None else environ
    named = given.get("RIGHTLAB_CLAUDE")
    if named:
        path = Path(named).expanduser()
        version = _version(path)
        _require(path, version)
        return Cli(path, version, "env")
    refused: ClaudeError | None = None
    for source, path in _candidates(given):
        try:
            version = _version(path)
            _require(path, version)
            return Cli(path, version, source)
        except ClaudeError as error:
            refused = error
    raise refused or ClaudeError("Claude Code is not installed", fix=_INSTALL)


def _candidates(environ: Mapping[str, str]) -> list[tuple[Literal["path", "bundled"], Path]]:
    found: list[tuple[Literal["path", "bundled"], Path]] = []
    on_path = shutil.which("claude", path=environ.get("PATH", os.defpath))
    if on_path:
        found.append(("path", Path(on_path).absolute()))
    try:
        spec = find_spec("claude_agent_sdk")
    except (ImportError, ValueError):
        spec = None
    for folder in (spec.submodule_search_locations or []) if spec else []:
        bundled = Path(folder) / "_bundled" / "claude"
        if bundled.is_file():
            found.append(("bundled", bundled))
    return found


def _require(path: Path, version: str) -> None:
    numbers = _parsed(version)
    if numbers is None:
        raise ClaudeError(
            f"this is not Claude Code: its version reads {version[:60]!r}", where=path, fix=_INSTALL
        )
    if not MINIMUM_VERSION <= numbers < BELOW_VERSION:
        age = "old" if numbers < MINIMUM_VERSION else "new"
        raise ClaudeError(
            f"Claude Code {version} is too {age}, rightlab needs {_WANTED}", where=path, fix=_INSTALL
        )


def _parsed(version: str) -> tuple[int, int, int] | None:
    match = _NUMBERS.match(version)
    return (int(match[1]), int(match[2]), int(match[3])) if match else None


def _version(path: Path) -> str:
    """What ``--version`` says, asked once per file (path, modification time, size)."""
    try:
        stat = path.stat()
    except OSError:
        raise ClaudeError("there is no Claude Code here", where=path, fix=_INSTALL) from None
    if not path.is_file() or not os.access(path, os.X_OK):
        raise ClaudeError("this file cannot be executed", where=path, fix=_INSTALL)
    key = (str(path), stat.st_mtime_ns, stat.st_size)
    with _versions_lock:
        if key not in _versions:
            _versions[key] = _ask_version(path)
        return _versions[key]


def _ask_version(path: Path) -> str:
    quiet = {"PATH": _SYSTEM_PATH, "DISABLE_AUTOUPDATER": "1", "HOME": "/nonexistent"}
    try:
        done = subprocess.run(
            [str(path), "--version"],
            env=quiet,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=20,
            check=False,
            start_new_session=True,
        )
    except subprocess.TimeoutExpired:
        raise ClaudeError(
            "Claude Code does not answer --version within 20 s", where=path, fix=_INSTALL
        ) from None
    except OSError as error:
        raise ClaudeError(
            f"Claude Code does not start: {error.strerror or error}", where=path, fix=_INSTALL
        ) from error
    said = done.stdout.decode("utf-8", "replace").strip()
    if done.returncode != 0:
        raise ClaudeError(f"`--version` ended with exit code {done.returncode}", where=path, fix=_INSTALL)
    return said.removesuffix("(Claude Code)").strip()


def claude_env(
    *,
    base_url: str | None,
    bearer: str | None,
    config_dir: str,
    home: str,
    path: str,
    invocation_id: str,
    bearer_kind: Literal["auth_token", "api_key", "oauth"] = "auth_token",
    root: bool = False,
    max_retries: int = 2,
    mcp_timeout_ms: int = 5000,
    tmp: str | None = None,
    extra: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """The CLI's whole environment; nothing is taken over from ours (platform B).

    ``base_url`` None means the CLI's own API (``gateway.upstream: direct``). ``bearer`` is the gateway's
    placeholder, or with ``direct`` the credential itself, of ``bearer_kind``. ``root``: the child runs as uid
    0 and must say that it is in a sandbox. ``max_retries`` is short because the CLI retries a refused
    credential like a busy server, for over a minute with its default of 10. ``mcp_timeout_ms`` bounds a
    server that hangs, 30 s by default. ``extra`` goes over everything.
    """
    names = {
        "auth_token": "ANTHROPIC_AUTH_TOKEN",
        "api_key": "ANTHROPIC_API_KEY",
        "oauth": "CLAUDE_CODE_OAUTH_TOKEN",
    }
    env = {
        "PATH": path,
        "HOME": home,
        "LANG": "C.UTF-8",
        "CLAUDE_CONFIG_DIR": config_dir,
        "CLAUDE_CODE_MAX_RETRIES": str(max_retries),
        "MCP_TIMEOUT": str(mcp_timeout_ms),
        # Nothing but the model's API is to be called.
        "DISABLE_TELEMETRY": "1",
        "DISABLE_ERROR_REPORTING": "1",
        "DISABLE_AUTOUPDATER": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        # Equal inputs, equal bytes: the whole tool list, no hash of the first message in the system prompt.
        "ENABLE_TOOL_SEARCH": "false",
        "CLAUDE_CODE_ATTRIBUTION_HEADER": "0",
        # Memory, skills and the prompt are the agent's own; the CLI adds none for programmers.
        "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1",
        "CLAUDE_CODE_DISABLE_BUNDLED_SKILLS": "1",
        "CLAUDE_CODE_DISABLE_GIT_INSTRUCTIONS": "1",
        "ANTHROPIC_CUSTOM_HEADERS": f"X-Right-Invocation: {invocation_id}",
    }
    if base_url is not None:
        env["ANTHROPIC_BASE_URL"] = base_url
    if bearer is not None:
        env[names[bearer_kind]] = bearer
    if root:
        env["IS_SANDBOX"] = "1"
    if tmp is not None:
        env["TMPDIR"] = tmp
    env.update(extra or {})
    return env
