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
from toolweave.json_values import pause_gc
from toolweave.redact import CUT_MARGIN_CHARS
from toolweave.servers.connections.redaction import Redaction
from toolweave.servers.connections.sessions.faults import OVERSIZE, TOO_LARGE, MessageSplitter, Oversize, limit_values
from toolweave.servers.connections.sessions.monitor import SessionMonitor

EXIT_TIMEOUT_S = 2.0
GROUP_EXIT_TIMEOUT_S = 0.5
POLL_INTERVAL_S = 0.05
READ_BYTES = 256 * 1024
MAX_LINES_PER_WRITE = 100
LARGE_LINE_BYTES = 16 * 1024
LINE_END = re.compile(rb"\n")
OUTPUT_END_TIMEOUT_S = 0.05
"""How long the end of the output and the end of the process wait for each other: one says why, the other what."""
Incoming = SessionMessage | Exception
RECEIVER_CLOSED_ERRORS = (anyio.ClosedResourceError, anyio.BrokenResourceError)
MAX_STDERR_LINE_BYTES = 8_192
STDERR_TAIL_LINES = 5
STDERR_END_TIMEOUT_S = 0.2
SETPRIV_TIMEOUT_S = 5.0
DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Program:
    """What to start: the words of the command line, its whole environment, its working directory."""

    command: list[str] = field(repr=False)
    env: dict[str, str] = field(repr=False)
    cwd: str | None = None


