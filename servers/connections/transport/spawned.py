"""Start a server that is then reached by its URL (`spawn: true`), and wait until it is there (T-07)."""

import asyncio
import contextlib
import signal
from asyncio.subprocess import DEVNULL, Process
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import IO
from urllib.parse import urlsplit

from toolweave.errors import ServerUnavailable
from toolweave.servers.connections.link import Link
from toolweave.servers.connections.transport.child_process import Program, how_it_ended, running, send_to_group

LOOK_EVERY_S = 0.05
DEFAULT_PORTS = {"http": 80, "https": 443}


@asynccontextmanager
async def answering_server(program: Program, url: str, output: IO[bytes], link: Link) -> AsyncIterator[None]:
    """Start a server, enter once its port accepts connections, and end it with the block.

    The caller bounds how long that may take; a server that ends is lost to `link` at once.

    Args:
        program: what to start.
        url: where it will serve.
        output: gets its stdout and stderr; closed once the server has them.
        link: the session this server is started for.

    Raises:
        OSError: the program cannot be started.
        ServerUnavailable: it ended before it served, or the port belongs to somebody else.
    """
    host, port = _address(url)
    if await _accepts(host, port):
        link.lose(f"something else serves on {host}:{port} already")
        raise ServerUnavailable(link.why_lost, server=link.server, executed="no")
    async with AsyncExitStack() as stack:
        process = await stack.enter_async_context(
            running(program, stdin=DEVNULL, stdout=output, stderr=output, dismiss=_ask_to_end)
        )
        output.close()
        watching = link.spawn(_report_exit(process, link))
        try:
            await link.race(_until_it_accepts(host, port))
            yield
        finally:
            watching.cancel()


def _ask_to_end(process: Process) -> None:
    send_to_group(process, signal.SIGTERM)


async def _report_exit(process: Process, link: Link) -> None:
    code = await process.wait()
    link.exited = True
    link.lose(how_it_ended(code))


async def _until_it_accepts(host: str, port: int) -> None:
    # Nobody tells when another process begins to listen.
    while not await _accepts(host, port):  # noqa: ASYNC110
        await asyncio.sleep(LOOK_EVERY_S)


async def _accepts(host: str, port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection(host, port)
    except OSError:
        return False
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return True


def _address(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    return parts.hostname or "", parts.port or DEFAULT_PORTS[parts.scheme]
