"""Read TOOLWEAVE_JOB_ENDPOINTS and TOOLWEAVE_JOB_HEADERS: which URLs jobs may be run at, and with which headers (C-04).

An entry allows its URL and what is below it: `https://jobs.example.org/v1` covers `/v1/report`, not `/v10`.
"""

import json
import re
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address
from typing import Any, Literal, cast
from urllib.parse import quote, unquote

from pydantic import SecretStr

from toolweave.config.outbound_allow import AllowedTarget, allowed_target

Scheme = Literal["http", "https"]

_DEFAULT_PORTS: dict[str, int] = {"http": 80, "https": 443}
_URL = re.compile(r"(?P<scheme>https?)://(?P<authority>[^/?#@\\\s]+)(?P<path>/[^?#\\\s]*)?", re.IGNORECASE)
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# Servers and proxies read these in different ways, or take them for a step in the path.
_TRICKS = re.compile(r"[/\\%?#\x00-\x1f\x7f]")
_TWO_WAYS = "A segment of its path is empty or a dot segment, or holds an encoded character that paths are read by."
_OUR_HEADERS = frozenset(
    {"accept", "accept-encoding", "connection", "content-length", "content-type", "host", "idempotency-key"}
    | {"expect", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"}
)
ENTRY = (
    "each entry must be an http:// or https:// URL without credentials, query, fragment, empty or dot segments, "
    "such as https://jobs.example.org/v1"
)
HEADERS = (
    "must be a JSON object that gives headers to URLs of TOOLWEAVE_JOB_ENDPOINTS, "
    'such as {"https://jobs.example.org/v1": {"Authorization": "Bearer value"}}'
)


@dataclass(frozen=True, slots=True)
class JobEndpoint:
    """A URL that jobs may be run at, or below; `segments` are those of its path, decoded."""

    scheme: Scheme
    place: AllowedTarget
    segments: tuple[str, ...]
    shown: str

    def covers(
        self, scheme: str, host: str, port: int, address: IPv4Address | IPv6Address | None, segments: tuple[str, ...]
    ) -> bool:
        """Say whether a URL, taken apart, is this one or below it; `host` is lower-case."""
        there = self.place.covers_host(host, port) if address is None else self.place.covers_address(address, port)
        return there and scheme == self.scheme and segments[: len(self.segments)] == self.segments


@dataclass(frozen=True, slots=True)
class JobHeaders:
    """Headers that go with requests to an endpoint and what is below it; their values are secrets."""

    endpoint: JobEndpoint
    headers: tuple[tuple[str, SecretStr], ...] = field(repr=False)


def read_job_endpoints(value: Any) -> Any:
    """Split at commas; each part is a URL that everything below it is allowed with."""
    if isinstance(value, str):
        value = [part.strip() for part in value.split(",") if part.strip()]
    if not isinstance(value, list | tuple):
        return value
    return tuple(entry if isinstance(entry, JobEndpoint) else job_endpoint(str(entry)) for entry in value)


def job_endpoint(text: str) -> JobEndpoint:
    """Read one entry; raises ValueError, without repeating it."""
    found = _URL.fullmatch(text)
    if found is None or not text.isprintable():
        raise ValueError(ENTRY)
    scheme = cast("Scheme", found["scheme"].lower())
    authority = found["authority"].lower()
    with_port = authority if re.search(r":[0-9]*$", authority) else f"{authority}:{_DEFAULT_PORTS[scheme]}"
    try:
        place = allowed_target(with_port)
        segments = path_segments(found["path"] or "/")
    except ValueError:
        raise ValueError(ENTRY) from None
    path = "".join(f"/{quote(segment, safe='')}" for segment in segments)
    return JobEndpoint(scheme, place, segments, f"{scheme}://{authority}{path}")


def path_segments(path: str) -> tuple[str, ...]:
    """Take a URL's path apart into decoded segments; a slash at the end does not count.

    Raises:
        ValueError: it could be read in two ways: an empty segment, a dot segment, or what is encoded to hide one.
    """
    if path in ("", "/"):
        return ()
    try:
        segments = tuple(unquote(segment, errors="strict") for segment in path[1:].removesuffix("/").split("/"))
    except UnicodeDecodeError:
        raise ValueError(_TWO_WAYS) from None
    for segment in segments:
        # Some servers read `..;x` as a dot segment too.
        if segment.split(";")[0] in ("", ".", "..") or _TRICKS.search(segment):
            raise ValueError(_TWO_WAYS)
    return segments


def read_job_headers(value: Any) -> Any:
    """Parse a JSON object of endpoints, each with an object of headers; raises ValueError, without repeating any."""
    if isinstance(value, tuple):
        return value
    try:
        given = json.loads(value) if isinstance(value, str) else value
        return tuple(JobHeaders(job_endpoint(url), _headers(headers)) for url, headers in given.items())
    except (ValueError, AttributeError, TypeError):
        raise ValueError(HEADERS) from None


def _headers(given: Any) -> tuple[tuple[str, SecretStr], ...]:
    headers = []
    for name, value in given.items():
        if not _HEADER_NAME.fullmatch(name) or name.lower() in _OUR_HEADERS or name.lower().startswith("proxy-"):
            raise ValueError(HEADERS)
        if not value.isascii() or not value.isprintable() or not value.strip():
            raise ValueError(HEADERS)
        headers.append((name, SecretStr(value)))
    if len({name.lower() for name, _ in headers}) < len(headers):
        raise ValueError(HEADERS)
    return tuple(headers)
