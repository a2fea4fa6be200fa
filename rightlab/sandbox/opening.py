"""The room's way in: which sandbox, and fail closed."""

import contextlib
import itertools
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from rightlab.errors import ConfigError, NotAvailable, SandboxError
from rightlab.home.sockets import connect_unix
from rightlab.home.writers import make_dir
from rightlab.sandbox.base import Sandbox
from rightlab.sandbox.bwrap import BwrapSandbox
from rightlab.sandbox.egress import Connector, EgressProxy, Resolver
from rightlab.sandbox.egress_policy import MODEL_HOSTS, EgressPolicy
from rightlab.sandbox.none import NoSandbox

__all__ = ["MODES", "open_sandbox"]

MODES = ("auto", "bwrap", "landlock", "openshell", "none")
_count = itertools.count(1)


async def open_sandbox(
    *,
    mode: str = "auto",
    root: Path,
    run_dir: Path,
    services: Mapping[str, Path] | None = None,
    service_urls: Mapping[str, str] | None = None,
    network_policy: str = "permissive",
    model_hosts: Sequence[str] = MODEL_HOSTS,
    tools: Mapping[str, Path] | None = None,
    log: Path | None = None,
    allow_none: bool = False,
    agent: str | None = None,
    resolver: Resolver | None = None,
    connector: Connector | None = None,
) -> Sandbox:
    """Open the sandbox of one agent and prove, by starting a process in it, that it works.

    Args:
        mode: ``auto`` (bwrap, or an error that says what is missing), ``bwrap`` or ``none`` (on the host).
        root: The agent's folder on the host, made if missing; the guest's ``/sandbox``. Never deleted.
        run_dir: A host folder for what lives as long as the runtime; a launch sees of it only its own files.
        services: Name -> unix socket of what the guest may call (``gateway``, ``mcp``).
        service_urls: Name -> loopback URL of the same for mode ``none``.
        network_policy: ``permissive`` (any public address) or ``restrictive`` (only ``model_hosts``).
        tools: Name -> host program, shown read-only inside.
        log: File for one JSON line per connection of the guest.
        allow_none: With ``auto``, fall back to ``none`` and say so in ``note`` (the demo alone).
        agent: Name in the log; default the folder above ``root``.
        resolver, connector: The egress proxy's ways to DNS and network, for tests.

    Raises:
        SandboxError: no sandbox, with what to install or to enable. Nothing was run on the host instead.
        NotAvailable: a backend of a later version. ConfigError: no such mode or policy.
    """
    if mode not in MODES:
        raise ConfigError(f"sandbox mode is {mode!r}", fix=f"Use one of {', '.join(MODES)}.")
    if mode in ("landlock", "openshell"):
        raise NotAvailable(f"sandbox: {mode}")
    policy = EgressPolicy(network_policy, tuple(model_hosts))
    make_dir(root)
    files_dir = make_dir(run_dir / "files", 0o700)
    tools = dict(tools or {})
    note = None
    if mode != "none":
        try:
            return await _open_bwrap(
                root, run_dir, files_dir, dict(services or {}), tools, policy, log, agent, resolver, connector
            )
        except SandboxError as error:
            if mode != "auto" or not allow_none:
                raise
            note = f"No sandbox: the agent runs unconfined on this machine. {error}"
    bare = NoSandbox(
        root=root, files_dir=files_dir, service_urls=dict(service_urls or {}), tools=tools, note=note
    )
    try:
        await bare.prepare()
    except BaseException:
        await bare.close()
        raise
    return bare


async def _open_bwrap(
    root: Path,
    run_dir: Path,
    files_dir: Path,
    services: dict[str, Path],
    tools: dict[str, Path],
    policy: EgressPolicy,
    log: Path | None,
    agent: str | None,
    resolver: Resolver | None,
    connector: Connector | None,
) -> Sandbox:
    _sweep(run_dir)
    proxy = EgressProxy(
        # One per opening: a cron's own process may open the same agent's sandbox beside the owner.
        run_dir / f"egress-{os.getpid()}-{next(_count)}.sock",
        agent=agent or root.parent.name,
        policy=policy,
        log=log,
        resolver=resolver,
        connector=connector,
    )
    sandbox = BwrapSandbox(root=root, files_dir=files_dir, services=services, tools=tools, proxy=proxy)
    try:
        await proxy.start()
        await sandbox.prepare()
    except BaseException:
        await sandbox.close()
        raise
    return sandbox


def _sweep(run_dir: Path) -> None:
    """Remove the proxy sockets of processes that are gone."""
    for path in run_dir.glob("egress-*.sock"):
        if re.fullmatch(r"egress-\d+-\d+\.sock", path.name) is None:
            continue
        with contextlib.suppress(OSError):
            try:
                connect_unix(path, 1.0).close()
            except (TimeoutError, ConnectionRefusedError):
                path.unlink()
