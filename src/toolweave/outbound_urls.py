"""Read URLs of strangers so that what is checked is what is connected to (W-09).

Parsers differ, and attacks live in the differences. So a URL is taken apart once, strictly, and the request is put
together from these parts: nobody parses the text a second time.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address
from typing import Literal, cast

import httpx

from toolweave.config.outbound_allow import HOST_NAME, NUMBER
from toolweave.errors import OutboundRefused

Scheme = Literal["http", "https"]
MOST_CHARACTERS = 8192
_PARTS = re.compile(r"(?P<scheme>https?)://(?P<authority>[^/?#]*)(?P<rest>.*)", re.IGNORECASE | re.DOTALL)
_AUTHORITY = re.compile(r"(?P<host>\[[^\]]*\]|[^:\[\]]*)(?::(?P<port>[0-9]{0,5}))?")
_DEFAULT_PORTS: dict[str, int] = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class OutboundTarget:
    """Where a request goes: `host` is a lower-case ASCII name or the text of `address`; `path` includes the query."""

    scheme: Scheme
    host: str
    port: int
    path: str
    address: IPv4Address | IPv6Address | None

    @property
    def origin(self) -> tuple[str, str, int]:
        """Give what makes two URLs the same peer."""
        return self.scheme, self.host, self.port

    @property
    def authority(self) -> str:
        """Give host and port as the Host header has them."""
        host = f"[{self.host}]" if isinstance(self.address, IPv6Address) else self.host
        return host if self.port == _DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """Put the parts together again."""
        return f"{self.scheme}://{self.authority}{self.path}"


@lru_cache(maxsize=256)
def read_target(url: str) -> OutboundTarget:
    """Take a URL apart.

    Raises:
        OutboundRefused: it is not an http or https URL, carries credentials, or could be read in two ways.
    """
    if len(url) > MOST_CHARACTERS:
        raise OutboundRefused(f"The URL is longer than {MOST_CHARACTERS} characters.")
    # Of all blanks, the space alone counts as printable.
    if "\\" in url or " " in url or not url.isprintable():
        raise OutboundRefused("The URL holds a blank, a backslash or a control character; write them percent-encoded.")
    parts = _PARTS.fullmatch(url)
    if parts is None:
        raise OutboundRefused("Only URLs that begin with http:// or https:// are requested.")
    scheme = cast("Scheme", parts["scheme"].lower())
    host, port = _split(parts["authority"])
    address = _address(host)
    name = str(address) if address else _name(host)
    return OutboundTarget(scheme, name, port or _DEFAULT_PORTS[scheme], _path(parts["rest"]), address)


def _split(authority: str) -> tuple[str, int | None]:
    if "@" in authority:
        raise OutboundRefused("The URL holds credentials (name@host); URLs are logged and shown, so leave them out.")
    found = _AUTHORITY.fullmatch(authority)
    if found is None or not found["host"]:
        raise OutboundRefused("The URL names no host.")
    port = int(found["port"]) if found["port"] else None
    if port is not None and not 0 < port < 65536:
        raise OutboundRefused("The URL's port is not between 1 and 65535.")
    return found["host"], port


def _address(host: str) -> IPv4Address | IPv6Address | None:
    """Read an address in its one plain spelling; None for a name."""
    if host.startswith("["):
        try:
            inside = host[1:-1]
            return IPv6Address(inside if "%" not in inside else "")
        except ValueError:
            raise OutboundRefused("The URL's host in brackets is not an IPv6 address (without a zone).") from None
    ascii_host = _ascii(host)
    if not NUMBER.fullmatch(ascii_host.rpartition(".")[2]):
        return None
    try:
        return IPv4Address(ascii_host)
    except ValueError:
        raise OutboundRefused(
            "The URL's host is an IPv4 address in an unusual spelling; write it as four decimal numbers."
        ) from None


def _name(host: str) -> str:
    name = _ascii(host)
    if not HOST_NAME.fullmatch(name):
        raise OutboundRefused("The URL's host is not a valid host name.")
    return name


def _ascii(host: str) -> str:
    """Give a host as it is looked up: lower case, international names in their xn-- form, without the final dot."""
    if not host.isascii():
        try:
            host = httpx.URL(f"http://{host}").raw_host.decode("ascii")
        except (httpx.InvalidURL, UnicodeError):
            raise OutboundRefused("The URL's host is not a valid international host name.") from None
    return host.lower().removesuffix(".")


def _path(rest: str) -> str:
    before_fragment = rest.partition("#")[0]
    with_path = before_fragment if before_fragment.startswith("/") else f"/{before_fragment}"
    try:
        return httpx.URL(f"http://host{with_path}").raw_path.decode("ascii")
    except (httpx.InvalidURL, UnicodeError):
        raise OutboundRefused("The URL's path cannot be written in a request.") from None
