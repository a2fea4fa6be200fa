"""The only sanctioned ways to write a file (design 3, spec agent-runtime 11.2).

Whole files go through a temporary file in the same folder, fsync, rename and fsync of the folder, so a reader
sees the old bytes or the new ones and a crash loses neither. Inside a home each writer takes only paths of
its category (:mod:`rightlab.home.ownership`), and never follows a symlink that an agent could have put into
its own folder.
"""

import contextlib
import errno
import fcntl
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from rightlab.errors import HomeError, OwnershipError, RightlabError, UsageError
from rightlab.home.ownership import Category, category_of, find_home_root, guest_root_of, require

__all__ = [
    "append_line",
    "atomic_write",
    "create_file",
    "file_lock",
    "make_dir",
    "open_append",
    "remove",
    "rename_folder",
    "write_agent_owned",
    "write_failure",
    "write_merged",
    "write_regenerated",
]

_DIR = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def write_failure(error: OSError, path: Path) -> RightlabError:
    """``error`` as the one line people see: disk full, not writable, no such folder."""
    if error.errno in _FULL:
        return RightlabError("the disk is full", where=path, fix="Free some space and try again.")
    reason = os.strerror(error.errno).lower() if error.errno else str(error)
    kind = UsageError if find_home_root(path) is None else HomeError
    return kind(f"cannot be written: {reason}", where=path, fix="Check the folder's permissions.")


def atomic_write(path: str | os.PathLike[str], data: bytes | str, mode: int = 0o644) -> None:
    """Replace or create ``path`` with ``data`` (text is UTF-8); missing folders are made (0700 in a home).

    For runtime state, and for files outside every home that somebody asked for (exports, baselines).

    Raises:
        OwnershipError: a path in a home that is not registered as runtime state.
        RightlabError: disk full. UsageError: not writable (HomeError in a home).
    """
    target = _absolute(path)
    _replace(target, data, mode, require(target, Category.RUNTIME))


def write_regenerated(path: str | os.PathLike[str], data: bytes | str, mode: int = 0o644) -> bool:
    """Write a file that is ours alone; False when it already holds these bytes (then nothing is touched)."""
    target = _absolute(path)
    root = require(target, Category.REGENERATED)
    if _read(target, root) == _bytes(data):
        return False
    _replace(target, data, mode, root)
    return True


def write_merged(
    path: str | os.PathLike[str], merge: Callable[[bytes | None], bytes | str], mode: int | None = None
) -> bytes:
    """Read, merge and write back a file that others edit too, under a lock between processes.

    ``merge`` gets the present bytes (None when there is no file) and returns the new ones, which are also
    returned. An exception of ``merge`` passes through and leaves the file as it was.
    """
    target = _absolute(path)
    root = require(target, Category.MERGED)
    with file_lock(target):
        before = _read(target, root)
        after = _bytes(merge(before))
        if after != before:
            _replace(target, after, _mode_of(target) if mode is None else mode, root)
    return after


def write_agent_owned(
    path: str | os.PathLike[str], data: bytes | str, mode: int = 0o644, *, backup: bool = False
) -> bool:
    """Seed a file of the agent or of the person: written when absent, else left alone (returns False).

    With ``backup`` an existing file is replaced and its old bytes kept beside it as ``<name>.<UTC
    time>.bak``.
    """
    target = _absolute(path)
    root = require(target, Category.AGENT_OWNED)
    before = _read(target, root)
    if before is not None or os.path.lexists(target):
        if not backup or before == _bytes(data):
            return False
        if before is not None:
            stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%fZ")
            _replace(target.with_name(f"{target.name}.{stamp}.bak"), before, mode, root)
    _replace(target, data, mode, root)
    return True


def create_file(path: str | os.PathLike[str], data: bytes | str, mode: int = 0o644) -> None:
    """Make a new file of any registered category, for laying out a new folder; one that exists is refused."""
    target = _absolute(path)
    root = find_home_root(target)
    found = None if root is None else category_of(target.relative_to(root).as_posix())
    root = require(target, found or Category.RUNTIME)
    if os.path.lexists(target):
        raise OwnershipError("this file exists already", where=target)
    _replace(target, data, mode, root)


