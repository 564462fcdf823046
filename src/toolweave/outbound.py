"""Send requests to URLs from users, models, tool configurations or pages, under one policy (W-09).

    policy = OutboundPolicy(allow=settings.outbound_allow, only=(allowed_target("api.example.org"),))
    async with open_outbound_client(policy) as client:
        answer = await client.send(OutboundRequest("GET", url))

This module resolves the host's name, checks all its addresses and connects to a checked one, without the environment's
proxies. Each redirect is checked as a new request.
"""

import asyncio
import ssl
import zlib
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import httpcore
import httpx

from toolweave.config.outbound_allow import HEADER_NAME, is_client_header
from toolweave.errors import ConfigError, OutboundFailed, OutboundRefused
from toolweave.outbound_policy import OutboundLimits, OutboundPolicy, OutboundTarget, parse_target

__all__ = [
    "OutboundClient",
    "OutboundLimits",
    "OutboundPolicy",
    "OutboundRequest",
    "OutboundResponse",
    "open_outbound_client",
]
# The responses to these methods have another form.
_REFUSED_METHODS = ("CONNECT", "TRACE")
_REDIRECT_STATUSES = frozenset({301, 302, 303, 307, 308})
# Any other header could be a secret, so a redirect to another host does not get it.
_CROSS_ORIGIN_HEADERS = frozenset({"accept", "accept-language", "content-type", "user-agent"})


@dataclass(frozen=True, slots=True)
class OutboundRequest:
    """A request to send; each header name appears once, and headers of the connection are not allowed."""

    method: str
    url: str
    headers: tuple[tuple[str, str], ...] = ()
    content: bytes = b""


