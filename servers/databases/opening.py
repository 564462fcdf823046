"""Open a database: create what is absent, refuse what a newer Toolweave wrote."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from toolweave.errors import NewerSchema, PersistenceError
from toolweave.private_files import make_file, make_folder
from toolweave.servers.databases.engine import create_engine, file_of, parse_url
from toolweave.servers.databases.kind import DatabaseKind
from toolweave.servers.databases.opened_file import OpenedFile
from toolweave.servers.databases.postgresql import encoding_problem
from toolweave.servers.databases.transactions import Database
from toolweave.servers.databases.writers_turns import WritersTurns

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
