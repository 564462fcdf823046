"""Open a database and run short transactions on it, with error messages that callers may see.

An absent database is created; one that a newer Toolweave wrote is refused.
"""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import sqlalchemy as sa
from sqlalchemy.dialects.sqlite import aiosqlite
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from toolweave import postgresql
from toolweave.errors import NewerSchema, PersistenceError, sqlite_failure
from toolweave.files import make_file, make_folder
from toolweave.servers.databases.engine import (
    DatabaseKind,
    OpenedFile,
    SQLiteThreads,
    create_engine,
    parse_url,
    sqlite_file,
)

# Shorter than a tool's timeout, so that a caller gets "busy" instead of a timeout error.
BUSY_TIMEOUT_S = 3.0
_RETRY_DELAY_S = 0.02
_TOO_MANY_CALLS = "is busy: too many calls wait for it"


@dataclass(frozen=True, slots=True)
class Database:
    """A database of one kind, with a current schema if `open_database` has prepared it.

    A write after the SQLite `file` was deleted or replaced prepares the new file first. In one process one call writes
    at a time, and the others wait up to `queue_timeout_s`: the database allows one writer anyway, and connections stay
    free for readers.
    """

    engine: AsyncEngine
    kind: DatabaseKind
    write_lock: asyncio.Lock
    queue_timeout_s: float
    file: OpenedFile

    @property
    def is_postgresql(self) -> bool:
        """Return whether it is a PostgreSQL database."""
        return self.engine.dialect.name == "postgresql"

    @property
    def is_sqlite(self) -> bool:
        """Return whether it is a SQLite database."""
        return self.engine.dialect.name == "sqlite"

    @property
    def label(self) -> str:
        """Return the database's name for messages."""
        url = self.engine.url
        # Without the URL's options, which may contain a password.
        return (url.database or ":memory:") if self.is_sqlite else url.set(query={}).render_as_string()

    @asynccontextmanager
    async def read(self) -> AsyncIterator[AsyncConnection]:
        """Open a read transaction, which sees one snapshot of the database.

        Raises:
            PersistenceError: the database is busy, damaged or gone.
        """
        async with self._transaction("DEFERRED") as connection:
            yield connection

    async def select(self, statement: sa.Select[Any], values: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        """Return the rows of one SELECT, run outside a transaction; `values` contains its parameters.

        On SQLite it needs one step on the connection's thread, where SQLAlchemy needs ten, and a reused statement is
        compiled once.

        Raises:
            PersistenceError: the database is busy, damaged or gone.
        """
        if not self.is_sqlite:
            async with self.read() as connection:
                return [dict(row) for row in (await connection.execute(statement, values)).mappings()]
        text, columns, parameters = _compile_select(statement)
        try:
            async with self.engine.connect() as connection:
                driver: Any = (await connection.get_raw_connection()).driver_connection
                rows = await driver.execute_fetchall(text, [values[name] for name in parameters])
        except (sa.exc.SQLAlchemyError, sqlite3.Error) as error:
            raise PersistenceError(f"The {self.kind.name} {failure_reason(error)}.") from error
        return [dict(zip(columns, row, strict=True)) for row in rows]

    @asynccontextmanager
    async def write(self) -> AsyncIterator[AsyncConnection]:
        """Open a write transaction, which excludes other writers from its start and commits at its end.

        Raises:
            PersistenceError: the database is busy, full, damaged or gone. Nothing was written, unless the connection
                to PostgreSQL breaks during the commit.
        """
        try:
            async with asyncio.timeout(self.queue_timeout_s):
                await self.write_lock.acquire()
        except TimeoutError:
            raise PersistenceError(f"The {self.kind.name} {_TOO_MANY_CALLS}.") from None
        try:
            # On a thread, because the disk may be slow.
            if await asyncio.to_thread(self.file.is_replaced):
                await self.engine.dispose()
                await self.prepare()
            async with self._transaction("IMMEDIATE") as connection:
                yield connection
        finally:
            self.write_lock.release()

    async def prepare(self) -> None:
        """Create the folder, file and schema if they are absent. Raises PersistenceError or its NewerSchema."""
        with self._translate_errors():
            if self.file.path:
                await asyncio.to_thread(_create_private_file, self.file.path)
            async with self.read() as connection:
                is_there = await self._has_schema(connection)
            if not is_there:
                await self._create()
            await asyncio.to_thread(self.file.record_identity)

    async def has_schema(self) -> bool:
        """Return whether the schema exists. Raises PersistenceError or its NewerSchema."""
        with self._translate_errors():
            async with self.read() as connection:
                return await self._has_schema(connection)

    async def _create(self) -> None:
        if self.is_sqlite:
            await _use_write_ahead_log(self)
        async with self._transaction("IMMEDIATE") as connection:
            if self.is_postgresql and (problem := await postgresql.encoding_problem(connection)):
                raise PersistenceError(f"The {self.kind.name} {problem}.")
            # Another process may have created it meanwhile.
            if not await self._has_schema(connection):
                await self.kind.create(connection)
                await connection.execute(self.kind.version_table.insert().values(version=self.kind.version))

    async def _has_schema(self, connection: AsyncConnection) -> bool:
        kind, versions = self.kind, self.kind.version_table
        if not await connection.run_sync(lambda sync: sa.inspect(sync).has_table(versions.name)):
            return False
        version = await connection.scalar(sa.select(versions.c.version))
        if version is not None and version > kind.version:
            alternative = f"set {kind.setting} to another database"
            raise NewerSchema.for_database(f"The {kind.name} {self.label}", version, kind.version, alternative)
        return version is not None

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Raise errors from the block as PersistenceError with the database's name and what to check."""
        try:
            yield
        except NewerSchema:
            raise
        except (PersistenceError, OSError, UnicodeError) as error:
            match error:
                case OSError():
                    cause = error.strerror
                case UnicodeError():
                    cause = "its host name is invalid"
                case _:
                    cause = str(error).removesuffix(".")
            check = "the file and its folder exist and are writable"
            raise PersistenceError(
                f"Cannot open the {self.kind.name} {self.label}: {cause}. Check that "
                f"{check if self.is_sqlite else 'its server runs and accepts your user'}, "
                f"or set {self.kind.setting} to another database."
            ) from error

    @asynccontextmanager
    async def _transaction(self, begin: Literal["DEFERRED", "IMMEDIATE"]) -> AsyncIterator[AsyncConnection]:
        """Begin a transaction in one of SQLite's modes; a DEFERRED one that writes after reading may be refused."""
        # A frozen server neither answers nor closes the connection.
        limit = asyncio.timeout(postgresql.TRANSACTION_TIMEOUT_S if self.is_postgresql else None)
        try:
            async with limit, self.engine.connect() as connection:
                await connection.execution_options(begin=begin)
                async with connection.begin():
                    yield connection
        except sa.exc.SQLAlchemyError as error:
            raise PersistenceError(f"The {self.kind.name} {failure_reason(error)}.") from error
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise PersistenceError(f"The {self.kind.name} does not answer.") from error


@asynccontextmanager
async def open_database(
    url: str | sa.URL,
    kind: DatabaseKind,
    *,
    busy_timeout_s: float = BUSY_TIMEOUT_S,
    queue_timeout_s: float | None = None,
    prepare: bool = True,
) -> AsyncIterator[Database]:
    """Open the database at a SQLAlchemy URL; create an absent SQLite file, its folder and the schema.

    A call waits up to `busy_timeout_s` for other programs that lock the database, and up to `queue_timeout_s` (by
    default the same) for a connection that other calls of this process use. Without `prepare`, nothing is created.
    The end waits up to `busy_timeout_s` for SQLite statements of cancelled calls.

    Raises:
        ConfigError: the URL is invalid, or its driver is not installed.
        NewerSchema: a newer Toolweave wrote the database; nothing was changed.
        PersistenceError: it cannot be opened; the message contains its name and the fix.
    """
    parsed = parse_url(url, kind.setting)
    wait_s = busy_timeout_s if queue_timeout_s is None else queue_timeout_s
    threads = SQLiteThreads()
    # On a thread: importing a driver reads files, and some servers forbid blocking calls on the event loop.
    engine = await asyncio.to_thread(create_engine, parsed, kind, busy_timeout_s, wait_s, threads)
    database = Database(engine, kind, asyncio.Lock(), wait_s, OpenedFile(sqlite_file(parsed)))
    try:
        if prepare:
            await database.prepare()
        yield database
    finally:
        await engine.dispose()
        await threads.wait(busy_timeout_s)


async def has_schema(url: str | sa.URL, kind: DatabaseKind) -> bool:
    """Return whether a database has the schema, without creating it; raises as `open_database`."""
    async with open_database(url, kind, prepare=False) as database:
        return await database.has_schema()


def _create_private_file(file: Path) -> None:
    make_folder(file.parent)
    make_file(file)


async def _use_write_ahead_log(database: Database) -> None:
    """Switch the file permanently to write-ahead logging, with which readers and a writer do not block each other.

    If two processes switch a new file at once, SQLite ignores its busy timeout, so this function retries.
    """
    attempts = int(BUSY_TIMEOUT_S / _RETRY_DELAY_S)
    async with database.engine.connect() as connection:
        driver: Any = (await connection.get_raw_connection()).driver_connection
        for attempt in range(attempts):
            try:
                await driver.execute_fetchall("PRAGMA journal_mode = WAL")
            except sqlite3.OperationalError as error:
                if error.sqlite_errorname != "SQLITE_BUSY" or attempt == attempts - 1:
                    raise PersistenceError(f"The {database.kind.name} cannot be prepared: {error}.") from error
                await asyncio.sleep(_RETRY_DELAY_S)
            else:
                return


@lru_cache(maxsize=256)
def _compile_select(statement: sa.Select[Any]) -> tuple[str, list[str], list[str]]:
    """Compile a SELECT for SQLite: its text, its column names, and its parameter names in order."""
    compiled: Any = statement.compile(dialect=aiosqlite.dialect())
    return str(compiled), [column.name for column in statement.selected_columns], compiled.positiontup


def failure_reason(error: BaseException | None) -> str:
    """Return why a database failed, without any text from the driver."""
    if isinstance(error, sa.exc.TimeoutError):
        return _TOO_MANY_CALLS
    cause = error.orig if isinstance(error, sa.exc.DBAPIError) else error
    return sqlite_failure(cause).reason if isinstance(cause, sqlite3.Error) else postgresql.failure_reason(cause)
