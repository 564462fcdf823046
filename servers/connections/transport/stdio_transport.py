"""Carry MCP messages over a child's stdin and stdout.

The SDK's own transport joins what it has read anew with each piece that comes (20 MB: seconds), keeps a line of any
length, and is not told of a child that is gone while something it started holds the pipe open.
"""

import asyncio
import contextlib
import os
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import IO, cast

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp.types import ErrorData, JSONRPCError, JSONRPCMessage
from pydantic_core import from_json

from toolweave.json_values import collecting_later, has_more_values
from toolweave.servers.connections.link import Link
from toolweave.servers.connections.transport.child_process import Program, has_ended, how_it_ended, running
from toolweave.servers.connections.transport.faults import OVERSIZE
from toolweave.servers.connections.transport.message_size import (
    EDGE,
    MOST_VALUES,
    TOO_LARGE,
    LineSplitter,
    Oversize,
    answered_id,
)

READ_SIZE = 256 * 1024
MOST_LINES = 100
LONG_LINE = 16 * 1024
LAST_WORDS_S = 0.05
"""How long the end of the output and the end of the process wait for each other: one says why, the other what."""

Received = SessionMessage | Exception
NOBODY_LISTENS = (anyio.ClosedResourceError, anyio.BrokenResourceError)


class Outlet(asyncio.BaseProtocol):
    """Our end of a child's stdin; a write waits while the pipe is full."""

    def __init__(self) -> None:
        self._free = asyncio.Event()
        self._free.set()
        self._transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note that the pipe is open."""
        self._transport = cast("asyncio.WriteTransport", transport)

    def pause_writing(self) -> None:
        """Note that the pipe is full."""
        self._free.clear()

    def resume_writing(self) -> None:
        """Note that there is room again."""
        self._free.set()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the Protocol's signature
        """Note that the child has closed its end, or we ours."""
        self._transport = None
        self._free.set()

    async def write(self, data: bytes) -> bool:
        """Write `data` and wait for room; say whether the other end still takes it."""
        if self._transport is not None:
            self._transport.write(data)
            await self._free.wait()
        return self._transport is not None

    def close(self) -> None:
        """Let the child see the end of its input, once it has read the rest."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Let go of the pipe, read or not."""
        if self._transport is not None:
            self._transport.abort()


@asynccontextmanager
async def stdio_transport(
    program: Program, stderr: IO[bytes], link: Link
) -> AsyncIterator[tuple[MemoryObjectReceiveStream[Received], MemoryObjectSendStream[SessionMessage]]]:
    """Start a server and yield the streams for its session; the link is told when the child is gone.

    Raises:
        OSError: the program cannot be started.
    """
    received, incoming = anyio.create_memory_object_stream[Received](0)
    outgoing, to_send = anyio.create_memory_object_stream[SessionMessage](0)
    async with AsyncExitStack() as stack:
        for stream in (received, incoming, outgoing, to_send):
            stack.enter_context(stream)
        reader, its_stdout = await _inlet(stack)
        outlet, its_stdin = await _outlet(stack)
        process = await stack.enter_async_context(
            running(program, stdin=its_stdin, stdout=its_stdout, stderr=stderr, dismiss=lambda _: outlet.close())
        )
        for its_end in (its_stdin, its_stdout, stderr):
            its_end.close()
        reading = link.spawn(_receive(reader, received, process, link))
        writing = link.spawn(_transmit(to_send, outlet, link))
        waiting = link.spawn(_report_exit(process, reading, link))
        try:
            yield incoming, outgoing
        finally:
            # Reading goes on until the child is gone: what it still writes must not fill the pipe.
            incoming.close()
            writing.cancel()
            waiting.cancel()


async def _inlet(stack: AsyncExitStack) -> tuple[asyncio.StreamReader, IO[bytes]]:
    """Make the pipe for a child's output; return our end and the child's.

    The pipes are not asyncio's: of those, uvloop leaves a second copy open in the child, whose end it hides from us.
    """
    ours, its = os.pipe()
    its_end = stack.enter_context(os.fdopen(its, "wb", buffering=0))
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(ours, "rb", buffering=0)
    )
    stack.callback(transport.close)
    return reader, its_end


async def _outlet(stack: AsyncExitStack) -> tuple[Outlet, IO[bytes]]:
    """Make the pipe for a child's input; return our end and the child's."""
    its, ours = os.pipe()
    its_end = stack.enter_context(os.fdopen(its, "rb", buffering=0))
    _, outlet = await asyncio.get_running_loop().connect_write_pipe(Outlet, os.fdopen(ours, "wb", buffering=0))
    stack.callback(outlet.abort)
    return outlet, its_end


async def _receive(
    reader: asyncio.StreamReader, received: MemoryObjectSendStream[Received], process: Process, link: Link
) -> None:
    lines = LineSplitter()
    with received:
        while data := await reader.read(READ_SIZE):
            for line in lines.feed(data):
                message = await _message(line)
                if message is not None:
                    with contextlib.suppress(*NOBODY_LISTENS):
                        await received.send(message)
        if await has_ended(process, LAST_WORDS_S) and process.returncode is not None:
            link.lose(how_it_ended(process.returncode))


async def _message(line: bytes | Oversize) -> Received | None:
    if isinstance(line, bytes) and await has_more_values(line, MOST_VALUES):
        line = Oversize(answered_id(line[:EDGE], line[-EDGE:]))
    if isinstance(line, Oversize):
        if line.request_id is None:
            return ValueError(TOO_LARGE)
        error = ErrorData(code=OVERSIZE, message=TOO_LARGE)
        return SessionMessage(JSONRPCMessage(JSONRPCError(jsonrpc="2.0", id=line.request_id, error=error)))
    if not line.strip():
        return None
    try:
        # Parsed first: validating JSON text, pydantic reads it once for each kind of message (20 times as long).
        with collecting_later():
            value = from_json(line.decode(errors="replace"))
        return SessionMessage(JSONRPCMessage.model_validate(value))
    except ValueError as error:
        return error


async def _transmit(to_send: MemoryObjectReceiveStream[SessionMessage], outlet: Outlet, link: Link) -> None:
    async for message in to_send:
        # What concurrent calls have to say goes in one write.
        lines = [_line(message)]
        with contextlib.suppress(anyio.WouldBlock, anyio.EndOfStream):
            while len(lines) < MOST_LINES and len(lines[-1]) < LONG_LINE:
                lines.append(_line(to_send.receive_nowait()))
        if not await outlet.write(b"".join(lines)):
            link.lose("it reads its input no more")
            return


def _line(message: SessionMessage) -> bytes:
    text = message.message.model_dump_json(by_alias=True, exclude_none=True)
    return text.encode(errors="replace") + b"\n"


async def _report_exit(process: Process, reading: asyncio.Task[None], link: Link) -> None:
    code = await process.wait()
    # Its last answers may still be in the pipe; what it has started may hold the pipe open for ever.
    await asyncio.wait({reading}, timeout=LAST_WORDS_S)
    link.lose(how_it_ended(code))
