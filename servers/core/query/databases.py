"""Open the database that queries read, describe its tables, and explain its failures (C-03, C-06, D-9).

A database is only read. SQLite opens its file for reading only and never creates one; PostgreSQL reads in transactions
that cannot write, cannot last and trust no schema but its own; of any other database transactions are rolled back, and
that its user may only read is the operator's part.
"""

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import AsyncAdaptedQueuePool

from toolweave.config.settings import AllowedTable, Settings
from toolweave.errors import ConfigError
from toolweave.servers.core.query.columns import Column, describe
from toolweave.servers.databases import postgresql
from toolweave.servers.databases.engine import OpenedFile, file_of
from toolweave.servers.error_codes import (
    ACCESS_DENIED,
    NOT_FOUND,
    QUERY_REFUSED,
    QUERY_TIMEOUT,
    UNAVAILABLE,
    ErrorCode,
    ToolFailed,
)
from toolweave.servers.todo.database import database_url as todo_database_url

T = TypeVar("T")
CONNECTIONS = 5
DESCRIBED_FOR_S = 60.0
_SETTING = "TOOLWEAVE_QUERY_DATABASE_URL"
# Longer than PostgreSQL's own limit, so that its reason arrives.
_GRACE_S = 0.5
_ENDING_LIMIT_S = 3.0
# So many steps of SQLite's machine take some tens of microseconds.
_STEPS_BETWEEN_LOOKS = 5_000
_NO_SUCH_ROLE = ("22023", "42501", "42704")


class QueryDatabase:
    """A database that is only read; connections are opened with the first use, and anew when they have broken.

    `backend` is the kind of database as in its URL.
    """

    def __init__(self, engine: AsyncEngine, url: sa.URL, timeout_s: float, role: str | None) -> None:
        self._engine = engine
        self.backend = url.get_backend_name()
        self._timeout_s = timeout_s
        # SQLite ends a statement itself; PostgreSQL does, too, and its error arrives a little later.
        self._deadline_s = {"sqlite": None, "postgresql": timeout_s + _GRACE_S}.get(self.backend, timeout_s)
        self._first = _postgresql_settings(timeout_s, role) if self.backend == "postgresql" else None
        self._path = file_of(url)
        self._file = OpenedFile(self._path)
        self._given_up: set[asyncio.Future[Any]] = set()

    @property
    def orders_nulls(self) -> bool:
        """Say whether its SQL can order missing values last."""
        return self.backend in ("sqlite", "postgresql")

    async def run(self, work: Callable[[AsyncConnection], Awaitable[T]]) -> T:
        """Do some reading in a transaction of its own; the database ends it when the caller is cancelled.

        Raises:
            ToolFailed: there is no such file, or the role of the settings cannot be taken.
            TimeoutError: the database is silent.
            SQLAlchemyError: whatever the database says.
        """
        if self._path:
            is_another: bool = await asyncio.to_thread(self._is_another_file, self._path)
            if is_another:
                await self._engine.dispose()
        use = _Use(time.monotonic() + self._timeout_s, may_be_cancelled=self._path is None)
        reading = asyncio.ensure_future(self._read(work, use))
        # A cursor whose use is cancelled half-way would stay open: the statement is cancelled instead.
        try:
            async with asyncio.timeout(self._deadline_s):
                return await asyncio.shield(reading)
        finally:
            if not reading.done():
                ending = asyncio.ensure_future(use.end(reading))
                self._given_up.add(ending)
                ending.add_done_callback(self._given_up.discard)
                await asyncio.wait({ending}, timeout=_GRACE_S)

    async def close(self) -> None:
        """Let what was given up come to its end, and close the connections."""
        if self._given_up:
            await asyncio.wait(self._given_up, timeout=_ENDING_LIMIT_S)
        await self._engine.dispose()

    async def _read(self, work: Callable[[AsyncConnection], Awaitable[T]], use: "_Use") -> T:
        async with self._engine.connect() as connection:
            raw = await connection.get_raw_connection()
            use.driver, raw.info["use"] = raw.driver_connection, use
            try:
                if self._first is not None:
                    await _execute_settings(connection, self._first)
                return await work(connection)
            finally:
                use.driver = None

    def _is_another_file(self, path: Path) -> bool:
        if not path.is_file():
            raise ToolFailed(
                UNAVAILABLE,
                "There is no database file yet, and query_database creates none.",
                f"Ask the operator to check {_SETTING}; the todo database is there once the todo server was started.",
            )
        changed = self._file.has_gone()
        self._file.remember()
        return changed


