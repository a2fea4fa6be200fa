"""The system call filter, run by a small interpreter of its own."""

import errno
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightlab.errors import SandboxError
from rightlab.sandbox.seccomp import FAMILIES, program

ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
SOCKET = {"x86_64": 41, "aarch64": 198}
REFUSED = {
    "x86_64": {248, 249, 250, 298, 321, 323, 425, 426, 427},
    "aarch64": {217, 218, 219, 241, 280, 282, 425, 426, 427},
}


def verdict(code: bytes, arch: int, number: int, argument: int = 0) -> int:
    """0: allowed, else the error number."""
    data = struct.pack("<IIQQ", number, arch, 0, argument)
    lines = list(struct.iter_unpack("=HBBI", code))
    at = value = 0
    while True:
        op, yes, no, k = lines[at]
        at += 1
        if op == 0x20:
            (value,) = struct.unpack_from("<I", data, k)
        elif op == 0x15:
            at += yes if value == k else no
        elif op == 0x35:
            at += yes if value >= k else no
        elif op == 0x06:
            return 0 if k == 0x7FFF0000 else k & 0xFFFF
        else:
            raise AssertionError(op)


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_only_plain_socket_families(machine: str) -> None:
    code = program(machine)
    for family in range(64):
        expected = 0 if family in FAMILIES else errno.EAFNOSUPPORT
        assert verdict(code, ARCH[machine], SOCKET[machine], family) == expected
    assert 40 not in FAMILIES, "AF_VSOCK leads to the hypervisor whatever the namespace"
    assert verdict(code, ARCH[machine], SOCKET[machine], 2**32 + 2) == 0, (
        "the kernel takes the low 32 bits too"
    )


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
@given(number=st.integers(0, 600))
def test_all_other_calls_pass_and_the_listed_ones_do_not(machine: str, number: int) -> None:
    if number != SOCKET[machine]:
        assert (verdict(program(machine), ARCH[machine], number) != 0) is (number in REFUSED[machine])


def test_other_ways_to_name_a_call_are_refused() -> None:
    assert verdict(program("x86_64"), 0x40000003, 102) == errno.ENOSYS, "i386's socketcall"
    assert verdict(program("x86_64"), ARCH["x86_64"], 0x40000000 + 41, 40) == errno.ENOSYS, "x32"
    assert verdict(program("aarch64"), 0x40000028, 281) == errno.ENOSYS, "32-bit arm"


def test_an_unknown_machine_is_refused() -> None:
    with pytest.raises(SandboxError, match="sparc64"):
        program("sparc64")
