"""Open the database that queries read, describe its tables, and explain its failures (C-03, C-06, D-9).

A database is only read. SQLite opens its file for reading only and never creates one; PostgreSQL reads in transactions
that cannot write, cannot last and trust no schema but its own; of any other database transactions are rolled back, and
that its user may only read is the operator's part.
"""

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from toolweave.config.settings import AllowedTable, Settings
from toolweave.errors import ConfigError
from toolweave.servers.core.query.columns import Column, describe_column
from toolweave.servers.databases.database import failure_reason
from toolweave.servers.databases.engine import create_pooled_engine, parse_url, sqlite_file
from toolweave.servers.databases.postgresql import UNKNOWN_REASON
from toolweave.servers.error_codes import (
    ACCESS_DENIED,
    NOT_FOUND,
    QUERY_REFUSED,
    QUERY_TIMEOUT,
    UNAVAILABLE,
    ToolFailed,
)
from toolweave.servers.todo.database import database_url as todo_database_url

T = TypeVar("T")
_URL_SETTING = "TOOLWEAVE_QUERY_DATABASE_URL"
# Longer than PostgreSQL's own limit, so that its reason arrives.
_GRACE_S = 0.5
_CANCEL_TIMEOUT_S = 3.0


class QueryDatabase:
    """A database that is only read, each time in a transaction of its own; `backend` is its kind as in its URL."""

    def __init__(self, engine: AsyncEngine, timeout_s: float, role: str | None) -> None:
        self._engine = engine
        self.backend = engine.url.get_backend_name()
        is_postgresql = self.backend == "postgresql"
        self._deadline_s = timeout_s + _GRACE_S if is_postgresql else timeout_s
        self._session_settings = _postgresql_settings(timeout_s, role) if is_postgresql else None
        self._abandoned: set[asyncio.Future[None]] = set()

    @property
    def supports_nulls_last(self) -> bool:
        """Say whether its SQL can order missing values last."""
        return self.backend in ("sqlite", "postgresql")

    async def run(self, work: Callable[[AsyncConnection], Awaitable[T]]) -> T:
        """Do some reading; the database ends it when the caller is cancelled, or it takes too long.

        Raises:
            ToolFailed: the role of the settings cannot be taken, it takes too long, or the database says so.
        """
        drivers: list[Any] = []
        stops: set[asyncio.Future[Any]] = set()
        reading = asyncio.ensure_future(self._read(work, drivers, stops))
        # The error of a reading that was given up holds the query, which no log may show.
        reading.add_done_callback(lambda done: done.cancelled() or done.exception())
        # A cursor whose use is cancelled half-way would stay open: the database ends the statement instead.
        try:
            async with asyncio.timeout(self._deadline_s):
                return await asyncio.shield(reading)
        except TimeoutError:
            raise ToolFailed(QUERY_TIMEOUT, "The database did not answer in time.") from None
        except (sa.exc.SQLAlchemyError, OSError) as error:
            raise explain_failure(error) from error
        finally:
            if not reading.done():
                ending = asyncio.ensure_future(self._stop(reading, drivers, stops))
                self._abandoned.add(ending)
                ending.add_done_callback(self._abandoned.discard)
                await asyncio.wait({ending}, timeout=_GRACE_S)

    async def close(self) -> None:
        """Let what was given up come to its end, and close the connections."""
        if self._abandoned:
            await asyncio.wait(self._abandoned, timeout=_CANCEL_TIMEOUT_S)
        await self._engine.dispose()

    async def _read(
        self, work: Callable[[AsyncConnection], Awaitable[T]], drivers: list[Any], stops: "set[asyncio.Future[Any]]"
    ) -> T:
        async with self._engine.connect() as connection:
            drivers.append((await connection.get_raw_connection()).driver_connection)
            try:
                if self._session_settings is not None:
                    await _execute_settings(connection, self._session_settings)
                return await work(connection)
            finally:
                drivers.clear()
                # Else they would stop the next user of the connection.
                await asyncio.gather(*stops, return_exceptions=True)

    async def _stop(self, query: "asyncio.Future[Any]", drivers: list[Any], stops: "set[asyncio.Future[Any]]") -> None:
        method = "interrupt" if self.backend == "sqlite" else "cancel_safe"
        for attempt in itertools.count(1):
            stops.update(asyncio.ensure_future(getattr(each, method)()) for each in drivers if hasattr(each, method))
            # The third time no server answers: the first may have come before the statement.
            if self.backend != "sqlite" and (attempt > 2 or not stops):
                query.cancel()
            await asyncio.wait({query}, timeout=_GRACE_S)
            if query.done():
                return


