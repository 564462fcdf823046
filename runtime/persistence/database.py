"""Give asynchronous access to one SQLite file: one writer that commits in groups, one reader.

SQLite has one writer at a time anyway. Here it is a thread that takes everything queued, runs each work in its own
savepoint and commits once; a write is acknowledged only after that commit. Readers see every acknowledged write.
A database server's engine can offer the same three methods (`AsyncConnection.run_sync`), so work is written against
SQLAlchemy's synchronous `Connection`, and never begins or commits by itself.
"""

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar, cast

from sqlalchemy import Connection, text

from toolweave.errors import PersistenceError
from toolweave.runtime.persistence.batches import commit_group, read_each
from toolweave.runtime.persistence.connection_thread import ConnectionThread
from toolweave.runtime.persistence.failures import FREE_SPACE
from toolweave.runtime.persistence.sqlite import connect_reader, connect_writer, disconnect

T = TypeVar("T")
# More than what is left of a block, and nothing to a disk that has room.
SPACE_TAKEN = 64 * 1024


class Database:
    """One SQLite file, used from the event loop (S-05)."""

    def __init__(self, path: Path, writer: ConnectionThread, reader: ConnectionThread) -> None:
        self.path = path
        self._writer = writer
        self._reader = reader

    async def write(self, work: Callable[[Connection], T]) -> T:
        """Run work in the writer's transaction and return its result once that is committed.

        Cancelling the caller does not take a queued write back.

        Raises:
            PersistenceError: the database could not store it; then nothing of this work is stored.
            Exception: whatever the work raised; then nothing of this work is stored either.
        """
        return cast("T", await self._writer.submit(work))

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Run work that only reads, in one snapshot that has every acknowledged write."""
        return cast("T", await self._reader.submit(work))

    async def require_writable(self) -> None:
        """Commit a write that changes nothing, and take new space on the file's disk for a moment.

        The commit alone is no proof: SQLite writes into blocks that its log has had before, also on a full disk.

        Raises:
            PersistenceError: the database cannot store anything; says why.
        """
        await self.write(partial(_write_something, self.path))

    def write_soon(self, work: Callable[[Connection], object]) -> None:
        """Queue work behind all earlier writes without waiting; a failure is logged."""
        self._writer.submit_soon(work)


def _write_something(path: Path, connection: Connection) -> None:
    connection.execute(text("UPDATE alembic_version SET version_num = version_num"))
    taken = path.with_name(f".{path.name}.space")
    try:
        with os.fdopen(os.open(taken, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(bytes(SPACE_TAKEN))
    except OSError as error:
        raise PersistenceError(f"{path}: nothing can be stored beside it: {error.strerror}. {FREE_SPACE}") from error
    finally:
        taken.unlink(missing_ok=True)


@asynccontextmanager
async def open_database(path: Path, prepare: Callable[[Connection], None] | None = None) -> AsyncIterator[Database]:
    """Open the file, creating it, and do everything queued before closing it.

    `prepare` runs first, in one transaction on the writer's connection: migrations.

    Raises:
        PersistenceError: the file cannot be opened, is damaged, or is not writable.
    """
    writer = ConnectionThread(
        f"{path.stem}-writer", partial(connect_writer, path, prepare), partial(commit_group, path), disconnect
    )
    reader = ConnectionThread(
        f"{path.stem}-reader", partial(connect_reader, path), partial(read_each, path), disconnect
    )
    await writer.open()
    try:
        await reader.open()
        try:
            yield Database(path, writer, reader)
        finally:
            await reader.close()
    finally:
        await writer.close()
