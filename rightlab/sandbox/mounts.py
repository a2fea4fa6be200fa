"""What a bwrap sandbox is made of: an allow-list of mounts, each resolved on the host before it is used.

No target lies inside the agent's folder, and no source is reached through a path the agent can change: a
symlink planted inside never becomes a mount (pains: laude-institute/headlong#72).
"""

import os
import re
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

from rightlab.errors import SandboxError
from rightlab.sandbox.guest import FILES, GUEST_ROOT, RUN

__all__ = ["OWN_PLACES", "real_directory", "real_file", "sandbox_args", "system_args"]

_ROOT_LINKS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_ETC = (
    "alternatives",
    "ca-certificates.conf",
    "crypto-policies",
    "debian_version",
    "fonts",
    "gai.conf",
    "host.conf",
    "inputrc",
    "java-17-openjdk",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "magic",
    "magic.mime",
    "mime.types",
    "os-release",
    "perl",
    "pki/ca-trust/extracted",
    "pki/tls/certs",
    "protocols",
    "python3",
    "python3.11",
    "python3.12",
    "python3.13",
    "services",
    "ssl/cert.pem",
    "ssl/certs",
    "ssl/openssl.cnf",
    "terminfo",
    "timezone",
)
"""What of ``/etc`` is shown: nothing with a secret, an account or an address of the host in it."""

OWN_PLACES = ("/", "/tmp", "/run", "/var", "/dev", GUEST_ROOT)
"""Paths that exist inside without being the host's."""

_MIB = 1024 * 1024
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def real_directory(path: Path, what: str) -> Path:
    """The resolved path of a folder. Raises SandboxError: it is missing, a symlink or no folder."""
    try:
        kind = path.lstat().st_mode
        if not stat.S_ISDIR(kind):
            word = "a symlink" if stat.S_ISLNK(kind) else "not a folder"
            raise SandboxError(f"{what} is {word}", where=path, fix="Put a real folder there.")
        return path.resolve(strict=True)
    except OSError as error:
        reason = os.strerror(error.errno or 0).lower()
        raise SandboxError(f"{what} cannot be used: {reason}", where=path) from error


def real_file(name: str, path: Path) -> Path:
    """The resolved path of a host program to be shown inside as ``name``."""
    if not _NAME.fullmatch(name):
        raise SandboxError(f"{name!r} is no name for a program in the sandbox")
    try:
        found = path.resolve(strict=True)
        if not stat.S_ISREG(found.stat().st_mode):
            raise SandboxError(f"{name} is not a regular file", where=path)
        return found
    except OSError as error:
        raise SandboxError(
            f"{name} is not there: {os.strerror(error.errno or 0).lower()}", where=path
        ) from error


def system_args() -> list[str]:
    """The read-only system: ``/usr``, its links in ``/``, and the allow-list of ``/etc``."""
    args = ["--ro-bind", "/usr", "/usr"]
    for folder in ("/etc", "/etc/ssl", "/var"):
        args += ["--perms", "0755", "--dir", folder]
    for name in _ROOT_LINKS:
        path = Path("/", name)
        if path.is_symlink():
            args += ["--symlink", os.readlink(path), f"/{name}"]
        elif path.is_dir():
            args += ["--ro-bind", f"/{name}", f"/{name}"]
    for name in _ETC:
        path = Path("/etc", name)
        try:
            found = path.resolve(strict=True)
        except OSError:
            continue
        if found.is_dir() or found.is_file():
            args += ["--ro-bind", str(found), f"/etc/{name}"]
    return args


def sandbox_args(
    *,
    system: Sequence[str],
    files: Mapping[str, int],
    root: Path,
    sockets: Mapping[str, Path],
    tools: Mapping[str, Path],
    options: str,
    shown: Path | None = None,
) -> list[str]:
    """bwrap's options, up to the environment. ``files``: path inside -> descriptor holding its bytes.

    ``options`` is what ``bwrap --help`` says: limits of memory file systems and a ban on further user
    namespaces are set where it has them. ``shown`` is the folder of this launch's own files.
    """
    _clear_of_system(root)

    def size(mib: int) -> tuple[str, ...]:
        return ("--size", str(mib * _MIB)) if "--size" in options else ()

    args = [
        *("--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts"),
        # No --new-session: the launch is in a session of its own without a terminal already, and one process
        # group from the outer bwrap to the inner one lets a single kill end both at any moment.
        *("--unshare-cgroup-try", "--die-with-parent", "--hostname", "sandbox"),
        *("--uid", "1000", "--gid", "1000", "--cap-drop", "ALL"),
        *(("--disable-userns", "--assert-userns-disabled") if "--assert-userns-disabled" in options else ()),
        *system,
        # Read-only: with root on the host, uid 1000 inside is the kernel's uid 0, and /proc/sys judges by
        # uid, not by capability.
        *("--proc", "/proc", "--remount-ro", "/proc"),
        *("--dev", "/dev", "--perms", "1777", *size(512), "--tmpfs", "/dev/shm"),
        *("--remount-ro", "/dev"),
        *("--perms", "1777", *size(4096), "--tmpfs", "/tmp"),
        *("--tmpfs", "/run", *size(1), "--tmpfs", "/run/bridge", "--dir", f"{RUN}/bin"),
        *("--symlink", "../tmp", "/var/tmp", "--symlink", "../run", "/var/run"),
        *(("--ro-bind", str(shown), FILES) if shown is not None else ()),
    ]
    for name, path in sockets.items():
        args += ["--ro-bind", str(path), f"{RUN}/{name}.sock"]
    for name, path in tools.items():
        args += ["--ro-bind", str(path), f"{RUN}/bin/{name}"]
    for target, fd in files.items():
        args += ["--perms", "0644", "--ro-bind-data", str(fd), target]
    args += ["--remount-ro", "/run", "--bind", str(root), GUEST_ROOT, "--remount-ro", "/"]
    return args


def _clear_of_system(root: Path) -> None:
    for seen in ("/usr", *(f"/{name}" for name in _ROOT_LINKS), "/etc"):
        if root.is_relative_to(seen):
            raise SandboxError(
                f"the agent's folder lies in {seen}, which every sandbox can read",
                where=root,
                fix="Move the home to another place (--home).",
            )
