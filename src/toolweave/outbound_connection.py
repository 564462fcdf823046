"""Connect to checked addresses only, under the name that the certificate and the Host header carry (W-09)."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import httpcore

from toolweave.outbound_policy import OutboundPolicy

MOST_CONNECTIONS = 100
# Of a name's addresses, how many are tried.
MOST_ADDRESSES = 8
# What is read at once is taken apart at once: of more, thousands of tiny pieces would hold up everybody else.
MOST_READ_BYTES = 16 * 1024


class CheckedNetwork(httpcore.AsyncNetworkBackend):
    """Open TCP connections: look the name up, check every address, connect to one of those very addresses.

    Check and connection are one step, so a name server that answers differently the next time changes nothing.
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
        """Connect to a host by its name or address; the time is for all of its addresses together."""
        addresses = await self._policy.addresses(host, port)
        try:
            async with asyncio.timeout(timeout):
                return _ShortReads(
                    await self._connect_any(addresses[:MOST_ADDRESSES], port, local_address, socket_options)
                )
        except TimeoutError as error:
            raise httpcore.ConnectTimeout(f"no connection within {timeout:g} s") from error

    async def _connect_any(
        self,
        addresses: list[str],
        port: int,
        local_address: str | None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None,
    ) -> httpcore.AsyncNetworkStream:
        refused = httpcore.ConnectError("there is no address")
        for address in addresses:
            try:
                return await self._network.connect_tcp(
                    address, port, local_address=local_address, socket_options=socket_options
                )
            except httpcore.ConnectError as error:
                refused = error
        raise refused


class _ShortReads(httpcore.AsyncNetworkStream):
    """A connection that gives little at once."""

    def __init__(self, stream: httpcore.AsyncNetworkStream) -> None:
        self._stream = stream

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109
        return await self._stream.read(min(max_bytes, MOST_READ_BYTES), timeout)

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
        return _ShortReads(await self._stream.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


@asynccontextmanager
async def open_pool(policy: OutboundPolicy, trust: ssl.SSLContext) -> AsyncIterator[httpcore.AsyncConnectionPool]:
    """Open a pool that keeps no connection: each request is resolved and checked anew."""
    async with httpcore.AsyncConnectionPool(
        ssl_context=trust,
        max_connections=MOST_CONNECTIONS,
        max_keepalive_connections=0,
        network_backend=CheckedNetwork(policy),
    ) as pool:
        yield pool
