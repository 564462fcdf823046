"""Decide which URLs outbound requests may use (W-09).

Attacks use the differences between URL parsers. So a URL is parsed once, strictly, and the request is built from these
parts; no other parser reads the text. The table of non-public addresses follows IANA's special-purpose registries. IPv6
addresses that contain an IPv4 address are refused: a caller can write the IPv4 address itself.
"""

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import cast

import httpx

from toolweave.config.outbound_allow import DEFAULT_PORTS, HOST_NAME, NUMERIC_LABEL, AllowedTarget, Scheme
from toolweave.errors import OutboundFailed, OutboundRefused

MAX_URL_CHARS = 8192
_PARTS = re.compile(r"(?P<scheme>https?)://(?P<authority>[^/?#]*)(?P<rest>.*)", re.IGNORECASE | re.DOTALL)
_AUTHORITY = re.compile(r"(?P<host>\[[^\]]*\]|[^:\[\]]*)(?::(?P<port>[0-9]{0,5}))?")


@dataclass(frozen=True, slots=True)
class OutboundTarget:
    """A parsed URL: `host` is a lower-case ASCII name or the text of `address`; `path` includes the query."""

    scheme: Scheme
    host: str
    port: int
    path: str
    address: IPv4Address | IPv6Address | None

    @property
    def origin(self) -> tuple[str, str, int]:
        """Return scheme, host and port."""
        return self.scheme, self.host, self.port

    @property
    def authority(self) -> str:
        """Return host and port as in the Host header."""
        host = f"[{self.host}]" if isinstance(self.address, IPv6Address) else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def peer(self) -> AllowedTarget:
        """Return host and port as an entry of a policy."""
        return AllowedTarget(self.host if self.address is None else ip_network(self.address), self.port)

    @property
    def url(self) -> str:
        """Return the URL."""
        return f"{self.scheme}://{self.authority}{self.path}"


@lru_cache(maxsize=256)
def parse_target(url: str) -> OutboundTarget:
    """Parse a URL.

    Raises:
        OutboundRefused: it is not an http or https URL, contains credentials, or is ambiguous.
    """
    if len(url) > MAX_URL_CHARS:
        raise OutboundRefused(f"The URL is longer than {MAX_URL_CHARS} characters.")
    # `isprintable` is true for the space, but for no other blank.
    if "\\" in url or " " in url or not url.isprintable():
        raise OutboundRefused("The URL holds a blank, a backslash or a control character; write them percent-encoded.")
    parts = _PARTS.fullmatch(url)
    if parts is None:
        raise OutboundRefused("Only URLs that begin with http:// or https:// are requested.")
    scheme = cast("Scheme", parts["scheme"].lower())
    host, port = _parse_authority(parts["authority"])
    address = _parse_address(host)
    name = str(address) if address else _parse_name(host)
    return OutboundTarget(scheme, name, port or DEFAULT_PORTS[scheme], _encode_path(parts["rest"]), address)


def _parse_authority(authority: str) -> tuple[str, int | None]:
    if "@" in authority:
        raise OutboundRefused("The URL holds credentials (name@host); URLs are logged and shown, so leave them out.")
    found = _AUTHORITY.fullmatch(authority)
    if found is None or not found["host"]:
        raise OutboundRefused("The URL names no host.")
    port = int(found["port"]) if found["port"] else None
    if port is not None and not 0 < port < 65536:
        raise OutboundRefused("The URL's port is not between 1 and 65535.")
    return found["host"], port


def _parse_address(host: str) -> IPv4Address | IPv6Address | None:
    """Parse an address in its standard spelling; None for a name."""
    if host.startswith("["):
        try:
            inside = host[1:-1]
            return IPv6Address(inside if "%" not in inside else "")
        except ValueError:
            raise OutboundRefused("The URL's host in brackets is not an IPv6 address (without a zone).") from None
    ascii_host = _to_ascii(host)
    if not NUMERIC_LABEL.fullmatch(ascii_host.rpartition(".")[2]):
        return None
    try:
        return IPv4Address(ascii_host)
    except ValueError:
        raise OutboundRefused(
            "The URL's host is an IPv4 address in an unusual spelling; write it as four decimal numbers."
        ) from None