@dataclass(slots=True)
class _Use:
    """One use of a connection: when it must end; `driver` is the connection while it is in use."""

    ends_at: float
    may_be_cancelled: bool
    driver: Any = None

    async def end(self, reading: "asyncio.Future[Any]") -> None:
        """Have the database cancel the statement; where it does not listen, break off."""
        self.ends_at = 0.0
        if hasattr(self.driver, "cancel_safe"):
            cancelling = asyncio.ensure_future(self.driver.cancel_safe(timeout=_GRACE_S))
            cancelling.add_done_callback(_retrieve_exception)
            await asyncio.wait({cancelling, reading}, timeout=2 * _GRACE_S)
        if self.may_be_cancelled:
            reading.cancel()
        await asyncio.wait({reading})
        _retrieve_exception(reading)


def _retrieve_exception(done: "asyncio.Future[Any]") -> None:
    if not done.cancelled():
        done.exception()


@asynccontextmanager
async def open_query_database(settings: Settings) -> AsyncIterator[QueryDatabase]:
    """Prepare the database of the settings, by default the todo server's; it is connected with first use.

    Raises:
        ConfigError: the URL is none, or its driver is not installed.
    """
    url = _parsed(settings.query_database_url or todo_database_url(settings))
    if url.get_backend_name() == "sqlite" and file_of(url) is None:
        raise ConfigError("a database in memory has nothing to query.", source=_SETTING, fix="Name a file.")
    try:
        # On a thread: importing a driver reads files, and event loops of others watch for that.
        engine = await asyncio.to_thread(_engine, url, settings.query_timeout_s)
    except (sa.exc.ArgumentError, sa.exc.InvalidRequestError, ImportError) as error:
        raise _no_driver(url) from error
    database = QueryDatabase(engine, url, settings.query_timeout_s, settings.query_role)
    try:
        yield database
    finally:
        await database.close()


def _engine(url: sa.URL, timeout_s: float) -> AsyncEngine:
    file = file_of(url)
    # Connections that broke while they waited are opened anew.
    options: dict[str, Any] = {"pool_pre_ping": file is None}
    if file:
        name = f"file:{quote(str(file.absolute()))}"
        url = sa.URL.create("sqlite+aiosqlite", database=name, query={"mode": "ro", "uri": "true"})
        options["connect_args"] = {"timeout": timeout_s}
    elif url.get_backend_name() == "postgresql":
        options["execution_options"] = {"postgresql_readonly": True}
        if url.drivername == postgresql.DRIVER:
            options["connect_args"] = postgresql.connect_args(url, "query_database")
    pool = {"poolclass": AsyncAdaptedQueuePool, "pool_size": CONNECTIONS, "max_overflow": 0, "pool_timeout": timeout_s}
    engine = create_async_engine(url, **pool, **options)
    if file:
        sa.event.listen(engine.sync_engine, "connect", _prepare_sqlite)
    return engine


def _prepare_sqlite(connection: Any, record: Any) -> None:
    async def prepare(driver: Any) -> None:
        # SQLite takes any bytes for a text.
        driver.text_factory = lambda text: text.decode(errors="replace")
        for pragma in ("query_only = ON", "trusted_schema = OFF"):
            await driver.execute_fetchall(f"PRAGMA {pragma}")
        await driver.set_progress_handler(must_end, _STEPS_BETWEEN_LOOKS)

    def must_end() -> bool:
        use = record.info.get("use")
        return use is not None and time.monotonic() > use.ends_at

    connection.run_async(prepare)


def _postgresql_settings(timeout_s: float, role: str | None) -> sa.Select[tuple[str]]:
    """Select what sets the transaction's settings: for it alone, as a pooler may give the connection to others."""
    milliseconds = str(max(1, int(timeout_s * 1000)))
    settings = {
        "statement_timeout": milliseconds,
        "lock_timeout": milliseconds,
        "idle_in_transaction_session_timeout": milliseconds,
        # What is not named with its schema is what PostgreSQL ships; nobody else can put a function in its place.
        "search_path": "pg_catalog, pg_temp",
        "timezone": "UTC",
        "datestyle": "ISO, YMD",
        "extra_float_digits": "1",
    }
    if role:
        settings["role"] = role
    set_config, is_local = sa.func.pg_catalog.set_config, sa.literal(True)
    return sa.select(*(set_config(sa.literal(name), sa.literal(value), is_local) for name, value in settings.items()))


