"""Keep connections free for readers, however many writers wait."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from toolweave.errors import PersistenceError
from toolweave.servers.databases.kind import DatabaseKind

TOO_MANY = "is busy: too many calls wait for it"


class WritersTurns:
    """Let one of a process write at a time: those who wait for it to finish leave connections to readers.

    The database lets one write at a time anyway; SQLite asks it again and again meanwhile.
    """

    def __init__(self, patience_s: float) -> None:
        self._turns = asyncio.Lock()
        self._patience_s = patience_s

    @asynccontextmanager
    async def one(self, kind: DatabaseKind) -> AsyncIterator[None]:
        """Wait for a turn, and have it. Raises PersistenceError when it takes too long."""
        try:
            async with asyncio.timeout(self._patience_s):
                await self._turns.acquire()
        except TimeoutError:
            raise PersistenceError(f"The {kind.name} {TOO_MANY}.") from None
        try:
            yield
        finally:
            self._turns.release()