@dataclass(frozen=True, slots=True)
class OutboundResponse:
    """A response; `url` is the last URL after redirects, `body` is decompressed."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    url: str

    @property
    def is_redirect(self) -> bool:
        """Return whether the response is a redirect."""
        return self.status in _REDIRECT_STATUSES and bool(self.header_values("location"))

    def header_values(self, name: str) -> list[str]:
        """Return the values of a header; `name` is in lower case."""
        return [value for header, value in self.headers if header.lower() == name]


def check_request(request: OutboundRequest, max_bytes: int) -> None:
    """Raise OutboundRefused for a request that cannot be sent unchanged."""
    method = request.method
    if not HEADER_NAME.fullmatch(method) or method.upper() in _REFUSED_METHODS:
        raise OutboundRefused("The request's method cannot be used.")
    if len(request.content) > max_bytes:
        raise OutboundRefused(f"The request's body is larger than {max_bytes} bytes.")
    for name, value in request.headers:
        if not HEADER_NAME.fullmatch(name) or not _is_header_value(value):
            raise OutboundRefused(
                "A header's name or value holds a character that headers cannot carry (such as a line break)."
            )
        if is_client_header(name):
            raise OutboundRefused(f"The header {name} is set by the client itself; leave it out.")


def _is_header_value(value: str) -> bool:
    return value.isascii() and all(character.isprintable() or character == "\t" for character in value)


def redirection(request: OutboundRequest, target: OutboundTarget, answer: OutboundResponse) -> OutboundRequest | None:
    """Return the next request of a redirect, None if the response is not a redirect.

    Raises:
        OutboundRefused: the redirect's URL is not http or https, or changes from https to http.
    """
    if not answer.is_redirect:
        return None
    url = _redirect_url(target, answer.header_values("location")[0])
    redirect = parse_target(url)
    if target.scheme == "https" and redirect.scheme == "http":
        raise OutboundRefused("The answer redirects from https to http.")
    method, content, headers = request.method, request.content, request.headers
    if answer.status == 303 or (answer.status in (301, 302) and method == "POST"):
        method, content = ("HEAD" if method == "HEAD" else "GET"), b""
        headers = tuple(header for header in headers if not header[0].lower().startswith("content-"))
    if redirect.origin != target.origin:
        headers = tuple(header for header in headers if header[0].lower() in _CROSS_ORIGIN_HEADERS)
    return OutboundRequest(method, redirect.url, headers, content)


def _redirect_url(target: OutboundTarget, location: str) -> str:
    try:
        return str(httpx.URL(target.url).join(location.encode("latin-1").decode("utf-8")))
    except (httpx.InvalidURL, UnicodeError):
        raise OutboundRefused("The answer redirects to something that is not a URL.") from None


# The only coding that read_body decompresses.
ACCEPTED_CODING = "gzip"
_GZIP_HEADER = 15 + 16
# Each chunk of a body costs time, however small it is.
MAX_CHUNKS = 100_000
_CHUNKS_PER_YIELD = 50


async def read_body(chunks: AsyncIterable[bytes], coding: str, limit: int) -> bytes:
    """Read and decompress a body of at most `limit` bytes.

    Raises:
        OutboundFailed: the body is larger, has too many chunks or another coding, or is damaged.
    """
    body = bytearray()
    received = chunk_count = 0
    if coding.lower() not in ("", "identity", "gzip", "x-gzip"):
        raise OutboundFailed("The answer is compressed in a way that was not requested.", reason="transfer")
    decompressor = zlib.decompressobj(_GZIP_HEADER) if coding.lower().endswith("gzip") else None
    async for chunk in chunks:
        received += len(chunk)
        chunk_count += 1
        if chunk_count % _CHUNKS_PER_YIELD == 0:
            await asyncio.sleep(0)
        if chunk_count > MAX_CHUNKS:
            raise OutboundFailed("The answer comes in too many pieces.", reason="too_large")
        try:
            body += chunk if decompressor is None else decompressor.decompress(chunk, limit + 1 - len(body))
        except zlib.error:
            raise OutboundFailed("The compressed answer is damaged.", reason="transfer") from None
        if max(received, len(body)) > limit:
            raise OutboundFailed(f"The answer is larger than {limit} bytes.", reason="too_large")
        if decompressor is not None and decompressor.unused_data:
            raise OutboundFailed("The compressed answer has data after its end.", reason="transfer")
    if decompressor is not None and received and not decompressor.eof:
        raise OutboundFailed("The compressed answer is incomplete.", reason="transfer")
    return bytes(body)


MAX_CONNECTIONS = 100
# The number of a name's addresses that are tried.
MAX_ADDRESSES = 8
# The HTTP library parses one read in one step: thousands of tiny chunks in a larger read would block the event loop.
MAX_READ_BYTES = 16 * 1024


class CheckedNetworkBackend(httpcore.AsyncNetworkBackend):
    """Open TCP connections: resolve the name, check every address, connect to a checked address.

    The check and the connection use the same lookup, so a name server cannot return another address in between.
    """

    def __init__(self, policy: OutboundPolicy) -> None:
        self._policy = policy
        self._network = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the interface of httpcore
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connect to a host by its name or address; the timeout is for all of its addresses together."""
        addresses = await self._policy.checked_addresses(host, port)
        last_error = httpcore.ConnectError("there is no address")
        try:
            async with asyncio.timeout(timeout):
                for address in addresses[:MAX_ADDRESSES]:
                    try:
                        stream = await self._network.connect_tcp(
                            address, port, local_address=local_address, socket_options=socket_options
                        )
                        return _ShortReadStream(stream)
                    except httpcore.ConnectError as error:
                        last_error = error
        except TimeoutError as error:
            raise httpcore.ConnectTimeout(f"no connection within {timeout:g} s") from error
        raise last_error


