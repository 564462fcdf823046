"""Parse the settings with hosts and URLs to which an operator allows requests.

* TOOLWEAVE_OUTBOUND_ALLOW: hosts and addresses that the outbound policy allows (W-09).
* TOOLWEAVE_JOB_ENDPOINTS, TOOLWEAVE_JOB_HEADERS: URLs at which jobs may run, and the headers of their requests (C-04).
  An entry allows its URL and all paths below it: `https://jobs.example.org/v1` covers `/v1/report`, not `/v10`.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any, Literal, cast
from urllib.parse import quote, unquote

from pydantic import SecretStr

_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
HOST_NAME = re.compile(rf"(?=.{{1,253}}$){_LABEL}(?:\.{_LABEL})*")
# Some programs parse a host whose last label matches as an IPv4 address.
NUMERIC_LABEL = re.compile(r"[0-9]+|0x[0-9a-f]*")
_HOST = re.compile(r"(?P<place>\[[^\]]*\]|[^:]*|.*:.*:.*?)(?::(?P<port>[0-9]{1,5}))?")


@dataclass(frozen=True, slots=True)
class AllowedTarget:
    """A host name or a network of addresses; `port` None means every port."""

    host: str | IPv4Network | IPv6Network
    port: int | None = None

    def covers(self, host: str, port: int, address: IPv4Address | IPv6Address | None) -> bool:
        """Return whether it matches the host (in lower case) or contains the address, at this port."""
        if self.port not in (None, port):
            return False
        if isinstance(self.host, str):
            return self.host == host
        return address is not None and address in self.host


def comma_separated(read: Callable[[str], Any]) -> Callable[[Any], Any]:
    """Return a parser for a setting with entries separated by commas; `read` parses one entry."""

    def read_all(value: Any) -> Any:
        if isinstance(value, str):
            value = [part.strip() for part in value.split(",") if part.strip()]
        if not isinstance(value, list | tuple):
            return value
        return tuple(read(part) if isinstance(part, str) else part for part in value)

    return read_all


def parse_allowed_target(text: str) -> AllowedTarget:
    """Parse one entry; raises ValueError without quoting it."""
    entry = text.lower()
    network = _parse_network(entry)
    if network is not None:
        return AllowedTarget(network)
    found = _HOST.fullmatch(entry)
    port = None if found is None or found["port"] is None else int(found["port"])
    if found is None or (port is not None and not 0 < port < 65536):
        raise _host_error()
    host = found["place"]
    if host.startswith("[") and host.endswith("]"):
        return AllowedTarget(_parse_address(host[1:-1]), port)
    name = host.removesuffix(".")
    if not HOST_NAME.fullmatch(name) or ":" in host:
        raise _host_error()
    return AllowedTarget(_parse_address(name) if NUMERIC_LABEL.fullmatch(name.rpartition(".")[2]) else name, port)


# Each entry is a host or an address, optionally with a port, or a network such as `10.0.0.0/8`.
allowed_targets = comma_separated(parse_allowed_target)


def _parse_network(text: str) -> IPv4Network | IPv6Network | None:
    if "/" not in text and text.count(":") < 2:
        return None
    try:
        return ip_network(text) if "%" not in text else None
    except ValueError:
        return None


def _parse_address(text: str) -> IPv4Network | IPv6Network:
    try:
        return ip_network(ip_address(text if "%" not in text else ""))
    except ValueError:
        raise _host_error() from None


def _host_error() -> ValueError:
    return ValueError(
        "each entry must be a host, host:port, an address such as 10.0.0.5 or [fd00::1]:8080, or a network such as "
        "10.0.0.0/8, separated by commas; hosts with other than ASCII letters in their xn-- form"
    )


Scheme = Literal["http", "https"]
DEFAULT_PORTS: dict[str, int] = {"http": 80, "https": 443}
_URL = re.compile(r"(?P<scheme>https?)://(?P<authority>[^/?#@\\\s]+)(?P<path>/[^?#\\\s]*)?", re.IGNORECASE)
HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# Servers and proxies interpret these differently, or as path separators.
_AMBIGUOUS_CHARS = re.compile(r"[/\\%?#\x00-\x1f\x7f]")
_AMBIGUOUS = "A segment of its path is empty, a dot segment, or contains an encoded separator or control character."
# Only the HTTP client may set these: otherwise a request could be routed to another host or split into two.
_CONNECTION_HEADERS = frozenset(
    {"accept-encoding", "connection", "content-length", "expect", "host"}
    | {"keep-alive", "te", "trailer", "transfer-encoding", "upgrade"}
)
_RESERVED_JOB_HEADERS = frozenset({"accept", "content-type", "idempotency-key"})
JOB_ENDPOINT_FORMAT = (
    "each entry must be an http:// or https:// URL without credentials, query, fragment, empty or dot segments, "
    "such as https://jobs.example.org/v1"
)
JOB_HEADERS_FORMAT = (
    "must be a JSON object that gives headers to URLs of TOOLWEAVE_JOB_ENDPOINTS, "
    'such as {"https://jobs.example.org/v1": {"Authorization": "Bearer value"}}'
)


@dataclass(frozen=True, slots=True)
class JobEndpoint:
    """A URL at or below which jobs may run; `segments` are the decoded segments of its path."""

    scheme: Scheme
    allowed_target: AllowedTarget
    segments: tuple[str, ...]
    url: str

    def covers(
        self, scheme: str, host: str, port: int, address: IPv4Address | IPv6Address | None, segments: tuple[str, ...]
    ) -> bool:
        """Return whether the URL with these parts is this one or below it; `host` is in lower case."""
        same_target = scheme == self.scheme and self.allowed_target.covers(host, port, address)
        return same_target and segments[: len(self.segments)] == self.segments


@dataclass(frozen=True, slots=True)
class JobHeaders:
    """Headers for requests to an endpoint and the paths below it; their values are secrets."""

    endpoint: JobEndpoint
    headers: tuple[tuple[str, SecretStr], ...] = field(repr=False)


def parse_job_endpoint(text: str) -> JobEndpoint:
    """Parse one entry; raises ValueError without quoting it."""
    found = _URL.fullmatch(text)
    if found is None or not text.isprintable():
        raise ValueError(JOB_ENDPOINT_FORMAT)
    scheme = cast("Scheme", found["scheme"].lower())
    authority = found["authority"].lower()
    with_port = authority if re.search(r":[0-9]*$", authority) else f"{authority}:{DEFAULT_PORTS[scheme]}"
    try:
        target = parse_allowed_target(with_port)
        segments = path_segments(found["path"] or "/")
    except ValueError:
        raise ValueError(JOB_ENDPOINT_FORMAT) from None
    path = "".join(f"/{quote(segment, safe='')}" for segment in segments)
    return JobEndpoint(scheme, target, segments, f"{scheme}://{authority}{path}")


# Each entry is a URL; all paths below it are allowed, too.
parse_job_endpoints = comma_separated(parse_job_endpoint)


def path_segments(path: str) -> tuple[str, ...]:
    """Return the decoded segments of a URL's path; a trailing slash is ignored.

    Raises:
        ValueError: the path is ambiguous: an empty segment, a dot segment, or an encoded separator.
    """
    if path in ("", "/"):
        return ()
    try:
        segments = tuple(unquote(segment, errors="strict") for segment in path[1:].removesuffix("/").split("/"))
    except UnicodeDecodeError:
        raise ValueError(_AMBIGUOUS) from None
    for segment in segments:
        # Some servers parse `..;x` as a dot segment, too.
        if segment.split(";")[0] in ("", ".", "..") or _AMBIGUOUS_CHARS.search(segment):
            raise ValueError(_AMBIGUOUS)
    return segments


def is_client_header(name: str) -> bool:
    """Return whether the HTTP client itself sets this header."""
    return name.lower() in _CONNECTION_HEADERS or name.lower().startswith("proxy-")


def parse_job_headers(value: Any) -> Any:
    """Parse a JSON object of endpoints, each with an object of headers; raises ValueError without quoting it."""
    if isinstance(value, tuple):
        return value
    try:
        parsed = json.loads(value) if isinstance(value, str) else value
        return tuple(JobHeaders(parse_job_endpoint(url), _parse_headers(headers)) for url, headers in parsed.items())
    except (ValueError, AttributeError, TypeError):
        raise ValueError(JOB_HEADERS_FORMAT) from None


def _parse_headers(headers: Any) -> tuple[tuple[str, SecretStr], ...]:
    for name, value in headers.items():
        ours = is_client_header(name) or name.lower() in _RESERVED_JOB_HEADERS
        if ours or not HEADER_NAME.fullmatch(name) or not (value.isascii() and value.isprintable() and value.strip()):
            raise ValueError
    if len({name.lower() for name in headers}) < len(headers):
        raise ValueError
    return tuple((name, SecretStr(value)) for name, value in headers.items())