@asynccontextmanager
async def run_program(
    program: Program, *, stdin: IO[bytes] | int, stdout: IO[bytes], stderr: IO[bytes], stop: Callable[[Process], object]
) -> AsyncIterator[Process]:
    """Start a program in a process group of its own and end the group with the block.

    At the end `dismiss` is called to ask it to go. If it has not gone after two seconds it gets SIGTERM, after two
    more SIGKILL; a cancellation meanwhile makes it SIGKILL at once.

    Raises:
        OSError: the program cannot be started.
    """
    process = await asyncio.create_subprocess_exec(
        *program.command,
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
            stop(process)
            # A process that was stopped would not notice.
            signal_group(process, signal.SIGCONT)
            if not await wait_for_exit(process, EXIT_TIMEOUT_S):
                signal_group(process, signal.SIGTERM)
            if await wait_for_exit(process, EXIT_TIMEOUT_S):
                await _terminate_group(process)
        finally:
            signal_group(process, signal.SIGKILL)
            await process.wait()


async def wait_for_exit(process: Process, timeout_s: float) -> bool:
    """Wait for a process, at most `limit_s`; say whether it has ended."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            await process.wait()
    return process.returncode is not None


async def _terminate_group(process: Process) -> None:
    if not signal_group(process, signal.SIGTERM):
        return
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(GROUP_EXIT_TIMEOUT_S):
            # They are not our children: no signal announces their end.
            while signal_group(process, 0):  # noqa: ASYNC110
                await asyncio.sleep(POLL_INTERVAL_S)


def signal_group(process: Process, signal_number: int) -> bool:
    """Signal a process and what it started; say whether any of them is left."""
    try:
        os.killpg(process.pid, signal_number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def describe_exit(code: int) -> str:
    """Describe a return code in words; negative ones are signals."""
    if code >= 0:
        return f"its process ended with exit code {code}"
    try:
        return f"its process was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"its process was ended by signal {-code}"


@asynccontextmanager
async def open_stdio_transport(
    program: Program, stderr: IO[bytes], monitor: SessionMonitor
) -> AsyncIterator[tuple[MemoryObjectReceiveStream[Incoming], MemoryObjectSendStream[SessionMessage]]]:
    """Start a server and yield the streams for its session; the link is lost when the child is gone.

    Raises:
        OSError: the program cannot be started.
    """
    received, incoming = anyio.create_memory_object_stream[Incoming](0)
    outgoing, to_send = anyio.create_memory_object_stream[SessionMessage](0)
    async with AsyncExitStack() as stack:
        for stream in (received, incoming, outgoing, to_send):
            stack.enter_context(stream)
        reader, child_stdout = await _open_output_pipe(stack)
        writer, child_stdin = await _open_input_pipe(stack)
        process = await stack.enter_async_context(
            run_program(program, stdin=child_stdin, stdout=child_stdout, stderr=stderr, stop=lambda _: writer.close())
        )
        for child_end in (child_stdin, child_stdout, stderr):
            child_end.close()
        reading = monitor.start_task(_receive_messages(reader, received, process, monitor))
        writing = monitor.start_task(_send_messages(to_send, writer, monitor))
        waiting = monitor.start_task(_report_exit(process, monitor, reading))
        try:
            yield incoming, outgoing
        finally:
            # Reading goes on until the child is gone: what it still writes must not fill the pipe.
            incoming.close()
            writing.cancel()
            waiting.cancel()


async def _open_output_pipe(stack: AsyncExitStack) -> tuple[asyncio.StreamReader, IO[bytes]]:
    """Make the pipe for a child's output; return our end and the child's.

    The pipes are not asyncio's: of those, uvloop leaves a second copy open in the child, whose end it hides from us.
    """
    our_fd, child_fd = os.pipe()
    child_end = stack.enter_context(os.fdopen(child_fd, "wb", buffering=0))
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(our_fd, "rb", buffering=0)
    )
    stack.callback(transport.close)
    return reader, child_end


async def _open_input_pipe(stack: AsyncExitStack) -> tuple[asyncio.StreamWriter, IO[bytes]]:
    """Make the pipe for a child's input; return our end and the child's."""
    child_fd, our_fd = os.pipe()
    child_end = stack.enter_context(os.fdopen(child_fd, "rb", buffering=0))
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.connect_write_pipe(
        lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), os.fdopen(our_fd, "wb", buffering=0)
    )
    stack.callback(transport.abort)
    return asyncio.StreamWriter(transport, protocol, None, loop), child_end


async def _receive_messages(
    reader: asyncio.StreamReader, received: MemoryObjectSendStream[Incoming], process: Process, monitor: SessionMonitor
) -> None:
    lines = MessageSplitter(LINE_END, max_end_bytes=1)
    with received:
        while data := await reader.read(READ_BYTES):
            for line in lines.feed(data):
                message = await _parse_line(line)
                if message is not None:
                    with contextlib.suppress(*RECEIVER_CLOSED_ERRORS):
                        await received.send(message)
        if await wait_for_exit(process, OUTPUT_END_TIMEOUT_S) and process.returncode is not None:
            monitor.mark_lost(describe_exit(process.returncode))


async def _parse_line(line: bytes | Oversize) -> Incoming | None:
    line = await limit_values(line)
    if isinstance(line, Oversize):
        if line.request_id is None:
            return ValueError(TOO_LARGE)
        error = ErrorData(code=OVERSIZE, message=TOO_LARGE)
        return SessionMessage(JSONRPCMessage(JSONRPCError(jsonrpc="2.0", id=line.request_id, error=error)))
    if not line.strip():
        return None
    try:
        # Parsed first: validating JSON text, pydantic reads it once for each kind of message (20 times as long).
        with pause_gc():
            value = from_json(line.decode(errors="replace"))
        return SessionMessage(JSONRPCMessage.model_validate(value))
    except ValueError as error:
        return error


async def _send_messages(
    to_send: MemoryObjectReceiveStream[SessionMessage], writer: asyncio.StreamWriter, monitor: SessionMonitor
) -> None:
    try:
        async for message in to_send:
            # What concurrent calls have to say goes in one write.
            lines = [_encode_line(message)]
            with contextlib.suppress(anyio.WouldBlock, anyio.EndOfStream):
                while len(lines) < MAX_LINES_PER_WRITE and len(lines[-1]) < LARGE_LINE_BYTES:
                    lines.append(_encode_line(to_send.receive_nowait()))
            writer.write(b"".join(lines))
            await writer.drain()
    except OSError:
        monitor.mark_lost("it reads its input no more")


def _encode_line(message: SessionMessage) -> bytes:
    text = message.message.model_dump_json(by_alias=True, exclude_none=True)
    return text.encode(errors="replace") + b"\n"


async def _report_exit(process: Process, monitor: SessionMonitor, reading: asyncio.Task[None] | None = None) -> None:
    code = await process.wait()
    if reading is not None:
        # Its last answers may still be in the pipe; what it has started may hold the pipe open for ever.
        await asyncio.wait({reading}, timeout=OUTPUT_END_TIMEOUT_S)
    monitor.exited = True
    monitor.mark_lost(describe_exit(code))


class LogRateLimit:
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
        self._available = float(burst)
        self._updated_at = clock()
        self._skipped = 0

    def admit(self) -> str | None:
        """Admit one more line and return what to add to it, how many were left out before it; None: leave it out."""
        now = self._clock()
        self._available = min(self._burst, self._available + (now - self._updated_at) * self._per_s)
        self._updated_at = now
        if self._available < 1:
            self._skipped += 1
            return None
        self._available -= 1
        skipped, self._skipped = self._skipped, 0
        return f" ({skipped} before it were left out)" if skipped else ""


class ChildStderr(asyncio.Protocol):
    """Log the lines that come through a pipe; `last_words` has the newest ones for error messages.

    All is read, so that no server waits for us. Of a line only the beginning is stored.
    """

    def __init__(self, server: str, redaction: Redaction, rate_limit: LogRateLimit) -> None:
        self._server = server
        self._redaction = redaction
        self._rate_limit = rate_limit
        self._line = b""
        self._tail: deque[bytes] = deque(maxlen=STDERR_TAIL_LINES)
        self.ended = asyncio.Event()

    @property
    def tail(self) -> str:
        """Return the last lines, oldest first."""
        return " | ".join(filter(None, map(self._clean, self._tail)))

    def data_received(self, data: bytes) -> None:
        """Log the lines that are complete."""
        *lines, self._line = (part[:MAX_STDERR_LINE_BYTES] for part in (self._line + data).split(b"\n"))
        for line in lines:
            self._log(line)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the Protocol's signature
        """Log what is left when the pipe closes."""
        self._log(self._line)
        self.ended.set()

    def _log(self, line: bytes) -> None:
        if not line.strip():
            return
        self._tail.append(line)
        skipped = self._rate_limit.admit()
        if skipped is not None and (text := self._clean(line)):
            logger.bind(server=self._server).info("{}: {}{}", self._server, text, skipped)

    def _clean(self, line: bytes) -> str:
        text = line.decode(errors="replace")
        if len(line) == MAX_STDERR_LINE_BYTES:
            # It was cut, and perhaps a secret with it.
            text = self._redaction.hide_secrets(text)[:-CUT_MARGIN_CHARS]
        return self._redaction.sanitize(text)


@contextlib.asynccontextmanager
async def open_child_stderr(server: str, redaction: Redaction) -> AsyncIterator[tuple[IO[bytes], ChildStderr]]:
    """Open a pipe for one child's stderr and read it until it ends or the block is left.

    Yields the end to give to the child, which the block closes once the child has it, and the reader.
    """
    read_end, write_end = os.pipe()
    with os.fdopen(write_end, "wb", buffering=0) as child_end:
        reader = ChildStderr(server, redaction, LogRateLimit())
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: reader, os.fdopen(read_end, "rb", buffering=0)
        )
        try:
            yield child_end, reader
        finally:
            child_end.close()
            try:
                # A grandchild that inherited the pipe must not keep us here.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(STDERR_END_TIMEOUT_S):
                        await reader.ended.wait()
            finally:
                transport.close()


def launch_command(command: str, args: tuple[str, ...], *, cwd: str | None, search_path: str | None) -> list[str]:
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
    return [*parent_death_prefix(), command, *args]


@cache
def parent_death_prefix() -> tuple[str, ...]:
    """Return the words that, before a command, end it with our process; none where the system has no such program."""
    program = shutil.which("setpriv") if sys.platform == "linux" else None
    if program is None:
        return ()
    guard = (program, "--pdeathsig", "KILL", "--")
    # BusyBox has a setpriv that does not know the option.
    try:
        test = subprocess.run([*guard, "true"], capture_output=True, timeout=SETPRIV_TIMEOUT_S, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return guard if test.returncode == 0 else ()


@asynccontextmanager
async def run_server(program: Program, url: str, output: IO[bytes], monitor: SessionMonitor) -> AsyncIterator[None]:
    """Start a server, enter once its port accepts connections, and end it with the block.

    The caller bounds how long that may take; a server that ends is lost to `link` at once.

    Args:
        program: what to start.
        url: where it will serve.
        output: gets its stdout and stderr; closed once the server has them.
        monitor: the session that needs this server.

    Raises:
        OSError: the program cannot be started.
        ServerUnavailable: it ended before it served, or the port belongs to another process.
    """
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or DEFAULT_PORTS[parts.scheme]
    if await _accepts_connections(host, port):
        monitor.mark_lost(f"something else serves on {host}:{port} already")
        raise ServerUnavailable(monitor.loss_reason, server=monitor.server, executed="no")
    async with AsyncExitStack() as stack:
        process = await stack.enter_async_context(
            run_program(
                program, stdin=DEVNULL, stdout=output, stderr=output, stop=lambda it: signal_group(it, signal.SIGTERM)
            )
        )
        output.close()
        watching = monitor.start_task(_report_exit(process, monitor))
        try:
            await monitor.run_until_lost(_wait_until_accepting(host, port))
            yield
        finally:
            watching.cancel()


async def _wait_until_accepting(host: str, port: int) -> None:
    # No signal announces that another process listens.
    while not await _accepts_connections(host, port):  # noqa: ASYNC110
        await asyncio.sleep(POLL_INTERVAL_S)


async def _accepts_connections(host: str, port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection(host, port)
    except OSError:
        return False
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return True
