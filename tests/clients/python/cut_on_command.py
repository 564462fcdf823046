"""A TCP proxy whose connections a test cuts in the very moment that it wants, without a goodbye."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

CHUNK = 65536


class Proxy:
    """A second address of a server; `cut` ends what is connected now, later connections are served.

    `answered` is set as soon as the server has sent something through one of the later connections.
    """

    def __init__(self, host: str, port: int) -> None:
        self.url = ""
        self.answered = asyncio.Event()
        self._there = (host, port)
        self._open: set[asyncio.StreamWriter] = set()

    def cut(self) -> None:
        """End all connections."""
        self.answered.clear()
        for writer in self._open:
            writer.transport.abort()

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass on what comes from either side until one of them ends."""
        there_reader, there_writer = await asyncio.open_connection(*self._there)
        self._open |= {writer, there_writer}
        try:
            async with asyncio.TaskGroup() as passing:
                passing.create_task(_pass_on(reader, there_writer))
                passing.create_task(_pass_on(there_reader, writer, self.answered))
        finally:
            self._open -= {writer, there_writer}


@asynccontextmanager
async def proxy_of(url: str) -> AsyncIterator[Proxy]:
    """Open a proxy of the server at `url` on a free port."""
    parts = urlsplit(url)
    assert parts.hostname is not None
    assert parts.port is not None
    proxy = Proxy(parts.hostname, parts.port)
    server = await asyncio.start_server(proxy.connected, "127.0.0.1", 0)
    proxy.url = "http://{}:{}".format(*server.sockets[0].getsockname()[:2])
    async with server:
        yield proxy
        proxy.cut()


async def _pass_on(
    source: asyncio.StreamReader, target: asyncio.StreamWriter, passed: asyncio.Event | None = None
) -> None:
    try:
        while chunk := await source.read(CHUNK):
            if passed is not None:
                passed.set()
            target.write(chunk)
            await target.drain()
    except ConnectionError:
        pass
    finally:
        target.transport.abort()
