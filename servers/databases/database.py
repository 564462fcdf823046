"""Open a database and run short transactions on it; the reasons of their failures may be shown to anybody.

What is absent is created; what a newer Toolweave wrote is refused.
"""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import sqlalchemy as sa
from sqlalchemy.dialects.sqlite import aiosqlite
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from toolweave.errors import NewerSchema, PersistenceError
from toolweave.files import make_file, make_folder
from toolweave.servers.databases import postgresql
from toolweave.servers.databases.engine import DatabaseKind, OpenedFile, create_engine, file_of, parse_url
from toolweave.servers.databases.postgresql import encoding_problem

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


# Shorter than a tool's limit, so that a caller hears that the database is busy instead of a time-out.
BUSY_TIMEOUT_S = 3.0
_RETRY_S = 0.02


@asynccontextmanager
async def open_database(
    url: str | sa.URL,
    kind: DatabaseKind,
    *,
    busy_timeout_s: float = BUSY_TIMEOUT_S,
    queue_timeout_s: float | None = None,
) -> AsyncIterator[Database]:
    """Open the database at a SQLAlchemy URL; a SQLite file, its folder and the schema are created when absent.

    Whoever holds the database is waited for up to `busy_timeout_s`, and for a connection while all are used by others
    of this process up to `queue_timeout_s`, by default as long.

    Raises:
        ConfigError: the URL is none, or its driver is not installed.
        NewerSchema: a newer Toolweave wrote the database; nothing was changed.
        PersistenceError: it cannot be opened; names it and the fix.
    """
    async with _connected(url, kind, busy_timeout_s, queue_timeout_s) as database:
        await database.prepare(database)
        yield database


async def has_schema(url: str | sa.URL, kind: DatabaseKind) -> bool:
    """Tell whether a database has the schema, which is not created; raises what `open_database` does."""
    async with _connected(url, kind, BUSY_TIMEOUT_S, None) as database:
        parsed = parse_url(url, kind)
        with _refusing_in_words(kind, parsed):
            async with database.read() as connection:
                return await kind.is_current(connection, _label(parsed))


@asynccontextmanager
async def _connected(
    url: str | sa.URL, kind: DatabaseKind, busy_timeout_s: float, queue_timeout_s: float | None
) -> AsyncIterator[Database]:
    parsed = parse_url(url, kind)
    # On a thread: importing a driver reads files, and event loops of others watch for that.
    patience_s = busy_timeout_s if queue_timeout_s is None else queue_timeout_s
    engine = await asyncio.to_thread(create_engine, parsed, kind, busy_timeout_s, patience_s)
    turns, file = WritersTurns(patience_s), OpenedFile(file_of(parsed))
    database = Database(engine, kind, turns, file, partial(_prepare, url=parsed))
    try:
        yield database
    finally:
        await database.engine.dispose()


async def _prepare(database: Database, url: sa.URL) -> None:
    with _refusing_in_words(database.kind, url):
        if file := file_of(url):
            await asyncio.to_thread(_make_room, file)
        await _make_current(database, _label(url))
        await asyncio.to_thread(database.file.remember)


def _label(url: sa.URL) -> str:
    if url.get_backend_name() == "sqlite":
        return url.database or ":memory:"
    # Without its options: a password may be among them.
    return url.set(query={}).render_as_string(hide_password=True)


@contextmanager
def _refusing_in_words(kind: DatabaseKind, url: sa.URL) -> Iterator[None]:
    try:
        yield
    except NewerSchema:
        raise
    except (PersistenceError, OSError, UnicodeError) as error:
        raise PersistenceError(_cannot_open(kind, url, error)) from error


def _make_room(file: Path) -> None:
    make_folder(file.parent)
    make_file(file)


async def _make_current(database: Database, label: str) -> None:
    async with database.read() as connection:
        if await database.kind.is_current(connection, label):
            return
    if database.engine.dialect.name == "sqlite":
        await _use_write_ahead_log(database)
    async with database.transaction("IMMEDIATE") as connection:
        if database.is_postgresql and (problem := await encoding_problem(connection)):
            raise PersistenceError(f"The {database.kind.name} {problem}.")
        # Another process may have created it between the two transactions.
        await database.kind.make_current(connection, label)


async def _use_write_ahead_log(database: Database) -> None:
    """Let readers and a writer work side by side; the file remembers it.

    SQLite answers "locked" at once, without its busy timeout, when two processes switch a new file together.
    """
    attempts = int(BUSY_TIMEOUT_S / _RETRY_S)
    async with database.engine.connect() as connection:
        driver: Any = (await connection.get_raw_connection()).driver_connection
        for attempt in range(attempts):
            try:
                await driver.execute_fetchall("PRAGMA journal_mode = WAL")
            except sqlite3.OperationalError as error:
                if error.sqlite_errorname != "SQLITE_BUSY" or attempt == attempts - 1:
                    raise PersistenceError(f"The {database.kind.name} cannot be prepared: {error}.") from error
                await asyncio.sleep(_RETRY_S)
            else:
                return


def _cannot_open(kind: DatabaseKind, url: sa.URL, error: Exception) -> str:
    is_sqlite = url.get_backend_name() == "sqlite"
    match error:
        case OSError():
            reason = error.strerror
        case UnicodeError():
            reason = "its host is no name of a host"
        case _:
            reason = str(error).removesuffix(".")
    check = "the file and its folder are there for writing" if is_sqlite else "its server runs and lets you in"
    return (
        f"Cannot open the {kind.name} {_label(url)}: {reason}. Check that {check}, "
        f"or set {kind.setting} to another database."
    )