@asynccontextmanager
async def open_query_database(settings: Settings) -> AsyncIterator[QueryDatabase]:
    """Prepare the database of the settings, by default the todo server's; it is connected with first use.

    Raises:
        ConfigError: the URL is none, or its driver is not installed.
    """
    url = parse_url(settings.query_database_url or todo_database_url(settings), _URL_SETTING)
    if url.get_backend_name() == "sqlite" and sqlite_file(url) is None:
        raise ConfigError("a database in memory has nothing to query.", source=_URL_SETTING, fix="Name a file.")
    # On a thread: importing a driver reads files, and event loops of others watch for that.
    engine = await asyncio.to_thread(_create_engine, url, settings.query_timeout_s)
    database = QueryDatabase(engine, settings.query_timeout_s, settings.query_role)
    try:
        yield database
    finally:
        await database.close()


def _create_engine(url: sa.URL, timeout_s: float) -> AsyncEngine:
    file = sqlite_file(url)
    options: dict[str, Any] = {"execution_options": {"postgresql_readonly": True}}
    if file:
        name = f"file:{quote(str(file.absolute()))}"
        url = sa.URL.create("sqlite+aiosqlite", database=name, query={"mode": "ro", "uri": "true"})
        # The file may be another one by now: each use opens it anew.
        options = {"connect_args": {"timeout": timeout_s}, "pool_recycle": 0}
    engine = create_pooled_engine(url, _URL_SETTING, "query_database", timeout_s, **options)
    if file:
        sa.event.listen(engine.sync_engine, "connect", _prepare_sqlite)
    return engine


def _prepare_sqlite(connection: Any, _record: object) -> None:
    # SQLite takes any bytes for a text.
    connection.driver_connection.text_factory = lambda text: text.decode(errors="replace")
    cursor = connection.cursor()
    cursor.execute("PRAGMA query_only = ON")
    cursor.execute("PRAGMA trusted_schema = OFF")
    cursor.close()


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
    except (sa.exc.ProgrammingError, sa.exc.DataError) as error:
        raise ToolFailed(
            UNAVAILABLE,
            "The role that queries are run as cannot be taken.",
            "Ask the operator to check TOOLWEAVE_QUERY_ROLE, and that the database's user is a member of it.",
        ) from error


@dataclass(frozen=True, slots=True)
class Table:
    """A table as it is now; `columns` are those that may be read.

    `key` names the columns of its primary key; it is empty where not all of them may be read.
    """

    clause: sa.TableClause
    columns: Mapping[str, Column]
    key: tuple[str, ...]


def describe_table(connection: sa.Connection, allowed: AllowedTable, backend: str) -> Table:
    """Describe an allowed table; raises ToolFailed where the database has none of that name."""
    inspector = sa.inspect(connection)
    schema = allowed.schema or inspector.default_schema_name
    try:
        reflected = {column["name"]: column for column in inspector.get_columns(allowed.name, schema)}
        # SQLite has columns for a name with other capitals, but no key.
        key = tuple(inspector.get_pk_constraint(allowed.name, schema)["constrained_columns"])
    except sa.exc.NoSuchTableError:
        reflected, key = {}, ()
    names = reflected if allowed.columns is None else [name for name in allowed.columns if name in reflected]
    if not names:
        raise ToolFailed(
            NOT_FOUND,
            f"The table '{allowed.label}' may be read, but the database has none of that name.",
            f"Use another table, or ask the operator to check TOOLWEAVE_QUERY_TABLES and {_URL_SETTING}.",
        )
    columns = {name: describe_column(reflected[name], backend) for name in names}
    clause = sa.table(allowed.name, *(sa.column(name, each.type) for name, each in columns.items()), schema=schema)
    return Table(clause, columns, key if set(key) <= columns.keys() else ())


# By SQLSTATE.
_CODE_BY_SQLSTATE = {
    "25006": QUERY_REFUSED,
    "25P03": QUERY_TIMEOUT,
    "42501": ACCESS_DENIED,
    "55P03": QUERY_TIMEOUT,
    "57014": QUERY_TIMEOUT,
}


def explain_failure(error: sa.exc.SQLAlchemyError | OSError) -> ToolFailed:
    """Say why a database did not answer, in words for anybody: no driver's text, no address, no query (C-06)."""
    reason_text = failure_reason(error)
    # psycopg has None for what a server says before it lets anybody in.
    state = getattr(getattr(error, "orig", None), "sqlstate", "")
    if state in _CODE_BY_SQLSTATE:
        return ToolFailed(_CODE_BY_SQLSTATE[state], f"The database {reason_text}.")
    is_refused = isinstance(error, sa.exc.ProgrammingError | sa.exc.DataError | sa.exc.NotSupportedError)
    if reason_text == UNKNOWN_REASON or (state == "" and is_refused):
        return ToolFailed(QUERY_REFUSED, "The database does not take the query.")
    check = f"Ask the operator to check {_URL_SETTING}, and that the database is there: query_database creates none."
    return ToolFailed(UNAVAILABLE, f"The database {reason_text}.", check)
