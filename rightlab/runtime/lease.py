"""One owner per agent: an flock lease (design 7, spec jupyter 3.3).

The kernel of the machine frees the lock the moment its holder dies, however it dies. Python's descriptors are
not inherited by the children we start, so no child keeps it. The fencing token in ``data.db`` covers the rest: a
holder that was suspended and overtaken is refused at its next write.
"""

import fcntl
import os
from dataclasses import dataclass

from rightlab.errors import HomeError, OwnedElsewhere
from rightlab.home import AgentHome, make_dir
from rightlab.runtime.state import read_state

__all__ = ["Lease", "lease_is_held"]


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
        return cls(agent, fd)

    def release(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


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
    state = read_state(agent)
    return f"process {state.pid}" if state else "another process"
