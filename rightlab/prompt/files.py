"""Reading a file of the guest as the guest script reads it (design 5).

What is not a regular file (symlink, folder, FIFO), cannot be read, or holds only ASCII white space is
missing. The guest can write its folder, so no component of the path may be a symlink: the host would follow
it outside.
"""

import os
import stat
from pathlib import PurePosixPath

from rightlab.errors import PromptError

__all__ = ["check_guest_path", "first_lines", "read_guest_file"]

_WHITE = b" \t\n\v\f\r"


def check_guest_path(path: str) -> str:
    """``path`` if it is relative, below the root and fit for a list of lines; else :class:`PromptError`."""
    parts = PurePosixPath(path).parts
    bad = (
        not path
        or path.startswith("/")
        or path != "/".join(parts)
        or any(part in ("..", ".") for part in parts)
    )
    if bad or any(ord(c) < 0x20 or 0xD800 <= ord(c) <= 0xDFFF or ord(c) == 0x7F for c in path):
        raise PromptError(
            f"{path!r} is not a path below the guest root",
            code="bad_path",
            fix="Name a file relative to the root.",
        )
    return path


def first_lines(data: bytes, count: int | None) -> bytes:
    """The first ``count`` lines (ended by LF) of ``data``; all of it for ``None``."""
    if count is None:
        return data
    end = -1
    for _ in range(count):
        end = data.find(b"\n", end + 1)
        if end < 0:
            return data
    return data[: end + 1]


def read_guest_file(root: str | os.PathLike[str], path: str, head: int | None = None) -> bytes | None:
    """The bytes of ``root/path`` (its first ``head`` lines), or ``None`` when it counts as missing."""
    descriptor = -1
    try:
        descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        *folders, name = path.split("/")
        for folder in folders:
            inner = os.open(
                folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=descriptor
            )
            os.close(descriptor)
            descriptor = inner
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        file = os.open(name, flags, dir_fd=descriptor)
    except OSError:
        return None
    finally:
        if descriptor >= 0:
            os.close(descriptor)
    try:
        data = _content(file)
    except OSError:
        return None
    finally:
        os.close(file)
    if data is None or not data.strip(_WHITE):
        return None
    return first_lines(data, head)


def _content(file: int) -> bytes | None:
    if not stat.S_ISREG(os.fstat(file).st_mode):
        return None
    with os.fdopen(file, "rb", closefd=False) as stream:
        return stream.read()
