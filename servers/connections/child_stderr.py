"""Bring what a stdio server writes to stderr into our log, line by line, with the server's name (T-07)."""

import asyncio
import contextlib
import os
from collections import deque
from collections.abc import AsyncIterator
from typing import IO

from loguru import logger

from toolweave.servers.connections.redaction import Redaction

LONGEST_LINE = 8_192
LAST_LINES = 5
CLOSING_WAIT_S = 0.2


class ChildStderr(asyncio.Protocol):
    """Collect a pipe's bytes into log lines; `last_words` keeps the newest ones for error messages."""

    def __init__(self, server: str, redaction: Redaction) -> None:
        self._log = logger.bind(server=server)
        self._server = server
        self._redaction = redaction
        self._rest = b""
        self._newest: deque[str] = deque(maxlen=LAST_LINES)
        self.ended = asyncio.Event()

    @property
    def last_words(self) -> str:
        """Return the last lines, oldest first."""
        return " | ".join(self._newest)

    def data_received(self, data: bytes) -> None:
        """Log the lines that are complete; a line without an end is logged once it is too long to wait for."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > LONGEST_LINE:
            lines, self._rest = [*lines, self._rest], b""
        for line in lines:
            self._say(line)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the Protocol's signature
        """Log what is left when the pipe closes."""
        self._say(self._rest)
        self._rest = b""
        self.ended.set()

    def _say(self, line: bytes) -> None:
        text = self._redaction.clean(line[:LONGEST_LINE].decode(errors="replace"))
        if text:
            self._newest.append(text)
            self._log.info("{}: {}", self._server, text)


@contextlib.asynccontextmanager
async def child_stderr(server: str, redaction: Redaction) -> AsyncIterator[tuple[IO[bytes], ChildStderr]]:
    """Open a pipe for one child's stderr and read it until it ends or the block is left.

    Yields the end to give to the child, which the block closes once the child has it, and the reader.
    """
    read_end, write_end = os.pipe()
    with os.fdopen(write_end, "wb", buffering=0) as for_child:
        reader = ChildStderr(server, redaction)
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