class _ShortReadStream(httpcore.AsyncNetworkStream):
    """A connection whose reads return at most `MAX_READ_BYTES`."""

    def __init__(self, stream: httpcore.AsyncNetworkStream) -> None:
        self._stream = stream

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109
        return await self._stream.read(min(max_bytes, MAX_READ_BYTES), timeout)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> httpcore.AsyncNetworkStream:
        return _ShortReadStream(await self._stream.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


# These methods send a Content-Length even without content.
_METHODS_WITH_BODY = ("POST", "PUT", "PATCH")


class OutboundClient:
    """Send requests under a policy; open it with `open_outbound_client`."""

    def __init__(self, policy: OutboundPolicy, pool: httpcore.AsyncConnectionPool) -> None:
        self.policy = policy
        self._pool = pool

    async def send(self, request: OutboundRequest, *, needs_body: bool = True) -> OutboundResponse:
        """Send a request, follow redirects and return the response, whatever its status.

        Without `needs_body` the response's body is not read, so its size does not matter.

        Raises:
            OutboundRefused: the policy does not allow the URL or a redirect's URL, or the request is too large or
                malformed.
            OutboundFailed: no connection, a timeout, too many redirects, or a response that is too large or damaged.
        """
        check_request(request, self.policy.limits.max_request_bytes)
        seconds = self.policy.limits.total_timeout_s
        try:
            async with asyncio.timeout(seconds):
                return await self._send_with_redirects(request, needs_body)
        except TimeoutError as error:
            raise OutboundFailed(f"No complete answer came within {seconds:g} s.", reason="timeout") from error

    async def _send_with_redirects(self, request: OutboundRequest, needs_body: bool) -> OutboundResponse:
        target = self.policy.check_without_dns(request.url)
        response = await self._send_once(request, target, needs_body)
        max_redirects = self.policy.limits.max_redirects
        try:
            for _ in range(max_redirects):
                redirect = redirection(request, target, response)
                if redirect is None:
                    return response
                request, target = redirect, self.policy.check_without_dns(redirect.url)
                response = await self._send_once(request, target, needs_body)
        except (OutboundRefused, OutboundFailed) as error:
            # A server has received the original request.
            error.was_sent = True
            raise
        if max_redirects and response.is_redirect:
            raise OutboundFailed(f"The answer redirects more than {max_redirects} times.", reason="redirects")
        return response

    async def _send_once(self, request: OutboundRequest, target: OutboundTarget, needs_body: bool) -> OutboundResponse:
        headers = [("Host", target.authority), ("Accept-Encoding", ACCEPTED_CODING), *request.headers]
        url = httpcore.URL(scheme=target.scheme, host=target.host, port=target.port, target=target.path)
        content = request.content or (b"" if request.method in _METHODS_WITH_BODY else None)
        timeouts = {"timeout": {"connect": self.policy.limits.connect_timeout_s}}
        with _translate_errors(target):
            async with self._pool.stream(
                request.method, url, headers=headers, content=content, extensions=timeouts
            ) as answer:
                received = tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in answer.headers)
                response = OutboundResponse(answer.status, received, b"", target.url)
                if not needs_body or response.is_redirect:
                    return response
                coding = ", ".join(response.header_values("content-encoding")).strip()
                body = await read_body(answer.aiter_stream(), coding, self.policy.limits.max_response_bytes)
                return replace(response, body=body)


@contextmanager
def _translate_errors(target: OutboundTarget) -> Iterator[None]:
    """Translate the HTTP library's errors into OutboundFailed; the policy's errors are not changed."""
    try:
        yield
    except httpcore.ConnectTimeout as error:
        raise OutboundFailed(f"{target.authority} did not accept a connection in time.", reason="connect") from error
    except httpcore.ConnectError as error:
        raise OutboundFailed(f"No connection to {target.authority}: {error}", reason="connect") from error
    except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException) as error:
        raise OutboundFailed(f"The exchange with {target.authority} broke off: {error}", reason="transfer") from error


@asynccontextmanager
async def open_outbound_client(
    policy: OutboundPolicy, *, trust: ssl.SSLContext | None = None
) -> AsyncIterator[OutboundClient]:
    """Open a client; `trust` has the trusted certificates, by default those of Toolweave's other HTTPS clients.

    It reuses no connection: each request is resolved and checked again.
    """
    try:
        # Loading the certificates takes long.
        context = trust or await asyncio.to_thread(httpx.create_ssl_context)
    except OSError as error:
        fix = "Correct SSL_CERT_FILE or SSL_CERT_DIR."
        raise ConfigError(f"the trusted certificates cannot be loaded: {error}.", fix=fix) from error
    async with httpcore.AsyncConnectionPool(
        ssl_context=context,
        max_connections=MAX_CONNECTIONS,
        max_keepalive_connections=0,
        network_backend=CheckedNetworkBackend(policy),
    ) as pool:
        yield OutboundClient(policy, pool)