def rename_folder(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
    """Rename a folder durably beside itself; the target must not exist (an empty folder is replaced)."""
    old, new = _absolute(source), _absolute(target)
    try:
        os.rename(old, new)
        fd = os.open(new.parent, _DIR)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
    except OSError as error:
        raise write_failure(error, new) from error


def append_line(
    path: str | os.PathLike[str], data: bytes | str, mode: int = 0o600, *, sync: bool = False
) -> None:
    """Append one line (its newline is added) in one write, so lines of several processes do not mix.

    A torn last line, left by a crash, is ended first. ``sync`` waits until it is on disk.
    """
    line = _bytes(data)
    target = _absolute(path)
    with open_append(target, mode) as stream:
        try:
            # Freed with the descriptor: another process's line may be half there when ours looks at the end.
            fcntl.flock(stream.fileno(), fcntl.LOCK_EX)
            size = os.fstat(stream.fileno()).st_size
            torn = size > 0 and os.pread(stream.fileno(), 1, size - 1) != b"\n"
            _write_all(stream.fileno(), (b"\n" if torn else b"") + line.removesuffix(b"\n") + b"\n")
            if sync:
                os.fsync(stream.fileno())
        except OSError as error:
            raise write_failure(error, target) from error


def open_append(path: str | os.PathLike[str], mode: int = 0o600) -> BinaryIO:
    """An unbuffered binary stream that only appends, for logs and for the output of child processes."""
    target = _absolute(path)
    root = require(target, Category.RUNTIME)
    try:
        with _folder(target, root) as folder:
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | (os.O_NOFOLLOW if root else 0)
            return open(os.open(target.name, flags, mode, dir_fd=folder), "ab", buffering=0)
    except OSError as error:
        raise write_failure(error, target) from error


def make_dir(path: str | os.PathLike[str], mode: int | None = None) -> Path:
    """Make a folder and its missing parents (0700 in a home); one that exists is fine. Returns it."""
    target = _absolute(path)
    try:
        with _folder(target / "x", find_home_root(target), mode):
            return target
    except OSError as error:
        raise write_failure(error, target) from error


def remove(path: str | os.PathLike[str]) -> bool:
    """Delete one file or link durably (the folder is synced); False when there was none."""
    target = _absolute(path)
    try:
        with _folder(target, find_home_root(target), create=False) as folder:
            os.unlink(target.name, dir_fd=folder)
            os.fsync(folder)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise write_failure(error, target) from error
    return True


@contextlib.contextmanager
def file_lock(path: str | os.PathLike[str], timeout: float = 10.0) -> Iterator[None]:
    """Hold the lock of ``path`` against other threads and processes.

    In a home the lock file lies in ``run/.locks``, out of the reach of agents; elsewhere beside the file.

    Raises:
        RightlabError: another process kept it for ``timeout`` seconds.
    """
    from filelock import FileLock, Timeout

    target = _absolute(path)
    root = find_home_root(target)
    if root is None:
        place = make_dir(target.parent) / f".{target.name}.lock"
    else:
        name = target.relative_to(root).as_posix().replace("/", "+")
        place = make_dir(root / "run" / ".locks") / f"{name[-200:]}.lock"
    lock = FileLock(place, timeout=timeout, mode=0o600)
    try:
        lock.acquire()
    except Timeout:
        raise RightlabError(
            "another process is writing this file", where=target, fix="Wait for it to finish and try again."
        ) from None
    except OSError as error:
        raise write_failure(error, target) from error
    try:
        yield
    finally:
        lock.release()


def _absolute(path: str | os.PathLike[str]) -> Path:
    return Path(os.path.abspath(path))


def _bytes(data: bytes | str) -> bytes:
    return data.encode() if isinstance(data, str) else data


def _mode_of(path: Path) -> int:
    try:
        return stat.S_IMODE(os.lstat(path).st_mode)
    except FileNotFoundError:
        return 0o644


def _make_dirs(folder: Path, mode: int) -> None:
    """As ``os.makedirs``, which gives the mode to the last folder only."""
    missing = []
    while not folder.is_dir():
        missing.append(folder)
        folder = folder.parent
    for new in reversed(missing):
        with contextlib.suppress(FileExistsError):
            os.mkdir(new, mode)


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


@contextlib.contextmanager
def _folder(path: Path, root: Path | None, mode: int | None = None, *, create: bool = True) -> Iterator[int]:
    """A descriptor of the folder of ``path``; below a guest root no component may be a symlink."""
    guest = guest_root_of(path, root) if root else None
    base = guest or path.parent
    wanted = mode if mode is not None else 0o700 if root else 0o777
    if create:
        _make_dirs(base, 0o700 if guest else wanted)
    fd = os.open(base, _DIR)
    try:
        for name in path.parent.relative_to(base).parts:
            if create:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, wanted, dir_fd=fd)
            try:
                deeper = os.open(name, _DIR | os.O_NOFOLLOW, dir_fd=fd)
            except OSError as error:
                if error.errno in (errno.ELOOP, errno.ENOTDIR):
                    raise OwnershipError(f"{name} is not a plain folder", where=path.parent) from None
                raise
            os.close(fd)
            fd = deeper
        yield fd
    finally:
        os.close(fd)


def _read(path: Path, root: Path | None) -> bytes | None:
    """The bytes of a regular file; None when there is none (in a home a symlink is none)."""
    try:
        with _folder(path, root, create=False) as folder:
            flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (os.O_NOFOLLOW if root else 0)
            fd = os.open(path.name, flags, dir_fd=folder)
            with open(fd, "rb") as stream:
                return stream.read() if stat.S_ISREG(os.fstat(fd).st_mode) else None
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ELOOP, errno.EISDIR, errno.ENXIO):
            return None
        raise HomeError(f"cannot be read: {os.strerror(error.errno or 0).lower()}", where=path) from error


def _replace(path: Path, data: bytes | str, mode: int, root: Path | None) -> None:
    temporary = f".{path.name[:80]}.{secrets.token_hex(6)}.tmp"
    try:
        with _folder(path, root) as folder:
            fd = os.open(
                temporary,
                os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW,
                mode,
                dir_fd=folder,
            )
            try:
                try:
                    os.fchmod(fd, mode)
                    _write_all(fd, _bytes(data))
                    os.fsync(fd)
                finally:
                    os.close(fd)
                os.replace(temporary, path.name, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(temporary, dir_fd=folder)
                raise
            os.fsync(folder)
    except OSError as error:
        raise write_failure(error, path) from error
