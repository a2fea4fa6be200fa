"""Which addresses a guest may reach: public ones only, and none of this machine (contract, network_policy).

The lists are the IANA special-purpose registries (RFC 6890 and its updates) written out, since what
``ipaddress`` calls global changes between Python versions.
"""

import contextlib
import errno
import ipaddress
import re
import socket
from collections.abc import Iterator

__all__ = ["forbidden", "literal_address", "normal_host", "split_authority"]

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_V4 = tuple(
    (ipaddress.IPv4Network(net), reason)
    for net, reason in (
        ("0.0.0.0/32", "unspecified"),
        ("0.0.0.0/8", "this network"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "carrier-grade NAT"),
        ("127.0.0.0/8", "loopback"),
        ("169.254.169.254/32", "metadata"),
        ("169.254.0.0/16", "link-local"),
        ("172.16.0.0/12", "private"),
        ("168.63.129.16/32", "metadata"),
        ("192.0.0.0/24", "reserved"),
        ("192.0.2.0/24", "documentation"),
        ("192.88.99.0/24", "reserved"),
        ("192.168.0.0/16", "private"),
        ("198.18.0.0/15", "benchmarking"),
        ("198.51.100.0/24", "documentation"),
        ("203.0.113.0/24", "documentation"),
        ("224.0.0.0/4", "multicast"),
        ("255.255.255.255/32", "broadcast"),
        ("240.0.0.0/4", "reserved"),
    )
)
_V6 = tuple(
    (ipaddress.IPv6Network(net), reason)
    for net, reason in (
        ("::/128", "unspecified"),
        ("::1/128", "loopback"),
        ("fd00:ec2::254/128", "metadata"),
        ("fc00::/7", "private"),
        ("fe80::/10", "link-local"),
        ("fec0::/10", "site-local"),
        ("ff00::/8", "multicast"),
        ("2001::/23", "reserved"),
        ("2001:db8::/32", "documentation"),
        ("3fff::/20", "documentation"),
        ("5f00::/16", "reserved"),
    )
)
_GLOBAL_V6 = ipaddress.IPv6Network("2000::/3")
_CARRIES_LAST_V4 = (
    ipaddress.IPv6Network("::ffff:0:0/96"),
    ipaddress.IPv6Network("::ffff:0:0:0/96"),
    ipaddress.IPv6Network("64:ff9b::/96"),
)
"""IPv4-mapped, IPv4-translated, NAT64: the last 32 bits are the IPv4 address that is really reached."""
_SIXTO4 = ipaddress.IPv6Network("2002::/16")
_HOST = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*")
_NUMERIC = re.compile(r"(0x[0-9a-f]*|[0-9]+)(\.(0x[0-9a-f]*|[0-9]+))*")


def _embedded(address: ipaddress.IPv6Address) -> Iterator[ipaddress.IPv4Address]:
    value = int(address)
    if any(address in net for net in _CARRIES_LAST_V4):
        yield ipaddress.IPv4Address(value & 0xFFFFFFFF)
    if address in _SIXTO4:
        yield ipaddress.IPv4Address(value >> 80 & 0xFFFFFFFF)
    if value >> 32 & 0xFFFFFFFF in (0x00005EFE, 0x02005EFE):  # ISATAP, RFC 5214
        yield ipaddress.IPv4Address(value & 0xFFFFFFFF)


def forbidden(text: str, *, own: bool = True) -> str | None:
    """Why the address ``text`` must not be reached, in a word or two; None when it may.

    ``own=False`` leaves out the question to the kernel whether it is one of this machine's addresses.
    """
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return "not an address"
    if isinstance(address, ipaddress.IPv6Address):
        if address.scope_id is not None:
            return "link-local"
        reason = next((reason for net, reason in _V6 if address in net), None)
        if reason:
            return reason
        inner = list(_embedded(address))
        for v4 in inner:
            reason = forbidden(str(v4), own=own)
            if reason:
                return reason
        if address not in _GLOBAL_V6 and not inner:
            return "reserved"
    else:
        reason = next((reason for net, reason in _V4 if address in net), None)
        if reason:
            return reason
    return "an address of this machine" if own and _is_own(address) else None


def _is_own(address: Address) -> bool:
    """Asked of the routing table: a packet to an address of ours would carry that address as its source.

    Broadcast addresses of our networks count as ours (the kernel answers EACCES for them).
    """
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((str(address), 9))
            return ipaddress.ip_address(str(probe.getsockname()[0]).partition("%")[0]) == address
    except OSError as error:
        return error.errno in (errno.EACCES, errno.EPERM)


def normal_host(host: str) -> str:
    """``host`` in lower case without its final dot. Raises ValueError: no host name and no address."""
    text = host.lower()
    if text.endswith(".") and not text.endswith(".."):
        text = text[:-1]
    if ":" in text:
        address = ipaddress.IPv6Address(text)  # raises its own ValueError
        if address.scope_id is not None:
            raise ValueError("an address with a zone")
        return str(address)
    if len(text) > 253 or not _HOST.fullmatch(text):
        raise ValueError("not a host name")
    return text


def literal_address(host: str) -> str | None:
    """The address a host stands for by its spelling alone, also as ``0x7f000001``, ``2130706433``, ``127.1``.

    Raises ValueError for one spelled only with numbers that stands for no address.
    """
    if ":" in host:
        return str(ipaddress.IPv6Address(host))
    if not _NUMERIC.fullmatch(host):
        return None
    with contextlib.suppress(OSError):
        return socket.inet_ntoa(socket.inet_aton(host))
    raise ValueError("not an address")


def split_authority(text: str, default_port: int | None) -> tuple[str, int]:
    """``host:port``, ``[v6]:port`` or, with a default, ``host``. Raises ValueError: not of that form."""
    found = re.fullmatch(r"(?:\[([0-9A-Fa-f:.]+)\]|([^\[\]:@/\s%]+))(?::([0-9]{1,5}))?", text, re.ASCII)
    if found is None:
        raise ValueError("not host:port")
    if found[3] is None and default_port is None:
        raise ValueError("no port")
    port = int(found[3]) if found[3] is not None else int(default_port or 0)
    if not 1 <= port <= 65535:
        raise ValueError("no such port")
    if found[1] is not None and ":" not in found[1]:
        raise ValueError("not an IPv6 address")
    return normal_host(found[1] or found[2]), port
