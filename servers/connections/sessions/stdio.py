"""Start MCP servers as child processes and exchange messages over their stdin and stdout.

The SDK's own transport joins its whole buffer again for each chunk (20 MB take seconds), stores lines of any length,
and does not detect the exit of a child whose own children still have the pipe open.
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
"""The maximum time between the end of the output and the exit of the process; both are reported together."""
Incoming = SessionMessage | Exception
RECEIVER_CLOSED_ERRORS = (anyio.ClosedResourceError, anyio.BrokenResourceError)
MAX_STDERR_LINE_BYTES = 8_192
STDERR_TAIL_LINES = 5
STDERR_END_TIMEOUT_S = 0.2
SETPRIV_TIMEOUT_S = 5.0
DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Program:
    """A program to start: its command line, its complete environment and its working directory."""

    command: list[str] = field(repr=False)
    env: dict[str, str] = field(repr=False)
    cwd: str | None = None


@asynccontextmanager
async def run_program(
    program: Program, *, stdin: IO[bytes] | int, stdout: IO[bytes], stderr: IO[bytes], stop: Callable[[Process], object]
) -> AsyncIterator[Process]:
    """Start a program in its own process group and end the group with the block.

    At the end `stop` requests the exit. After two seconds the group gets SIGTERM, after two more SIGKILL; a
    cancellation meanwhile sends SIGKILL at once.

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
            # A stopped (SIGSTOP) process cannot handle the request.
            signal_group(process, signal.SIGCONT)
            if not await wait_for_exit(process, EXIT_TIMEOUT_S):
                signal_group(process, signal.SIGTERM)
            if await wait_for_exit(process, EXIT_TIMEOUT_S):
                await _terminate_group(process)
        finally:
            signal_group(process, signal.SIGKILL)
            await process.wait()


async def wait_for_exit(process: Process, timeout_s: float) -> bool:
    """Wait up to `timeout_s` for a process to exit and return whether it has."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            await process.wait()
    return process.returncode is not None


async def _terminate_group(process: Process) -> None:
    if not signal_group(process, signal.SIGTERM):
        return
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(GROUP_EXIT_TIMEOUT_S):
            # These processes are not children of Toolweave, so there is no event for their exit.
            while signal_group(process, 0):  # noqa: ASYNC110
                await asyncio.sleep(POLL_INTERVAL_S)


def signal_group(process: Process, signal_number: int) -> bool:
    """Send a signal to a process and its children; return whether any of them is still running."""
    try:
        os.killpg(process.pid, signal_number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def describe_exit(code: int) -> str:
    """Describe a return code as text; negative codes are signals."""
    if code >= 0:
        return f"its process exited with code {code}"
    try:
        return f"its process was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"its process was ended by signal {-code}"


@asynccontextmanager
async def open_stdio_transport(
    program: Program, stderr: IO[bytes], monitor: SessionMonitor
) -> AsyncIterator[tuple[MemoryObjectReceiveStream[Incoming], MemoryObjectSendStream[SessionMessage]]]:
    """Start a server and yield the streams for its session; the session is lost when the child exits.

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
            # Read until the child exits, so that its output does not fill the pipe.
            incoming.close()
            writing.cancel()
            waiting.cancel()


async def _open_output_pipe(stack: AsyncExitStack) -> tuple[asyncio.StreamReader, IO[bytes]]:
    """Create the pipe for a child's output; return Toolweave's end and the child's end.

    asyncio's own pipes are not used: uvloop leaves a second copy open in the child, so that the pipe does not end.
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
    """Create the pipe for a child's input; return Toolweave's end and the child's end."""
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
        # Parse first: pydantic validates JSON text once for each kind of message, which takes 20 times as long.
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
            # Send the messages of concurrent calls in one write.
            lines = [_encode_line(message)]
            with contextlib.suppress(anyio.WouldBlock, anyio.EndOfStream):
                while len(lines) < MAX_LINES_PER_WRITE and len(lines[-1]) < LARGE_LINE_BYTES:
                    lines.append(_encode_line(to_send.receive_nowait()))
            writer.write(b"".join(lines))
            await writer.drain()
    except OSError:
        monitor.mark_lost("it no longer reads its input")


def _encode_line(message: SessionMessage) -> bytes:
    text = message.message.model_dump_json(by_alias=True, exclude_none=True)
    return text.encode(errors="replace") + b"\n"


async def _report_exit(process: Process, monitor: SessionMonitor, reading: asyncio.Task[None] | None = None) -> None:
    code = await process.wait()
    if reading is not None:
        # The last responses may still be in the pipe; the server's own children may keep the pipe open for ever.
        await asyncio.wait({reading}, timeout=OUTPUT_END_TIMEOUT_S)
    monitor.exited = True
    monitor.mark_lost(describe_exit(code))