def _parse_name(host: str) -> str:
    name = _to_ascii(host)
    if not HOST_NAME.fullmatch(name):
        raise OutboundRefused("The URL's host is not a valid host name.")
    return name


def _to_ascii(host: str) -> str:
    """Return a host as DNS has it: lower case, international names in their xn-- form, without the final dot."""
    if not host.isascii():
        try:
            host = httpx.URL(f"http://{host}").raw_host.decode("ascii")
        except (httpx.InvalidURL, UnicodeError):
            raise OutboundRefused("The URL's host is not a valid international host name.") from None
    return host.lower().removesuffix(".")


def _encode_path(rest: str) -> str:
    before_fragment = rest.partition("#")[0]
    with_path = before_fragment if before_fragment.startswith("/") else f"/{before_fragment}"
    try:
        return httpx.URL(f"http://host{with_path}").raw_path.decode("ascii")
    except (httpx.InvalidURL, UnicodeError):
        raise OutboundRefused("The URL's path cannot be written in a request.") from None


Address = IPv4Address | IPv6Address
# The first network that contains an address determines its kind, so narrower networks come first.
_NOT_PUBLIC: tuple[tuple[str, str], ...] = (
    ("0.0.0.0/32", "the unspecified address"),
    ("0.0.0.0/8", "an address of this network itself"),
    ("10.0.0.0/8", "a private address"),
    ("100.64.0.0/10", "an address shared behind a provider's NAT"),
    ("127.0.0.0/8", "a loopback address"),
    ("168.63.129.16/32", "a cloud provider's internal address"),
    ("169.254.0.0/16", "a link-local address"),
    ("172.16.0.0/12", "a private address"),
    ("192.0.0.0/24", "an address reserved for protocols"),
    ("192.0.2.0/24", "an address for documentation"),
    ("192.88.99.0/24", "a 6to4 relay's address"),
    ("192.168.0.0/16", "a private address"),
    ("198.18.0.0/15", "an address for benchmarks"),
    ("198.51.100.0/24", "an address for documentation"),
    ("203.0.113.0/24", "an address for documentation"),
    ("224.0.0.0/4", "a multicast address"),
    ("255.255.255.255/32", "the broadcast address"),
    ("240.0.0.0/4", "a reserved address"),
    ("::/128", "the unspecified address"),
    ("::1/128", "a loopback address"),
    ("::ffff:0:0/96", "an IPv4 address written as an IPv6 one"),
    ("64:ff9b::/96", "an IPv4 address behind NAT64"),
    ("64:ff9b:1::/48", "an IPv4 address behind NAT64"),
    ("2001:db8::/32", "an address for documentation"),
    ("2001::/32", "a Teredo tunnel's address"),
    ("2001::/23", "an address reserved for protocols"),
    ("2002::/16", "a 6to4 tunnel's address"),
    ("3fff::/20", "an address for documentation"),
    ("fc00::/7", "a private address"),
    ("fe80::/10", "a link-local address"),
    ("fec0::/10", "a private address"),
    ("ff00::/8", "a multicast address"),
)
_GLOBAL_UNICAST = IPv6Network("2000::/3")


_NOT_PUBLIC_NETWORKS = [(ip_network(network), kind) for network, kind in _NOT_PUBLIC]


def non_public_kind(address: Address) -> str | None:
    """Return the kind of a non-public address, such as "a private address"; None for a public one."""
    for network, kind in _NOT_PUBLIC_NETWORKS:
        if address in network:
            return kind
    if isinstance(address, IPv6Address) and address not in _GLOBAL_UNICAST:
        return "a reserved address"
    return None


