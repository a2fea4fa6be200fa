"""Why a sandbox did not start, and what to do about it."""

import re
from pathlib import Path

from rightlab.errors import SandboxError
from rightlab.sandbox.guest import BRIDGE_FAILED

__all__ = ["INSTALL", "diagnose"]

INSTALL = "Install it: apt install bubblewrap socat (dnf, pacman and zypper have the same names)."

_USERNS = (
    "Allow unprivileged user namespaces: sysctl -w kernel.unprivileged_userns_clone=1 (Debian), "
    "kernel.apparmor_restrict_unprivileged_userns=0 (Ubuntu), user.max_user_namespaces=15000 (others); in a "
    "container also start it with --security-opt seccomp=unconfined --security-opt systempaths=unconfined."
)
_CAUSES = (
    (
        r"(creating new namespace|no permissions to create.*namespace|uid map|gid map|loopback: failed|"
        r"unshare|need to be root|prctl|max_user_namespaces|userns)",
        "the kernel does not let it make namespaces",
        _USERNS,
    ),
    (r"can't mount proc", "this container does not let it mount /proc", _USERNS),
    (r"can't chdir to ([^:]+)", "the working folder is not there inside", "Give a folder below the agent's."),
    (r"can't find source path ([^:]+)", "something it shows went missing", "Restart the agent."),
    (r"unknown option", "this bubblewrap is too old", "Install bubblewrap 0.5 or newer."),
    (r"no space left", "the disk is full or no more namespaces can be made", "Free some, then try again."),
)


def diagnose(code: int | None, output: str, where: Path) -> SandboxError:
    """The error for a launch that ended (``code``) or hung (None) before its program started."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    last = re.sub(r"^bwrap: ", "", lines[-1])[:300] if lines else ""
    if code == BRIDGE_FAILED:
        said = last.removeprefix("rightlab sandbox: ")
        return SandboxError(
            f"the sandbox did not start: {said}",
            where=where,
            fix="Check that socat works, then restart the agent.",
        )
    if code is None:
        return SandboxError(
            f"the sandbox did not start in time{': ' + last if last else ''}",
            where=where,
            fix="Run `rightlab doctor`.",
        )
    for pattern, cause, fix in _CAUSES:
        if re.search(pattern, output, re.IGNORECASE):
            return SandboxError(f"the sandbox did not start: {cause} ({last})", where=where, fix=fix)
    said = last or f"exit code {code}"
    return SandboxError(f"the sandbox did not start: {said}", where=where, fix="Run `rightlab doctor`.")
