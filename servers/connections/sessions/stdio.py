"""Carry MCP messages over a child's stdin and stdout.

The SDK's own transport joins what it has read anew with each piece that comes (20 MB: seconds), keeps a line of any
length, and is not told of a child that is gone while something it started holds the pipe open.
"""

import asyncio
import contextlib
import errno
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from asyncio.subprocess import DEVNULL, Process
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from loguru import logger
from mcp.shared.message import SessionMessage
from mcp.types import ErrorData, JSONRPCError, JSONRPCMessage
from pydantic_core import from_json

from toolweave.errors import ServerUnavailable
from toolweave.json_values import collecting_later
from toolweave.redact import TAIL
from toolweave.servers.connections.redaction import Redaction
from toolweave.servers.connections.sessions.faults import OVERSIZE, TOO_LARGE, MessageSplitter, Oversize, within_limits
from toolweave.servers.connections.sessions.link import Link

GRACE_S = 2.0
LEFT_BEHIND_S = 0.5
LOOK_EVERY_S = 0.05
READ_SIZE = 256 * 1024
MOST_LINES = 100
LONG_LINE = 16 * 1024
LINE_END = re.compile(rb"\n")
LAST_WORDS_S = 0.05
"""How long the end of the output and the end of the process wait for each other: one says why, the other what."""
Received = SessionMessage | Exception
NOBODY_LISTENS = (anyio.ClosedResourceError, anyio.BrokenResourceError)
LONGEST_LINE = 8_192
LAST_LINES = 5
CLOSING_WAIT_S = 0.2
GUARD_TEST_S = 5.0
DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Program:
    """What to start: the words of the command line, its whole environment, its working directory."""

    line: list[str] = field(repr=False)
    env: dict[str, str] = field(repr=False)
    cwd: str | None = None