# Returns the addresses of a host name; raises OSError if there are none.
Resolver = Callable[[str, int], Awaitable[Sequence[str]]]
ALLOW_SETTING = "TOOLWEAVE_OUTBOUND_ALLOW"


@dataclass(frozen=True, slots=True)
class OutboundLimits:
    """Timeouts and sizes of a request; bodies are measured decompressed, `max_redirects` 0 follows no redirect."""

    connect_timeout_s: float = 5.0
    total_timeout_s: float = 30.0
    max_request_bytes: int = 10 * 1024 * 1024
    max_response_bytes: int = 10 * 1024 * 1024
    max_redirects: int = 5


async def resolve_host(host: str, port: int) -> Sequence[str]:
    """Resolve a name with the system's resolver."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in found]


@dataclass(frozen=True, slots=True)
class OutboundPolicy:
    """Allows requests to public http and https addresses, and to the operator's exceptions.

    `allow` is the setting: a host in it may have any address, and addresses in its networks count as public.
    `only` restricts requests to these hosts, such as a tool's own host; it does not make them public.
    """

    allow: tuple[AllowedTarget, ...] = ()
    only: tuple[AllowedTarget, ...] | None = None
    https_only: bool = False
    limits: OutboundLimits = OutboundLimits()
    resolver: Resolver = resolve_host

    async def check_url(self, url: str) -> OutboundTarget:
        """Check a URL without connecting; `OutboundClient.send` repeats this check.

        Raises:
            OutboundRefused: the policy does not allow the URL; the text has the fix.
            OutboundFailed: the host's name has no address now.
        """
        target = self.check_without_dns(url)
        await self.checked_addresses(target.host, target.port)
        return target

    def check_without_dns(self, url: str) -> OutboundTarget:
        """Check a URL without a DNS lookup. Raises OutboundRefused."""
        target = parse_target(url)
        if self.https_only and target.scheme != "https":
            raise OutboundRefused("The URL must begin with https://.")
        parts = target.host, target.port, target.address
        if self.only is not None and not any(entry.covers(*parts) for entry in self.only):
            # Do not name the host: a redirect's host can contain parts of the request, such as a secret.
            raise OutboundRefused("The URL's host is not the host that this request belongs to.")
        if target.address is not None:
            self._require_public(target.address, target.host, target.port)
        return target

    async def checked_addresses(self, host: str, port: int) -> list[str]:
        """Return the addresses of a host (a name or an address) after checking all of them.

        Raises:
            OutboundRefused: one of them is not allowed; then none of the lookup's addresses is used.
            OutboundFailed: there is none.
        """
        try:
            found = [ip_address(host)]
        except ValueError:
            found = await self._lookup(host, port)
        for address in found:
            self._require_public(address, host, port)
        return [str(address) for address in found]

    async def _lookup(self, host: str, port: int) -> list[Address]:
        try:
            async with asyncio.timeout(self.limits.connect_timeout_s):
                answers = await self.resolver(host, port)
        except (OSError, UnicodeError) as error:
            problem = "takes too long to resolve" if isinstance(error, TimeoutError) else "cannot be resolved"
            raise OutboundFailed(f"The host {host} {problem}.", reason="resolve") from error
        found = [ip_address(answer) for answer in dict.fromkeys(answers)]
        if not found:
            raise OutboundFailed(f"The host {host} has no address.", reason="resolve")
        return found

    def _require_public(self, address: Address, host: str, port: int) -> None:
        kind = non_public_kind(address)
        if kind is None or any(entry.covers(host, port, address) for entry in self.allow):
            return
        # Do not show the address: the caller must not learn the addresses of names in this network.
        shown = f"[{host}]" if ":" in host else host
        subject = f"{shown} is {kind}" if host == str(address) else f"{shown} stands for {kind}"
        raise OutboundRefused(
            f"Requests to {shown} are refused: {subject}. To allow it, the operator of this server adds "
            f"{shown} or {shown}:{port} to {ALLOW_SETTING}."
        )