async def _execute_settings(connection: AsyncConnection, settings: sa.Select[tuple[str]]) -> None:
    try:
        await connection.execute(settings)
    except sa.exc.DBAPIError as error:
        if getattr(error.orig, "sqlstate", None) not in _NO_SUCH_ROLE:
            raise
        raise ToolFailed(
            UNAVAILABLE,
            "The role that queries are run as cannot be taken.",
            "Ask the operator to check TOOLWEAVE_QUERY_ROLE, and that the database's user is a member of it.",
        ) from error


def _parsed(url: str) -> sa.URL:
    try:
        parsed = sa.make_url(url)
    except sa.exc.ArgumentError:
        raise ConfigError(
            "this is not a database URL.",
            source=_SETTING,
            fix="Give one such as postgresql://reader@db.internal/shop, or unset it to use the todo database.",
        ) from None
    return parsed.set(drivername=postgresql.DRIVER) if parsed.drivername in ("postgres", "postgresql") else parsed


def _no_driver(url: sa.URL) -> ConfigError:
    install = (
        "Install it: pip install 'toolweave[postgres]'."
        if url.drivername == postgresql.DRIVER
        else "Install one, and name it in the URL; PostgreSQL is reached with postgresql://, SQLite with sqlite://."
    )
    return ConfigError(f"there is no asynchronous driver for {url.drivername} here.", source=_SETTING, fix=install)


@dataclass(frozen=True, slots=True)
class Table:
    """A table as of a look at the database; `columns` are those that may be read.

    `key` names the columns of its primary key; it is empty where not all of them may be read.
    """

    label: str
    clause: sa.TableClause
    columns: Mapping[str, Column]
    key: tuple[str, ...]


class Catalogue:
    """The tables by the names that callers use; described again when the description is old or lacks a column."""

    def __init__(self, allowed: Iterable[AllowedTable], database: QueryDatabase) -> None:
        self._allowed = {table.label: table for table in allowed}
        self._database = database
        self._seen: dict[str, tuple[float, Table]] = {}
        self._looking = asyncio.Lock()

    @property
    def labels(self) -> list[str]:
        """List the names of the tables that may be read."""
        return list(self._allowed)

    async def table(self, label: str, needed: Collection[str] = ()) -> Table:
        """Describe an allowed table; one that lacks a column of `needed` is looked at again.

        Raises:
            ToolFailed: the database has no such table.
            SQLAlchemyError: the database cannot be read.
        """
        if found := self._current(label, needed):
            return found
        async with self._looking:
            # Another call that waited for the same may have looked meanwhile.
            if found := self._current(label, needed):
                return found
            table = await self._look(self._allowed[label])
            self._seen[label] = (time.monotonic(), table)
            return table

    def forget(self, label: str) -> None:
        """Look again the next time: the database disagrees with what was seen."""
        self._seen.pop(label, None)

    def _current(self, label: str, needed: Collection[str]) -> Table | None:
        seen_at, table = self._seen.get(label, (0.0, None))
        if table is None or time.monotonic() - seen_at > DESCRIBED_FOR_S:
            return None
        return table if all(name in table.columns for name in needed) else None

    async def _look(self, allowed: AllowedTable) -> Table:
        table = await self._database.run(lambda connection: connection.run_sync(self._described, allowed))
        if table is None or not table.columns:
            self.forget(allowed.label)
            raise ToolFailed(
                NOT_FOUND,
                f"The table '{allowed.label}' may be read, but the database has none of that name.",
                f"Use another table of {', '.join(self.labels)}, or ask the operator to check "
                f"TOOLWEAVE_QUERY_TABLES and {_SETTING}.",
            )
        return table

    def _described(self, connection: sa.Connection, allowed: AllowedTable) -> Table | None:
        inspector = sa.inspect(connection)
        schema = allowed.schema or inspector.default_schema_name
        try:
            reflected = {column["name"]: column for column in inspector.get_columns(allowed.name, schema)}
            key = tuple(inspector.get_pk_constraint(allowed.name, schema)["constrained_columns"])
        except sa.exc.NoSuchTableError:
            # SQLite has columns for a name with other capitals, but no key.
            return None
        names = reflected if allowed.columns is None else [name for name in allowed.columns if name in reflected]
        columns = {name: describe(reflected[name], self._database.backend) for name in names}
        clause = sa.table(allowed.name, *(sa.column(name, each.type) for name, each in columns.items()), schema=schema)
        return Table(allowed.label, clause, columns, key if set(key) <= columns.keys() else ())


