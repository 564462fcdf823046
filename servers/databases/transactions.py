"""Hold an open database: short transactions whose failures are told in words that may be shown."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Literal

import sqlalchemy as sa
from sqlalchemy.dialects.sqlite import aiosqlite
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from toolweave.errors import PersistenceError
from toolweave.servers.databases import postgresql
from toolweave.servers.databases.kind import DatabaseKind
from toolweave.servers.databases.opened_file import OpenedFile
from toolweave.servers.databases.writers_turns import TOO_MANY, WritersTurns

NOTHING: Mapping[str, Any] = MappingProxyType({})
_REASONS = {
    "SQLITE_BUSY": "is busy: another program is writing to it",
    "SQLITE_LOCKED": "is busy: another program is writing to it",
    "SQLITE_FULL": "cannot grow: the disk is full",
    "SQLITE_READONLY": "is read-only",
    "SQLITE_CANTOPEN": "cannot be opened",
    "SQLITE_NOTADB": "is not a SQLite database",
    "SQLITE_CORRUPT": "is damaged",
    "SQLITE_IOERR": "cannot be read or written: the disk reports an error",
}


@dataclass(frozen=True, slots=True)
class Database:
    """A database of one kind; once `open_database` gave it, its schema is current.

    Whoever writes when the SQLite `file` was deleted or replaced has it prepared anew, as at the start.
    """

    engine: AsyncEngine
    kind: DatabaseKind
    writers: WritersTurns
    file: OpenedFile
    prepare: Callable[["Database"], Awaitable[None]]

    @property
    def is_postgresql(self) -> bool:
        """Tell whether it is a PostgreSQL."""
        return self.engine.dialect.name == "postgresql"

    @asynccontextmanager
    async def read(self) -> AsyncIterator[AsyncConnection]:
        """Open a transaction that sees one state of the database.

        Raises:
            PersistenceError: the database is busy, damaged or gone.
        """
        async with self.transaction("DEFERRED") as connection:
            yield connection

    async def select(self, statement: sa.Select[Any], given: Mapping[str, Any] = NOTHING) -> list[Mapping[str, Any]]:
        """Return the rows of one SELECT, which sees one state of the database without a transaction around it.

        On SQLite it takes one step on the connection's thread, where SQLAlchemy's own way takes ten; a statement that
        is used again, with other values in `given` for its parameters, is written out once.

        Raises:
            PersistenceError: the database is busy, damaged or gone.
        """
        if self.engine.dialect.name != "sqlite":
            async with self.read() as connection:
                return [dict(row) for row in (await connection.execute(statement, given)).mappings()]
        written = _written(statement)
        values = [given.get(name, value) for name, value in written.parameters]
        try:
            async with self.engine.connect() as connection:
                driver: Any = (await connection.get_raw_connection()).driver_connection
                rows = await driver.execute_fetchall(written.text, values)
        except (sa.exc.SQLAlchemyError, sqlite3.Error) as error:
            raise PersistenceError(f"The {self.kind.name} {_reason(error)}.") from error
        return [dict(zip(written.columns, row, strict=True)) for row in rows]

    @asynccontextmanager
    async def write(self) -> AsyncIterator[AsyncConnection]:
        """Open a transaction that commits at its end; it has the database for itself from its start.

        Raises:
            PersistenceError: the database is busy, full, damaged or gone; nothing was written, unless the connection
                to a PostgreSQL breaks while it commits.
        """
        async with self.writers.one(self.kind):
            # On a thread: a folder may be on a slow disk. On SQLite nobody else has a turn meanwhile.
            if await asyncio.to_thread(self.file.has_gone):
                await self.engine.dispose()
                await self.prepare(self)
            async with self.transaction("IMMEDIATE") as connection:
                yield connection

    @asynccontextmanager
    async def transaction(self, begin: Literal["DEFERRED", "IMMEDIATE"]) -> AsyncIterator[AsyncConnection]:
        """Begin as told, in SQLite's words: a reader that turns writer may find itself refused. Wait for no turn.

        Raises:
            PersistenceError: the database is busy, full, damaged or gone.
        """
        # A server that is frozen neither answers nor breaks the connection.
        limit = asyncio.timeout(postgresql.TRANSACTION_LIMIT_S if self.is_postgresql else None)
        try:
            async with limit, self.engine.connect() as connection:
                await connection.execution_options(begin=begin)
                async with connection.begin():
                    yield connection
        except sa.exc.SQLAlchemyError as error:
            raise PersistenceError(f"The {self.kind.name} {_reason(error)}.") from error
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise PersistenceError(f"The {self.kind.name} does not answer.") from error


@dataclass(frozen=True, slots=True)
class _Written:
    """A statement as SQLite takes it; `parameters` are in order, with the values they have by themselves."""

    text: str
    columns: tuple[str, ...]
    parameters: tuple[tuple[str, Any], ...]


@lru_cache(maxsize=256)
def _written(statement: sa.Select[Any]) -> _Written:
    compiled: Any = statement.compile(dialect=aiosqlite.dialect(), compile_kwargs={"render_postcompile": True})
    columns = tuple(column.name for column in statement.selected_columns)
    parameters = tuple((name, compiled.params[name]) for name in compiled.positiontup)
    return _Written(str(compiled), columns, parameters)


def _reason(error: sa.exc.SQLAlchemyError | sqlite3.Error) -> str:
    if isinstance(error, sa.exc.TimeoutError):
        return TOO_MANY
    cause = error.orig if isinstance(error, sa.exc.DBAPIError) else error
    if not isinstance(cause, sqlite3.Error):
        return postgresql.reason(cause)
    # Extended codes such as SQLITE_IOERR_WRITE carry the primary one as their beginning.
    primary = "_".join(getattr(cause, "sqlite_errorname", "").split("_")[:2])
    return _REASONS.get(primary, "cannot be used")