@asynccontextmanager
async def running(
    program: Program,
    *,
    stdin: IO[bytes] | int,
    stdout: IO[bytes],
    stderr: IO[bytes],
    dismiss: Callable[[Process], object],
) -> AsyncIterator[Process]:
    """Start a program in a process group of its own and end the group with the block.

    At the end `dismiss` is called to ask it to go. If it has not gone after two seconds it gets SIGTERM, after two
    more SIGKILL; a cancellation meanwhile makes it SIGKILL at once.

    Raises:
        OSError: the program cannot be started.
    """
    process = await asyncio.create_subprocess_exec(
        *program.line,
        env=program.env,
        cwd=program.cwd,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        try:
            dismiss(process)
            # A process that was stopped would not notice.
            send_to_group(process, signal.SIGCONT)
            if not await has_ended(process, GRACE_S):
                send_to_group(process, signal.SIGTERM)
            if await has_ended(process, GRACE_S):
                await _end_what_it_left(process)
        finally:
            send_to_group(process, signal.SIGKILL)
            await process.wait()


async def has_ended(process: Process, limit_s: float) -> bool:
    """Wait for a process, at most `limit_s`; say whether it has ended."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(limit_s):
            await process.wait()
    return process.returncode is not None


async def _end_what_it_left(process: Process) -> None:
    if not send_to_group(process, signal.SIGTERM):
        return
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LEFT_BEHIND_S):
            # They are not our children: no signal announces their end.
            while send_to_group(process, 0):  # noqa: ASYNC110
                await asyncio.sleep(LOOK_EVERY_S)


def send_to_group(process: Process, number: int) -> bool:
    """Signal a process and what it started; say whether any of them is left."""
    try:
        os.killpg(process.pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def how_it_ended(code: int) -> str:
    """Describe a return code in words; negative ones are signals."""
    if code >= 0:
        return f"its process ended with exit code {code}"
    try:
        return f"its process was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"its process was ended by signal {-code}"


@asynccontextmanager
async def stdio_transport(
    program: Program, stderr: IO[bytes], link: Link
) -> AsyncIterator[tuple[MemoryObjectReceiveStream[Received], MemoryObjectSendStream[SessionMessage]]]:
    """Start a server and yield the streams for its session; the link is lost when the child is gone.

    Raises:
        OSError: the program cannot be started.
    """
    received, incoming = anyio.create_memory_object_stream[Received](0)
    outgoing, to_send = anyio.create_memory_object_stream[SessionMessage](0)
    async with AsyncExitStack() as stack:
        for stream in (received, incoming, outgoing, to_send):
            stack.enter_context(stream)
        reader, its_stdout = await _inlet(stack)
        writer, its_stdin = await _outlet(stack)
        process = await stack.enter_async_context(
            running(program, stdin=its_stdin, stdout=its_stdout, stderr=stderr, dismiss=lambda _: writer.close())
        )
        for its_end in (its_stdin, its_stdout, stderr):
            its_end.close()
        reading = link.spawn(_receive(reader, received, process, link))
        writing = link.spawn(_transmit(to_send, writer, link))
        waiting = link.spawn(_report_exit(process, link, reading))
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


async def _outlet(stack: AsyncExitStack) -> tuple[asyncio.StreamWriter, IO[bytes]]:
    """Make the pipe for a child's input; return our end and the child's."""
    its, ours = os.pipe()
    its_end = stack.enter_context(os.fdopen(its, "rb", buffering=0))
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.connect_write_pipe(
        lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), os.fdopen(ours, "wb", buffering=0)
    )
    stack.callback(transport.abort)
    return asyncio.StreamWriter(transport, protocol, None, loop), its_end


async def _receive(
    reader: asyncio.StreamReader, received: MemoryObjectSendStream[Received], process: Process, link: Link
) -> None:
    lines = MessageSplitter(LINE_END, longest_end=1)
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
    line = await within_limits(line)
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


async def _transmit(
    to_send: MemoryObjectReceiveStream[SessionMessage], writer: asyncio.StreamWriter, link: Link
) -> None:
    try:
        async for message in to_send:
            # What concurrent calls have to say goes in one write.
            lines = [_line(message)]
            with contextlib.suppress(anyio.WouldBlock, anyio.EndOfStream):
                while len(lines) < MOST_LINES and len(lines[-1]) < LONG_LINE:
                    lines.append(_line(to_send.receive_nowait()))
            writer.write(b"".join(lines))
            await writer.drain()
    except OSError:
        link.lose("it reads its input no more")


def _line(message: SessionMessage) -> bytes:
    text = message.message.model_dump_json(by_alias=True, exclude_none=True)
    return text.encode(errors="replace") + b"\n"


async def _report_exit(process: Process, link: Link, reading: asyncio.Task[None] | None = None) -> None:
    code = await process.wait()
    if reading is not None:
        # Its last answers may still be in the pipe; what it has started may hold the pipe open for ever.
        await asyncio.wait({reading}, timeout=LAST_WORDS_S)
    link.exited = True
    link.lose(how_it_ended(code))


class LogBudget:
    """Admit `burst` lines at once and `per_s` a second in the long run.

    Args:
        burst: how many lines may come at once.
        per_s: how many a second may follow.
        clock: tells the time in seconds.
    """

    def __init__(self, burst: int = 500, per_s: float = 50.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._burst = burst
        self._per_s = per_s
        self._clock = clock
        self._left = float(burst)
        self._at = clock()
        self._left_out = 0

    def admit(self) -> str | None:
        """Admit one more line and return what to add to it, how many were left out before it; None: leave it out."""
        now = self._clock()
        self._left = min(self._burst, self._left + (now - self._at) * self._per_s)
        self._at = now
        if self._left < 1:
            self._left_out += 1
            return None
        self._left -= 1
        left_out, self._left_out = self._left_out, 0
        return f" ({left_out} before it were left out)" if left_out else ""


class ChildStderr(asyncio.Protocol):
    """Log the lines that come through a pipe; `last_words` has the newest ones for error messages.

    All is read, so that no server waits for us. Of a line only the beginning is stored.
    """

    def __init__(self, server: str, redaction: Redaction, budget: LogBudget) -> None:
        self._server = server
        self._redaction = redaction
        self._budget = budget
        self._line = b""
        self._newest: deque[bytes] = deque(maxlen=LAST_LINES)
        self.ended = asyncio.Event()

    @property
    def last_words(self) -> str:
        """Return the last lines, oldest first."""
        return " | ".join(filter(None, map(self._clean, self._newest)))

    def data_received(self, data: bytes) -> None:
        """Log the lines that are complete."""
        *lines, self._line = (part[:LONGEST_LINE] for part in (self._line + data).split(b"\n"))
        for line in lines:
            self._log(line)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the Protocol's signature
        """Log what is left when the pipe closes."""
        self._log(self._line)
        self.ended.set()

    def _log(self, line: bytes) -> None:
        if not line.strip():
            return
        self._newest.append(line)
        left_out = self._budget.admit()
        if left_out is not None and (text := self._clean(line)):
            logger.bind(server=self._server).info("{}: {}{}", self._server, text, left_out)

    def _clean(self, line: bytes) -> str:
        text = line.decode(errors="replace")
        if len(line) == LONGEST_LINE:
            # It was cut, and perhaps a secret with it.
            text = self._redaction.hide_secrets(text)[:-TAIL]
        return self._redaction.sanitize(text)


@contextlib.asynccontextmanager
async def child_stderr(server: str, redaction: Redaction) -> AsyncIterator[tuple[IO[bytes], ChildStderr]]:
    """Open a pipe for one child's stderr and read it until it ends or the block is left.

    Yields the end to give to the child, which the block closes once the child has it, and the reader.
    """
    read_end, write_end = os.pipe()
    with os.fdopen(write_end, "wb", buffering=0) as for_child:
        reader = ChildStderr(server, redaction, LogBudget())
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: reader, os.fdopen(read_end, "rb", buffering=0)
        )
        try:
            yield for_child, reader
        finally:
            for_child.close()
            try:
                # A grandchild that inherited the pipe must not keep us here.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(CLOSING_WAIT_S):
                        await reader.ended.wait()
            finally:
                transport.close()


def launch_line(command: str, args: tuple[str, ...], *, cwd: str | None, search_path: str | None) -> list[str]:
    """Return the words to start: on Linux the kernel then kills the server when the thread that starts it ends.

    The owner task's thread runs the plane's event loop and ends after the plane has closed. A server's own children
    are not covered; they see the end of their input.

    Raises:
        OSError: the working directory or the program is not there, or may not be executed; has the path.
    """
    if cwd is not None and not Path(cwd).is_dir():
        raise NotADirectoryError(errno.ENOTDIR, "was not found", f"its working directory {cwd}")
    program = Path(cwd or "", command).absolute()
    if shutil.which(program if os.sep in command else command, path=search_path) is None:
        if os.sep in command and program.exists():
            raise PermissionError(errno.EACCES, "may not be executed", command)
        raise FileNotFoundError(errno.ENOENT, "was not found", command)
    return [*death_guard(), command, *args]


@cache
def death_guard() -> tuple[str, ...]:
    """Return the words that, before a command, end it with our process; none where the system has no such program."""
    program = shutil.which("setpriv") if sys.platform == "linux" else None
    if program is None:
        return ()
    guard = (program, "--pdeathsig", "KILL", "--")
    # BusyBox has a setpriv that does not know the option.
    try:
        tried = subprocess.run([*guard, "true"], capture_output=True, timeout=GUARD_TEST_S, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return guard if tried.returncode == 0 else ()


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
        ServerUnavailable: it ended before it served, or the port belongs to another process.
    """
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or DEFAULT_PORTS[parts.scheme]
    if await _accepts(host, port):
        link.lose(f"something else serves on {host}:{port} already")
        raise ServerUnavailable(link.why_lost, server=link.server, executed="no")
    async with AsyncExitStack() as stack:
        process = await stack.enter_async_context(
            running(
                program,
                stdin=DEVNULL,
                stdout=output,
                stderr=output,
                dismiss=lambda it: send_to_group(it, signal.SIGTERM),
            )
        )
        output.close()
        watching = link.spawn(_report_exit(process, link))
        try:
            await link.race(_accepting(host, port))
            yield
        finally:
            watching.cancel()


async def _accepting(host: str, port: int) -> None:
    # No signal announces that another process listens.
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