class LogRateLimit:
    """A token bucket for log lines.

    Args:
        burst: the maximum number of lines at once.
        per_s: the number of lines per second in the long run.
        clock: returns the time in seconds.
    """

    def __init__(self, burst: int = 500, per_s: float = 50.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._burst = burst
        self._per_s = per_s
        self._clock = clock
        self._available = float(burst)
        self._updated_at = clock()
        self._skipped = 0

    def admit(self) -> str | None:
        """Return the suffix for the next line, which counts the skipped lines before it; None to skip this line."""
        now = self._clock()
        self._available = min(self._burst, self._available + (now - self._updated_at) * self._per_s)
        self._updated_at = now
        if self._available < 1:
            self._skipped += 1
            return None
        self._available -= 1
        skipped, self._skipped = self._skipped, 0
        return f" ({skipped} earlier lines were skipped)" if skipped else ""


# What FastMCP servers write for each request, also for our pings.
_REQUEST_LINE = re.compile(rb"Processing request of type|^\s*\w+Request\s*$")


class ChildStderr(asyncio.Protocol):
    """Log the lines from a child's stderr pipe; `tail` has the newest ones for error messages.

    Everything is read, so that no server blocks. Only the start of a line is stored. Until the server is ready, its
    lines have the level DEBUG: the log shows the newest ones as the reason if it does not get ready.
    """

    def __init__(self, monitor: SessionMonitor, rate_limit: LogRateLimit) -> None:
        self._monitor = monitor
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
        """Log the rest when the pipe closes."""
        self._log(self._line)
        self.ended.set()

    def _log(self, line: bytes) -> None:
        if not line.strip():
            return
        self._tail.append(line)
        skipped = self._rate_limit.admit()
        if skipped is not None and (text := self._clean(line)):
            server = self._monitor.server
            is_shown = self._monitor.is_ready and not (self._monitor.is_failing() or _REQUEST_LINE.search(line))
            level = "INFO" if is_shown else "DEBUG"
            logger.bind(server=server).log(level, "{}: {}{}", server, text, skipped)

    def _clean(self, line: bytes) -> str:
        text = line.decode(errors="replace")
        if len(line) == MAX_STDERR_LINE_BYTES:
            # The cut may have split a secret.
            text = self._monitor.redaction.hide_secrets(text)[:-CUT_MARGIN_CHARS]
        return self._monitor.redaction.sanitize(text)


@contextlib.asynccontextmanager
async def open_child_stderr(monitor: SessionMonitor) -> AsyncIterator[tuple[IO[bytes], ChildStderr]]:
    """Open a pipe for one child's stderr and read it until it ends or the block ends.

    Yields the child's end, which the block closes after the child has started, and the reader.
    """
    read_end, write_end = os.pipe()
    with os.fdopen(write_end, "wb", buffering=0) as child_end:
        reader = ChildStderr(monitor, LogRateLimit())
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: reader, os.fdopen(read_end, "rb", buffering=0)
        )
        try:
            yield child_end, reader
        finally:
            child_end.close()
            try:
                # A grandchild may have inherited the pipe and keep it open.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(STDERR_END_TIMEOUT_S):
                        await reader.ended.wait()
            finally:
                transport.close()


def launch_command(command: str, args: tuple[str, ...], *, cwd: str | None, search_path: str | None) -> list[str]:
    """Return the command line; on Linux the kernel then kills the server when the thread that started it ends.

    That thread runs the tool plane's event loop and ends after the plane has closed. The server's own children are not
    killed; their input ends.

    Raises:
        OSError: the working directory or the program is missing, or is not executable; has the path.
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
    """Return the command prefix that kills a child when Toolweave's process ends; empty if setpriv is not available."""
    program = shutil.which("setpriv") if sys.platform == "linux" else None
    if program is None:
        return ()
    guard = (program, "--pdeathsig", "KILL", "--")
    # BusyBox has a setpriv without this option.
    try:
        test = subprocess.run([*guard, "true"], capture_output=True, timeout=SETPRIV_TIMEOUT_S, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return guard if test.returncode == 0 else ()


@asynccontextmanager
async def run_server(program: Program, url: str, output: IO[bytes], monitor: SessionMonitor) -> AsyncIterator[None]:
    """Start an HTTP server, enter the block when its port accepts connections, and end it with the block.

    The caller sets the timeout. If the server exits, `monitor` is marked as lost at once.

    Args:
        program: the server's program.
        url: the server's URL.
        output: receives stdout and stderr; closed after the server has started.
        monitor: the session that needs this server.

    Raises:
        OSError: the program cannot be started.
        ServerUnavailable: it exited before it accepted connections, or another process uses the port.
    """
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or DEFAULT_PORTS[parts.scheme]
    if await _accepts_connections(host, port):
        monitor.mark_lost(f"another process already listens on {host}:{port}")
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
    # There is no event for the start of another process's listener.
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
