"""Doctor: look at everything an agent needs and name a fix for each finding. It changes nothing."""

import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from rightlab.errors import RightlabError
from rightlab.home import AgentConfig, AgentHome
from rightlab.html import Column, Footer, Page, Table, mimebundle, plural, size
from rightlab.runtime.hub import hub_fix, hub_warnings
from rightlab.runtime.not_yet import not_yet

__all__ = ["Finding", "Report", "examine"]

Level = Literal["pass", "warn", "fail"]
SIGNS = {"pass": "✓", "warn": "⚠", "fail": "✗"}
NETWORK_TIMEOUT = 8.0


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at. ``fix`` is set on every warning and failure."""

    level: Level
    check: str
    detail: str
    fix: str | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """What doctor found for one agent (``agent`` None: this machine only)."""

    agent: str | None
    findings: tuple[Finding, ...]

    @property
    def failed(self) -> bool:
        return any(finding.level == "fail" for finding in self.findings)

    def to_json(self) -> dict[str, Any]:
        return {
            "agent": self.agent,
            "ok": not self.failed,
            "findings": [asdict(finding) for finding in self.findings],
        }

    def page(self) -> Page:
        counts = {level: sum(f.level == level for f in self.findings) for level in SIGNS}
        sentence = f"{counts['pass']} of {plural(len(self.findings), 'check')} passed"
        if counts["warn"] or counts["fail"]:
            sentence += f" ({plural(counts['warn'], 'warning')}, {plural(counts['fail'], 'failure')})"
        rows = [
            [f"{SIGNS[finding.level]} {finding.level}", finding.check, finding.detail, finding.fix or ""]
            for finding in self.findings
        ]
        table = Table(
            rows, [Column("state"), Column("check"), Column("found"), Column("fix")], caption="Checks"
        )
        return Page(f"doctor · {self.agent or 'this machine'}", sentence + ".", table, footer=Footer())

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return mimebundle(self, self.page(), include, exclude)

    def text(self) -> str:
        title = f"doctor: {self.agent or 'this machine'}"
        lines = [title]
        for finding in self.findings:
            lines.append(f"  {SIGNS[finding.level]} {finding.check}: {finding.detail}")
            if finding.fix:
                lines.append(f"      fix: {finding.fix}")
        return "\n".join([*lines, f"  {self.page().sentence}"])


def examine(agent: AgentHome | None) -> Report:
    """Run every check; a check that breaks is a finding, never an exception."""
    findings = [*_machine()]
    if agent is not None:
        findings += _agent(agent)
    return Report(agent.name if agent is not None else None, tuple(findings))


def _check(name: str, look: Callable[[], str | Finding], *, fix: str, level: Level = "fail") -> Finding:
    try:
        found = look()
    except RightlabError as error:
        return Finding(level, name, _found(error), error.fix or fix)
    except Exception as error:
        return Finding(level, name, f"{type(error).__name__}: {error}", fix)
    return found if isinstance(found, Finding) else Finding("pass", name, found)


def _found(error: RightlabError) -> str:
    return error.message if error.where is None else f"{error.where}: {error.message}"


def _machine() -> Iterator[Finding]:
    yield _check("Claude Code", _cli, fix="python3 -m pip install 'rightlab[agent]'")
    yield _check("MCP library", _mcp, fix="python3 -m pip install 'rightlab[agent]'")
    yield _check(
        "memory", _memory, fix="Close what you do not need; a turn takes about 300 MB.", level="warn"
    )
    yield _check("kernel rightlab", _kernelspec, fix="Install rightlab (not editable) into this environment.")


def _cli() -> str:
    from rightlab.claude import find_cli

    cli = find_cli()
    return f"{cli.version} at {cli.path}"


def _mcp() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("mcp")
    except PackageNotFoundError:
        raise RightlabError("not installed") from None


def _memory() -> str | Finding:
    found = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    free = int(found["MemAvailable"].split()[0]) * 1024
    if free < 500_000_000:
        return Finding(
            "warn", "memory", f"only {size(free)} available", "A turn takes about 300 MB: close others."
        )
    return f"{size(free)} available"


def _kernelspec() -> str:
    from rightlab.runtime.jupyter import installed_kernelspec

    if installed_kernelspec() is None:
        raise RightlabError("Jupyter does not know the kernel rightlab")
    return "known to Jupyter"


def _agent(agent: AgentHome) -> Iterator[Finding]:
    yield _check("home", lambda: _home(agent), fix="Make the folder writable, or use another with --home.")
    config: AgentConfig | None = None
    try:
        config = agent.config()
    except RightlabError as error:
        yield Finding("fail", "agent.yaml", _found(error), error.fix or "Correct the file.")
    if config is not None:
        for warning in config.warnings:
            yield Finding("warn", "agent.yaml", warning, "Remove the key from agent.yaml.")
        for setting in not_yet(config):
            yield Finding("fail", "agent.yaml", f"{setting}: not available yet", "Change it in agent.yaml.")
        if not config.warnings:
            yield Finding("pass", "agent.yaml", "reads well")
    yield _check("data.db", lambda: _database(agent), fix="Restore a backup of data.db.")
    yield _check("secrets.json", lambda: _secrets(agent), fix=f"chmod 600 {agent.secrets_path}")
    yield _check("allowlist", lambda: _allowlist(agent), fix="Correct allowlist.yaml.")
    if agent.is_bootstrapping:
        yield Finding(
            "warn",
            "onboarding",
            "pending: BOOTSTRAP.md is there",
            "Talk to the agent; until onboarding comes it answers as usual.",
        )
    if config is not None:
        yield _check("sandbox", lambda: _sandbox(agent, config), fix="apt install bubblewrap socat")
        yield _check("model", lambda: _model(agent, config), fix="Check gateway.upstream in agent.yaml.")
        yield _check(
            "Telegram", lambda: _telegram(agent, config), fix="Check the token and telegram.api_base."
        )
    for warning in hub_warnings():
        yield Finding("warn", "hub", warning, hub_fix(agent.name))
    yield _check("owner", lambda: _owner(agent), fix=f"rightlab restart {agent.name}")


def _home(agent: AgentHome) -> str | Finding:
    if not os.access(agent.root, os.W_OK):
        raise RightlabError("is not writable", where=agent.root)
    free = shutil.disk_usage(agent.root).free
    if free < 500_000_000:
        return Finding("warn", "home", f"only {size(free)} free", "Free some space on that disk.")
    return f"{agent.root}, {size(free)} free"


def _database(agent: AgentHome) -> str:
    from rightlab.store import Store

    if not agent.db_path.exists():
        return "not made yet; the first start makes it"
    with Store.open(agent.db_path, role="reader") as store:
        verdict = store.value("PRAGMA quick_check(1)")
        if verdict != "ok":
            raise RightlabError(f"is damaged ({verdict})", where=agent.db_path)
        return f"sound, {size(agent.db_path.stat().st_size)}"


def _secrets(agent: AgentHome) -> str:
    if not agent.secrets_path.exists():
        return "none stored"
    secrets = agent.secrets()
    if secrets.exposed:
        mode = stat.S_IMODE(agent.secrets_path.stat().st_mode)
        raise RightlabError(f"others can read it (mode {mode:o})", where=agent.secrets_path)
    return ", ".join(secrets.names()) or "none stored"


def _allowlist(agent: AgentHome) -> str | Finding:
    allowlist = agent.allowlist()
    if not allowlist.users and agent.telegram_token():
        return Finding(
            "warn",
            "allowlist",
            "nobody may talk to the bot",
            f"rightlab agent allow {agent.name} YOUR_TELEGRAM_ID",
        )
    return plural(len(allowlist.users), "person", "people")


def _sandbox(agent: AgentHome, config: AgentConfig) -> str | Finding:
    from rightlab.runtime.thread import host_thread
    from rightlab.sandbox import open_sandbox

    async def look() -> str | Finding:
        with tempfile.TemporaryDirectory(prefix="rightlab-doctor-") as scratch:
            sandbox = await open_sandbox(
                mode=config.sandbox.mode, root=Path(scratch) / "root", run_dir=Path(scratch) / "run"
            )
            try:
                health = await sandbox.health()
            finally:
                await sandbox.close()
        if not health.ok:
            return Finding("fail", "sandbox", health.detail, health.fix or "apt install bubblewrap socat")
        if sandbox.mode == "none":
            return Finding(
                "warn",
                "sandbox",
                "none: the agent's commands run on this machine as you",
                "Set sandbox.mode to auto in agent.yaml.",
            )
        return health.detail

    return host_thread().call(look(), timeout=60)


def _model(agent: AgentHome, config: AgentConfig) -> str | Finding:
    from urllib.parse import urlsplit

    upstream = config.gateway.upstream
    if upstream == "direct" or upstream.startswith("replay:"):
        return Finding(
            "fail", "model", f"{upstream}: not available yet", "Change gateway.upstream in agent.yaml."
        )
    if upstream.startswith("scripted:"):
        return f"scripted model ({upstream.removeprefix('scripted:')}): no account is used"
    url = urlsplit(upstream)
    credential = agent.model_credential()
    local = url.hostname in {"127.0.0.1", "localhost", "::1"}
    if credential is None and not local:
        return Finding(
            "fail",
            "model",
            f"no credential for {upstream}",
            f"Put a token of `claude setup-token` or an API key into {agent.secrets_path} as claude_credential, or"
            " name its place with gateway.credential in agent.yaml.",
        )
    import httpx

    from rightlab.claude.gateway_forward import credential_headers

    question = {"model": config.model or "sonnet", "messages": [{"role": "user", "content": "hi"}]}
    try:
        answer = httpx.post(
            f"{upstream.rstrip('/')}/v1/messages/count_tokens",
            json=question,
            headers={"anthropic-version": "2023-06-01", **credential_headers(credential)},
            timeout=NETWORK_TIMEOUT,
            trust_env=not local,
        )
    except httpx.HTTPError as error:
        raise RightlabError(
            f"{upstream} is not reachable ({error})", fix="Check the network and gateway.upstream."
        ) from error
    if answer.status_code in (401, 403):
        named = config.gateway.credential
        place = f"env {named.env}" if named.env else named.file or f"{agent.secrets_path} (claude_credential)"
        return Finding(
            "fail", "model", f"{upstream} refuses the credential from {place}", "Put a working one there."
        )
    return f"{upstream} answers" + (" and takes the credential" if credential else ", without a credential")


def _telegram(agent: AgentHome, config: AgentConfig) -> str | Finding:
    token = agent.telegram_token()
    if token is None:
        return "no token; the notebook chat works without one"
    from rightlab.runtime.thread import host_thread
    from rightlab.telegram import bot_username

    name = host_thread().call(bot_username(token, config.telegram.api_base), timeout=NETWORK_TIMEOUT * 2)
    return f"the token belongs to @{name}"


def _owner(agent: AgentHome) -> str:
    from rightlab.runtime import host

    status = host.owner_status(agent)
    if status is None:
        return "down"
    return f"up in {status['host']}, process {status['pid']}; {_processes(int(status['pid']))}"


def _processes(owner: int) -> str:
    """The owner and everything it started: how many processes, how much memory they hold."""
    parents: dict[int, list[tuple[int, int]]] = {}
    page = os.sysconf("SC_PAGE_SIZE")
    held = 0
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it ended while we looked
        pid, parent, memory = int(entry.name), int(fields[1]), int(fields[21]) * page
        parents.setdefault(parent, []).append((pid, memory))
        if pid == owner:
            held = memory
    count, waiting = 1, [owner]
    while waiting:
        for pid, memory in parents.get(waiting.pop(), ()):
            count += 1
            held += memory
            waiting.append(pid)
    return f"{plural(count, 'process', 'processes')}, {size(held)}"
