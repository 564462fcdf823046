"""Read TOOLWEAVE_OUTBOUND_ALLOW: hosts and addresses that the outbound policy lets requests go to (W-09)."""

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any

_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
HOST_NAME = re.compile(rf"(?=.{{1,253}}$){_LABEL}(?:\.{_LABEL})*")
# The last label of a name: a host that ends in such a one is taken for an IPv4 address by some programs.
NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_ENTRY = re.compile(r"(?P<place>\[[^\]]*\]|[^:]*|.*:.*:.*?)(?::(?P<port>[0-9]{1,5}))?")


@dataclass(frozen=True, slots=True)
class AllowedTarget:
    """A host by name, or a network of addresses; `port` None stands for every port."""

    place: str | IPv4Network | IPv6Network
    port: int | None = None

    def covers_host(self, host: str, port: int) -> bool:
        """Say whether this names the host, a lower-case name, at this port."""
        return self.place == host and self.port in (None, port)

    def covers_address(self, address: IPv4Address | IPv6Address, port: int) -> bool:
        """Say whether this network holds the address, at this port."""
        return not isinstance(self.place, str) and address in self.place and self.port in (None, port)


def allowed_targets(value: Any) -> Any:
    """Split at commas; each part is a host or an address, also with a port, or a network such as `10.0.0.0/8`."""
    if isinstance(value, str):
        value = [part.strip() for part in value.split(",") if part.strip()]
    if not isinstance(value, list | tuple):
        return value
    return tuple(entry if isinstance(entry, AllowedTarget) else allowed_target(str(entry)) for entry in value)


def allowed_target(text: str) -> AllowedTarget:
    """Read one entry; raises ValueError, without repeating it."""
    entry = text.lower()
    network = _network(entry)
    if network is not None:
        return AllowedTarget(network)
    found = _ENTRY.fullmatch(entry)
    port = None if found is None or found["port"] is None else int(found["port"])
    if found is None or (port is not None and not 0 < port < 65536):
        raise _wrong()
    place = found["place"]
    if place.startswith("[") and place.endswith("]"):
        return AllowedTarget(_address(place[1:-1]), port)
    name = place.removesuffix(".")
    if not HOST_NAME.fullmatch(name) or ":" in place:
        raise _wrong()
    return AllowedTarget(_address(name) if NUMBER.fullmatch(name.rpartition(".")[2]) else name, port)


def _network(text: str) -> IPv4Network | IPv6Network | None:
    if "/" not in text and text.count(":") < 2:
        return None
    try:
        return ip_network(text) if "%" not in text else None
    except ValueError:
        return None


def _address(text: str) -> IPv4Network | IPv6Network:
    try:
        return ip_network(ip_address(text if "%" not in text else ""))
    except ValueError:
        raise _wrong() from None


def _wrong() -> ValueError:
    return ValueError(
        "each entry must be a host, host:port, an address such as 10.0.0.5 or [fd00::1]:8080, or a network such as "
        "10.0.0.0/8, separated by commas; hosts with other than ASCII letters in their xn-- form"
    )
