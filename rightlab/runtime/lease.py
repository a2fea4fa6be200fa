"""One owner per agent: an flock lease (design 7, spec jupyter 3.3).

The kernel of the machine frees the lock the moment its holder dies, however it dies. Python's descriptors are
not inherited by the children we start, so no child keeps it. The fencing token in ``data.db`` covers the rest: a
holder that was suspended and overtaken is refused at its next write.
"""

import contextlib
import fcntl
import os
from dataclasses import dataclass

from rightlab.errors import HomeError, OwnedElsewhere
from rightlab.home import AgentHome, make_dir
from rightlab.home.processes import is_alive, process_started

__all__ = ["Lease", "lease_holder", "lease_is_held"]


@dataclass
class Lease:
    """The held lease of one agent. :meth:`release` gives it back; so does the death of the process."""

    agent: AgentHome
    _fd: int

    @classmethod
    def acquire(cls, agent: AgentHome) -> "Lease":
        """Take the lease or raise :class:`OwnedElsewhere`, which says who has it."""
        while True:
            fd = _open(agent)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(fd)
                raise OwnedElsewhere(
                    f"agent {agent.name!r} is already run by {_holder(agent)}",
                    fix=f"Stop it there with `rightlab down {agent.name}`, or talk to it: commands find the owner.",
                ) from None
            if _is_there(agent, fd):
                break
            os.close(fd)  # the agent was destroyed and made again between open and lock
        _sign(fd)
        return cls(agent, fd)

    @property
    def intact(self) -> bool:
        """Whether the lease still is what others would find: its file was neither removed nor replaced."""
        return self._fd >= 0 and _is_there(self.agent, self._fd)

    def release(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _sign(fd: int) -> None:
    """Write into the lease who holds it, for when ``state.json`` is lost. A full disk must not stop an owner."""
    with contextlib.suppress(OSError):
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()} {process_started(os.getpid())}".encode(), 0)


def lease_holder(agent: AgentHome) -> int | None:
    """The process that holds the lease, None when nobody does or it cannot be told."""
    try:
        pid, started = agent.lease_path.read_text().split()
        found = int(pid)
    except (OSError, ValueError):
        return None
    return found if lease_is_held(agent) and is_alive(found, started) else None


def lease_is_held(agent: AgentHome) -> bool:
    """True while some process (this one included) owns the agent."""
    try:
        fd = os.open(agent.lease_path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    else:
        return False
    finally:
        os.close(fd)


def _open(agent: AgentHome) -> int:
    try:
        make_dir(agent.run_dir)
        return os.open(agent.lease_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise HomeError(
            f"cannot open the lease file ({error.strerror})",
            where=agent.lease_path,
            fix="Make the home folder writable or choose another with --home.",
        ) from error


def _is_there(agent: AgentHome, fd: int) -> bool:
    """Whether the lease's path still names the file behind ``fd``."""
    try:
        return os.path.samestat(os.stat(agent.lease_path), os.fstat(fd))
    except FileNotFoundError:
        return False


def _holder(agent: AgentHome) -> str:
    pid = lease_holder(agent)
    return f"process {pid}" if pid is not None else "another process"
