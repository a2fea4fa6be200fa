"""Which addresses are public, whatever they are spelled like."""

import ipaddress
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightlab.sandbox.addresses import forbidden, literal_address, normal_host, split_authority


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("127.0.0.1", "loopback"),
        ("127.8.9.1", "loopback"),
        ("0.0.0.0", "unspecified"),
        ("0.1.2.3", "this network"),
        ("10.0.0.1", "private"),
        ("172.16.0.1", "private"),
        ("172.31.255.255", "private"),
        ("192.168.1.1", "private"),
        ("100.64.0.1", "carrier-grade NAT"),
        ("100.100.100.200", "carrier-grade NAT"),
        ("169.254.169.254", "metadata"),
        ("168.63.129.16", "metadata"),
        ("169.254.1.1", "link-local"),
        ("224.0.0.251", "multicast"),
        ("239.255.255.250", "multicast"),
        ("240.0.0.1", "reserved"),
        ("255.255.255.255", "broadcast"),
        ("198.18.0.1", "benchmarking"),
        ("192.0.2.1", "documentation"),
        ("::", "unspecified"),
        ("::1", "loopback"),
        ("::127.0.0.1", "reserved"),
        ("::ffff:127.0.0.1", "loopback"),
        ("::ffff:7f00:1", "loopback"),
        ("::ffff:169.254.169.254", "metadata"),
        ("64:ff9b::10.0.0.1", "private"),
        ("64:ff9b:1::808:808", "reserved"),
        ("2002:7f00:1::1", "loopback"),
        ("2002:c0a8:101::1", "private"),
        ("2001:0:4136:e378:8000:63bf:3fff:fdd2", "reserved"),
        ("2606:4700::5efe:127.0.0.1", "loopback"),
        ("fe80::1", "link-local"),
        ("fe80::1%eth0", "link-local"),
        ("fec0::1", "site-local"),
        ("fc00::1", "private"),
        ("fd00:ec2::254", "metadata"),
        ("ff02::1", "multicast"),
        ("2001:db8::1", "documentation"),
        ("100::1", "reserved"),
        ("banana", "not an address"),
    ],
)
def test_not_public(address: str, reason: str) -> None:
    assert forbidden(address, own=False) == reason


@pytest.mark.parametrize(
    "address",
    [
        "1.1.1.1",
        "8.8.8.8",
        "160.79.104.10",
        "172.32.0.1",
        "100.128.0.1",
        "2606:4700:4700::1111",
        "64:ff9b::808:808",
    ],
)
def test_public(address: str) -> None:
    assert forbidden(address, own=False) is None


def test_addresses_of_this_machine_are_refused() -> None:
    """The kernel is asked, so a public address on an interface counts as well."""
    from rightlab.sandbox.addresses import _is_own

    assert _is_own(ipaddress.ip_address("127.0.0.1"))
    assert not _is_own(ipaddress.ip_address("1.1.1.1"))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("1.1.1.1", 9))
            mine = probe.getsockname()[0]
        except OSError:
            mine = "127.0.0.1"
    assert _is_own(ipaddress.ip_address(mine))


@given(st.ip_addresses(v=4))
def test_nothing_python_calls_private_is_public(address: ipaddress.IPv4Address) -> None:
    if address.is_private or address.is_loopback or address.is_multicast or address.is_reserved:
        # 192.0.0.9/32 and /10 are global by RFC 7723 and 8155; nobody needs them from here.
        assert forbidden(str(address), own=False) is not None
    mapped = f"::ffff:{address}"
    assert (forbidden(mapped, own=False) is None) == (forbidden(str(address), own=False) is None)


@given(st.ip_addresses(v=6))
def test_no_v6_outside_global_unicast(address: ipaddress.IPv6Address) -> None:
    if not address.is_global or address.is_multicast:
        inner = address.ipv4_mapped
        assert forbidden(str(address), own=False) is not None or (inner is not None and inner.is_global)


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("0x7f000001", "127.0.0.1"),
        ("2130706433", "127.0.0.1"),
        ("017700000001", "127.0.0.1"),
        ("127.1", "127.0.0.1"),
        ("0177.0.0.1", "127.0.0.1"),
        ("0x7f.0x0.0.1", "127.0.0.1"),
        ("0", "0.0.0.0"),
        ("::ffff:7f00:1", "::ffff:7f00:1"),
        ("example.com", None),
        ("1.example", None),
    ],
)
def test_spellings_of_an_address(host: str, address: str | None) -> None:
    assert literal_address(host) == address


@pytest.mark.parametrize("host", ["1.2.3.4.5", "99999999999", "256.1.1.1", "0x"])
def test_numbers_that_are_no_address(host: str) -> None:
    with pytest.raises(ValueError, match="not an address"):
        literal_address(host)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("example.com:443", ("example.com", 443)),
        ("EXAMPLE.com.:443", ("example.com", 443)),
        ("[::1]:80", ("::1", 80)),
        ("[2606:4700:0:0::1111]:443", ("2606:4700::1111", 443)),
        ("127.0.0.1:65535", ("127.0.0.1", 65535)),
    ],
)
def test_authority(text: str, found: tuple[str, int]) -> None:
    assert split_authority(text, None) == found


@pytest.mark.parametrize(
    "text",
    [
        "example.com",
        "example.com:0",
        "example.com:65536",
        "example.com:４４３",
        "user@example.com:443",
        "::1:80",
        "[fe80::1%25eth0]:80",
        "[127.0.0.1]:80",
        "[::1:80",
        "exa mple.com:80",
        "exa\0mple.com:80",
        "-bad.example:80",
        "..:80",
        ":80",
        "a" * 64 + ".example:80",
    ],
)
def test_no_authority(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        split_authority(text, None)


@given(st.text(max_size=80))
def test_any_text_is_a_host_or_a_value_error(text: str) -> None:
    try:
        host = normal_host(text)
    except ValueError:
        return
    assert normal_host(host) == host
    assert host.isascii()
    assert not host.endswith(".")
