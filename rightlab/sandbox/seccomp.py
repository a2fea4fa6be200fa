"""The system calls a guest does not get, as a seccomp program for bwrap.

Namespaces do not cover everything: an ``AF_VSOCK`` socket reaches the hypervisor and other machines on it from
any network namespace, ``io_uring`` makes sockets without the ``socket`` call, and with root on the host the
guest's uid is the kernel's uid 0 for keyrings and BPF.
"""

import errno
import platform
import struct

from rightlab.errors import SandboxError

__all__ = ["FAMILIES", "program"]

FAMILIES = (1, 2, 10, 16)
"""The socket families a guest may use: unix, inet, inet6, netlink."""

_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06  # BPF_LD|W|ABS, JMP|JEQ|K, JMP|JGE|K, RET|K
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_NUMBER, _ARCH, _FIRST_ARGUMENT = 0, 4, 16  # offsets in struct seccomp_data, little endian

_MACHINES = {
    "x86_64": (0xC000003E, {"socket": 41, "add_key": 248, "request_key": 249, "keyctl": 250, "perf": 298}),
    "aarch64": (0xC00000B7, {"socket": 198, "add_key": 217, "request_key": 218, "keyctl": 219, "perf": 241}),
}
_MORE = {
    "x86_64": {"bpf": 321, "userfaultfd": 323},
    "aarch64": {"bpf": 280, "userfaultfd": 282},
}
_URING = (425, 426, 427)
_X32 = 0x40000000


def program(machine: str | None = None) -> bytes:
    """The filter for this machine (``platform.machine()``), as bwrap's ``--seccomp`` reads it.

    Raises:
        SandboxError: a kind of machine whose system calls are not known here.
    """
    name = machine or platform.machine()
    if name not in _MACHINES:
        raise SandboxError(
            f"no system call filter for this kind of machine ({name})", fix="Use x86_64 or aarch64."
        )
    arch, numbers = _MACHINES[name]
    refused = [(number, errno.EPERM) for call, number in numbers.items() if call != "socket"]
    refused += [(number, errno.EPERM) for number in _MORE[name].values()]
    refused += [(number, errno.ENOSYS) for number in _URING]
    code: list[tuple[int, int, int, int]] = [
        (_LOAD, 0, 0, _ARCH),
        (_EQUAL, 1, 0, arch),
        _refuse(errno.ENOSYS),
    ]
    code.append((_LOAD, 0, 0, _NUMBER))
    if name == "x86_64":
        code += [(_AT_LEAST, 0, 1, _X32), _refuse(errno.ENOSYS)]
    for number, error in refused:
        code += [(_EQUAL, 0, 1, number), _refuse(error)]
    code += [(_EQUAL, 1, 0, numbers["socket"]), (_RETURN, 0, 0, _ALLOW), (_LOAD, 0, 0, _FIRST_ARGUMENT)]
    for family in FAMILIES:
        code += [(_EQUAL, 0, 1, family), (_RETURN, 0, 0, _ALLOW)]
    code.append(_refuse(errno.EAFNOSUPPORT))
    return b"".join(struct.pack("=HBBI", *line) for line in code)


def _refuse(error: int) -> tuple[int, int, int, int]:
    return (_RETURN, 0, 0, _ERRNO | error)
