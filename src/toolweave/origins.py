"""Parse Origin and Host headers strictly (T-08)."""

import ipaddress
import re

ORIGIN = re.compile(
    r"https?://(?:\[(?P<address>[0-9a-f:.]+)\]|(?P<name>[a-z0-9_-]+(?:\.[a-z0-9_-]+)*\.?))(?::(?P<port>[0-9]{1,5}))?"
)
MAX_PORT = 65_535


def is_loopback(name: str) -> bool:
    """Return whether a host name or address means this machine, without a DNS lookup."""
    name = name.lower().strip("[]")
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return address.is_loopback or (mapped is not None and mapped.is_loopback)


def host_name(host: str) -> str | None:
    """Return the name from a Host header in lower case; None if it is not a name with an optional port."""
    parts = split_origin(f"http://{host}")
    return None if parts is None or parts[1] != host.lower() else parts[0]


def split_origin(origin: str) -> tuple[str, str] | None:
    """Split an origin into its host name and its host:port, in lower case; None if it is not an origin.

    The whole text must match: `urlsplit` returns `[::1]` as the host of `http://[::1].evil.example`.
    """
    found = ORIGIN.fullmatch(origin.lower())
    if found is None or int(found["port"] or 0) > MAX_PORT:
        return None
    name = found["address"] or found["name"]
    if found["address"] and not _is_ipv6(name):
        return None
    return name, origin.lower().partition("://")[2]


def _is_ipv6(text: str) -> bool:
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True
