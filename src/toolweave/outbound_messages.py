"""Hold requests and answers of the outbound client, and say what a redirect asks for (W-09)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

import httpx

from toolweave.errors import OutboundRefused
from toolweave.outbound_urls import OutboundTarget, read_target

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# A response to these is no ordinary answer.
_NO_METHODS = ("CONNECT", "TRACE")
# What the client decides: a request must not be taken for another host's or for two.
_OUR_HEADERS = frozenset(
    {
        "host",
        "content-length",
        "transfer-encoding",
        "connection",
        "keep-alive",
        "upgrade",
        "te",
        "trailer",
        "expect",
        "accept-encoding",
    }
)
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
# Another host gets nothing that could be a secret, whatever its name.
_HEADERS_FOR_ANYONE = frozenset({"accept", "accept-language", "content-type", "user-agent"})


@dataclass(frozen=True, slots=True)
class OutboundRequest:
    """A request to send; header names are given once each, those about the connection not at all."""

    method: str
    url: str
    headers: tuple[tuple[str, str], ...] = ()
    content: bytes = b""


@dataclass(frozen=True, slots=True)
class OutboundResponse:
    """An answer; `url` is where it came from, after redirects, and `body` is unpacked."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    url: str

    @property
    def redirects(self) -> bool:
        """Say whether the answer points elsewhere."""
        return self.status in _REDIRECTS and bool(self.all("location"))

    def all(self, name: str) -> list[str]:
        """Give the values of a header, whose name is in lower case."""
        return [value for given, value in self.headers if given.lower() == name]


def headers_of(headers: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Give a mapping's headers as a request takes them."""
    return tuple(headers.items())


def require_sendable(request: OutboundRequest, most_bytes: int) -> None:
    """Raise OutboundRefused for what could not be sent as it is meant."""
    method = request.method
    if not _TOKEN.fullmatch(method) or method.upper() in _NO_METHODS:
        raise OutboundRefused("The request's method cannot be used.")
    if len(request.content) > most_bytes:
        raise OutboundRefused(f"The request's body is larger than {most_bytes} bytes.")
    for name, value in request.headers:
        if not _TOKEN.fullmatch(name) or not _is_header_value(value):
            raise OutboundRefused(
                "A header's name or value holds a character that headers cannot carry (such as a line break)."
            )
        if name.lower() in _OUR_HEADERS or name.lower().startswith("proxy-"):
            raise OutboundRefused(f"The header {name} is set by the client itself; leave it out.")


def _is_header_value(value: str) -> bool:
    return value.isascii() and all(character.isprintable() or character == "\t" for character in value)


def redirected(request: OutboundRequest, target: OutboundTarget, response: OutboundResponse) -> OutboundRequest | None:
    """Give the request that a redirect asks for, or None when the answer is none.

    Raises:
        OutboundRefused: it leads to another kind of URL, or from https to http.
    """
    if not response.redirects:
        return None
    url = _joined(target, response.all("location")[0])
    following = read_target(url)
    if target.scheme == "https" and following.scheme == "http":
        raise OutboundRefused("The answer redirects from https to http.")
    method, content, headers = request.method, request.content, request.headers
    if response.status == 303 or (response.status in (301, 302) and method == "POST"):
        method, content = ("HEAD" if method == "HEAD" else "GET"), b""
        headers = tuple(header for header in headers if not header[0].lower().startswith("content-"))
    if following.origin != target.origin:
        headers = tuple(header for header in headers if header[0].lower() in _HEADERS_FOR_ANYONE)
    return OutboundRequest(method, following.url, headers, content)


def _joined(target: OutboundTarget, location: str) -> str:
    try:
        return str(httpx.URL(target.url).join(location.encode("latin-1").decode("utf-8")))
    except (httpx.InvalidURL, UnicodeError):
        raise OutboundRefused("The answer redirects to what is not a URL.") from None
