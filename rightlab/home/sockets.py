"""Unix sockets whose paths may be longer than the 108 bytes the kernel takes.

A long path is reached through the open folder: ``/proc/self/fd/<n>/<name>`` is short however deep the folder
lies.
"""

import asyncio
import contextlib
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

from rightlab.errors import RightlabError, UsageError

__all__ = ["bind_unix", "connect_unix", "open_unix"]

_LIMIT = 107
"""Bytes of ``sun_path`` without its closing NUL (unix(7))."""


@contextlib.contextmanager
def _short(path: Path) -> Iterator[str]:
    text = os.path.abspath(path)
    if len(os.fsencode(text)) <= _LIMIT:
        yield text
        return
    if len(os.fsencode(path.name)) > 80:
        raise UsageError("the socket's own name is too long", where=path)
    fd = os.open(Path(text).parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{fd}/{path.name}"
    finally:
        os.close(fd)


def bind_unix(path: Path, mode: int = 0o600, backlog: int = 128) -> socket.socket:
    """A listening, non-blocking socket at ``path`` with these permissions; its folder is made (0700).

    A socket file that nobody answers on is replaced; one that somebody answers on, or a file that is no
    socket, is an error.

    Raises:
        RightlabError: the address is in use, or the folder cannot be written.
    """
    path = Path(os.path.abspath(path))
    try:
        os.makedirs(path.parent, 0o700, exist_ok=True)
        _clear_dead(path)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with _short(path) as address:
                # A socket takes its permissions from its descriptor when it is bound: no moment when it is
                # open to all.
                os.fchmod(listener.fileno(), mode)
                listener.bind(address)
                os.chmod(address, mode)
            listener.listen(backlog)
            listener.setblocking(False)
        except BaseException:
            listener.close()
            raise
    except OSError as error:
        reason = os.strerror(error.errno).lower() if error.errno else str(error)
        raise RightlabError(f"cannot listen here: {reason}", where=path) from error
    return listener


def _clear_dead(path: Path) -> None:
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise RightlabError("there is a file where the socket should be", where=path, fix="Move it away.")
    try:
        connect_unix(path, timeout=1.0).close()
    except ConnectionRefusedError:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        return
    except FileNotFoundError:
        return
    except OSError:
        pass
    raise RightlabError("somebody is listening here already", where=path, fix="Stop the other process first.")


def connect_unix(path: Path, timeout: float | None = 5.0) -> socket.socket:
    """A connected socket. ``timeout`` (seconds, None: none) stays set on it.

    Raises:
        OSError: nobody listens (FileNotFoundError, ConnectionRefusedError), or no answer in time
        (TimeoutError).
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(timeout)
        with _short(path) as address:
            connection.connect(address)
    except BaseException:
        connection.close()
        raise
    return connection


async def open_unix(
    path: Path, limit: int = 2**16, timeout: float | None = 5.0
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """The asyncio streams of a new connection; ``limit`` is the reader's buffer in bytes.

    Raises:
        OSError: as :func:`connect_unix`.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.setblocking(False)
        with _short(path) as address:
            await asyncio.wait_for(asyncio.get_running_loop().sock_connect(connection, address), timeout)
        return await asyncio.open_unix_connection(sock=connection, limit=limit)
    except BaseException:
        connection.close()
        raise
