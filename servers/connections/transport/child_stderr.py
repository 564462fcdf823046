"""Bring what a stdio server writes to stderr into our log, line by line, with the server's name (T-07)."""

import asyncio
import contextlib
import os
from collections import deque
from collections.abc import AsyncIterator
from typing import IO

from loguru import logger

from toolweave.redact import TAIL
from toolweave.servers.connections.redaction import Redaction
from toolweave.servers.connections.transport.log_budget import LogBudget

LONGEST_LINE = 8_192
LAST_LINES = 5
CLOSING_WAIT_S = 0.2


class ChildStderr(asyncio.Protocol):
    """Collect a pipe's bytes into log lines; `last_words` keeps the newest ones for error messages.

    All is read, so that no server waits for us. Of a line only the beginning is kept, and what is over the budget is
    counted and not logged.
    """

    def __init__(self, server: str, redaction: Redaction, budget: LogBudget) -> None:
        self._log = logger.bind(server=server)
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
        """Log the lines that are complete; of a line without an end the beginning is kept until it has one."""
        first, *others = data.split(b"\n")
        self._keep(first)
        for begun in others:
            self._say(self._line)
            self._line = b""
            self._keep(begun)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the Protocol's signature
        """Log what is left when the pipe closes."""
        self._say(self._line)
        self._line = b""
        self._tell_left_out()
        self.ended.set()

    def _keep(self, part: bytes) -> None:
        self._line += part[: LONGEST_LINE - len(self._line)]

    def _say(self, line: bytes) -> None:
        if not line.strip():
            return
        self._newest.append(line)
        if self._budget.admits() and (text := self._clean(line)):
            self._tell_left_out()
            self._log.info("{}: {}", self._server, text)

    def _tell_left_out(self) -> None:
        if left_out := self._budget.left_out():
            self._log.warning("{}: … {} more lines, too many to log", self._server, left_out)

    def _clean(self, line: bytes) -> str:
        text = line.decode(errors="replace")
        if len(line) == LONGEST_LINE:
            # It was cut, and perhaps a secret with it.
            text = self._redaction.blank(text)[:-TAIL]
        return self._redaction.clean(text)


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