class Outdated(Exception):
    """The database does not know a table or column, or takes it for another type: it changed since it was looked at."""


_CHECK = f"Ask the operator to check that the database runs, and {_SETTING}; then try again."
_LATER = "Try again in a moment."
_Failure = tuple[ErrorCode, str, str | None]
_STOPPED: _Failure = (QUERY_TIMEOUT, "The database took too long and was told to stop.", None)
_BUSY: _Failure = (UNAVAILABLE, "The database is busy: another program is writing to it.", _LATER)
_TOO_BIG: _Failure = (QUERY_REFUSED, "The answer is too large for the database.", "Ask for less.")
_NOT_TAKEN: _Failure = (QUERY_REFUSED, "The database does not take the query.", None)
# By SQLite's primary code; by SQLSTATE, or the class that it begins with.
_FAILURES: Mapping[str, _Failure] = {
    "SQLITE_INTERRUPT": _STOPPED,
    "SQLITE_BUSY": _BUSY,
    "SQLITE_LOCKED": _BUSY,
    "SQLITE_CANTOPEN": (UNAVAILABLE, "The database file cannot be opened.", _CHECK),
    "SQLITE_NOTADB": (UNAVAILABLE, "The database file is no SQLite database.", _CHECK),
    "SQLITE_CORRUPT": (UNAVAILABLE, "The database file is damaged.", _CHECK),
    "SQLITE_IOERR": (UNAVAILABLE, "The database file cannot be read: the disk reports an error.", _CHECK),
    "SQLITE_PERM": (UNAVAILABLE, "The database file may not be read.", _CHECK),
    "SQLITE_NOMEM": _TOO_BIG,
    "SQLITE_TOOBIG": _TOO_BIG,
    "57014": _STOPPED,
    "55P03": (QUERY_TIMEOUT, "The table is locked by somebody else for longer than a query may take.", _LATER),
    "25P03": (QUERY_TIMEOUT, "The answer was not taken in time.", None),
    "42501": (
        ACCESS_DENIED,
        "The database does not let us read this table, or one of these columns.",
        "Ask for other columns, or ask the operator to grant the reading of them.",
    ),
    "25006": (QUERY_REFUSED, "Reading the table would change the database.", "Use another table."),
    "22": (QUERY_REFUSED, "The database cannot compare these columns with these values.", None),
}
# Classes of SQLSTATE: no connection, no entry, no such database, no room, being stopped.
_NOT_READY = ("08", "28", "3D", "53", "57")
_OUTDATED = ("SQLITE_ERROR", "SQLITE_SCHEMA", "42P01", "42703", "42883", "42704", "3F000", "0A000")


def explain(error: sa.exc.SQLAlchemyError | OSError) -> ToolFailed:
    """Say why a database did not answer, in words for anybody: no driver's text, no address, no query (C-06).

    Raises:
        Outdated: the query may be right for the database as it is now.
    """
    if isinstance(error, sa.exc.TimeoutError):
        return ToolFailed(UNAVAILABLE, "The database is busy: too many queries wait for it.", _LATER)
    cause: Any = error.orig if isinstance(error, sa.exc.DBAPIError) else error
    code = getattr(cause, "sqlstate", "")
    if isinstance(cause, sqlite3.Error):
        # Extended codes such as SQLITE_IOERR_READ carry the primary one as their beginning.
        code = "_".join(getattr(cause, "sqlite_errorname", "SQLITE_ERROR").split("_")[:2])
    if code in _OUTDATED:
        raise Outdated from cause
    # PostgreSQL names the reason of everything but what it says before it lets anybody in.
    if code is None or (code not in _FAILURES and code[:2] in _NOT_READY):
        return ToolFailed(UNAVAILABLE, f"The database {postgresql.reason(cause)}.", _CHECK)
    if code:
        return ToolFailed(*(_FAILURES.get(code) or _FAILURES.get(code[:2]) or _NOT_TAKEN))
    if isinstance(error, sa.exc.ProgrammingError | sa.exc.DataError | sa.exc.NotSupportedError):
        return ToolFailed(*_NOT_TAKEN)
    return ToolFailed(UNAVAILABLE, "The database cannot be reached, or does not let us in.", _CHECK)
