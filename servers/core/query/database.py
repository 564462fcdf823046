"""Open the database that queries read, describe its tables, and explain its failures (C-03, C-06, D-9).

A database is only read. SQLite opens its file read-only and never creates one. PostgreSQL reads in read-only
transactions with timeouts, and its search path contains the system schema only. On any other database each transaction
is rolled back, and the operator must provide a user without write permission.
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
from toolweave.postgresql import UNKNOWN_REASON
from toolweave.servers.core.query.columns import Column, describe_column
from toolweave.servers.databases.database import failure_reason
from toolweave.servers.databases.engine import create_pooled_engine, parse_url, sqlite_file
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
# Added to PostgreSQL's own timeout, so that its error arrives first.
_GRACE_S = 0.5
_CANCEL_TIMEOUT_S = 3.0


class QueryDatabase:
    """A database that is only read, with one transaction for each reading; `backend` is its kind as in its URL."""

    def __init__(self, engine: AsyncEngine, timeout_s: float, role: str | None) -> None:
        self._engine = engine
        self.backend = engine.url.get_backend_name()
        is_postgresql = self.backend == "postgresql"
        self._deadline_s = timeout_s + _GRACE_S if is_postgresql else timeout_s
        self._session_settings = _postgresql_settings(timeout_s, role) if is_postgresql else None
        self._abandoned: set[asyncio.Future[None]] = set()

    @property
    def supports_nulls_last(self) -> bool:
        """Return whether its SQL has NULLS LAST."""
        return self.backend in ("sqlite", "postgresql")

    async def run(self, work: Callable[[AsyncConnection], Awaitable[T]]) -> T:
        """Run `work` in a transaction; if the caller is cancelled or the query times out, have the database stop it.

        Raises:
            ToolFailed: the configured role cannot be set, the query timed out, or the database returned an error.
        """
        drivers: list[Any] = []
        stops: set[asyncio.Future[Any]] = set()
        reading = asyncio.ensure_future(self._read(work, drivers, stops))
        # Retrieve the error of an abandoned reading: asyncio would log it with the query, which must stay secret.
        reading.add_done_callback(lambda done: done.cancelled() or done.exception())
        # Cancelling the task would leave its cursor open, so the database stops the statement instead.
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
        """Wait for abandoned queries to stop, and close the connections."""
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
                # A stop request that arrives later would stop the next query on this connection.
                await asyncio.gather(*stops, return_exceptions=True)

    async def _stop(self, query: "asyncio.Future[Any]", drivers: list[Any], stops: "set[asyncio.Future[Any]]") -> None:
        method = "interrupt" if self.backend == "sqlite" else "cancel_safe"
        for attempt in itertools.count(1):
            stops.update(asyncio.ensure_future(getattr(each, method)()) for each in drivers if hasattr(each, method))
            # A first request may arrive before the statement; if the second has no effect, the server does not answer.
            if self.backend != "sqlite" and (attempt > 2 or not stops):
                query.cancel()
            await asyncio.wait({query}, timeout=_GRACE_S)
            if query.done():
                return


@asynccontextmanager
async def open_query_database(settings: Settings) -> AsyncIterator[QueryDatabase]:
    """Open the configured database, by default the todo server's; the first query connects to it.

    Raises:
        ConfigError: the URL is invalid, or its driver is not installed.
    """
    url = parse_url(settings.query_database_url or todo_database_url(settings), _URL_SETTING)
    if url.get_backend_name() == "sqlite" and sqlite_file(url) is None:
        raise ConfigError("a database in memory has nothing to query.", source=_URL_SETTING, fix="Name a file.")
    # On a thread: importing a driver reads files, and some servers forbid blocking calls on the event loop.
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
        # The file may be replaced at any time, so each use opens it again.
        options = {"connect_args": {"timeout": timeout_s}, "pool_recycle": 0}
    engine = create_pooled_engine(url, _URL_SETTING, "query_database", timeout_s, **options)
    if file:
        sa.event.listen(engine.sync_engine, "connect", _prepare_sqlite)
    return engine


def _prepare_sqlite(connection: Any, _record: object) -> None:
    # SQLite accepts any bytes as text.
    connection.driver_connection.text_factory = lambda text: text.decode(errors="replace")
    cursor = connection.cursor()
    cursor.execute("PRAGMA query_only = ON")
    cursor.execute("PRAGMA trusted_schema = OFF")
    cursor.close()


def _postgresql_settings(timeout_s: float, role: str | None) -> sa.Select[tuple[str]]:
    """Return the SELECT that configures one transaction only: a pooler may pass the connection on to other clients."""
    milliseconds = str(max(1, int(timeout_s * 1000)))
    settings = {
        **dict.fromkeys(("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"), milliseconds),
        # A name without a schema means PostgreSQL's own object, so that nobody can substitute a function.
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
            "The database does not allow its user to act as the role for queries.",
            "Ask the operator to check TOOLWEAVE_QUERY_ROLE, and that the database's user is a member of it.",
        ) from error


@dataclass(frozen=True, slots=True)
class ReadableTable:
    """A table as the database describes it now, limited to the `columns` that may be read.

    `key` contains the columns of its primary key; it is empty unless all of them may be read.
    """

    clause: sa.TableClause
    columns: Mapping[str, Column]
    key: tuple[str, ...]


def describe_table(connection: sa.Connection, allowed: AllowedTable, backend: str) -> ReadableTable:
    """Describe an allowed table; raises ToolFailed if the database has no table of that name."""
    inspector = sa.inspect(connection)
    schema = allowed.schema or inspector.default_schema_name
    try:
        reflected = {column["name"]: column for column in inspector.get_columns(allowed.name, schema)}
        # For a name in other case, SQLite returns the columns but no key.
        key = tuple(inspector.get_pk_constraint(allowed.name, schema)["constrained_columns"])
    except sa.exc.NoSuchTableError:
        reflected, key = {}, ()
    names = reflected if allowed.columns is None else [name for name in allowed.columns if name in reflected]
    if not names:
        raise ToolFailed(
            NOT_FOUND,
            f"The table '{allowed.label}' may be read, but the database has no table of that name.",
            f"Use another table, or ask the operator to check TOOLWEAVE_QUERY_TABLES and {_URL_SETTING}.",
        )
    columns = {name: describe_column(reflected[name], backend) for name in names}
    clause = sa.table(allowed.name, *(sa.column(name, each.type) for name, each in columns.items()), schema=schema)
    return ReadableTable(clause, columns, key if set(key) <= columns.keys() else ())


# By SQLSTATE.
_CODE_BY_SQLSTATE = {
    "25006": QUERY_REFUSED,
    "42501": ACCESS_DENIED,
    **dict.fromkeys(("25P03", "55P03", "57014"), QUERY_TIMEOUT),
}


def explain_failure(error: sa.exc.SQLAlchemyError | OSError) -> ToolFailed:
    """Return the error for a failed query, without the driver's text, the address or the query (C-06)."""
    reason_text = failure_reason(error)
    # psycopg has no SQLSTATE (None) for errors before authentication.
    state = getattr(getattr(error, "orig", None), "sqlstate", "")
    if state in _CODE_BY_SQLSTATE:
        return ToolFailed(_CODE_BY_SQLSTATE[state], f"The database {reason_text}.")
    is_refused = isinstance(error, sa.exc.ProgrammingError | sa.exc.DataError | sa.exc.NotSupportedError)
    if reason_text == UNKNOWN_REASON or (state == "" and is_refused):
        return ToolFailed(QUERY_REFUSED, "The database rejected the query.")
    check = f"Ask the operator to check {_URL_SETTING}, and that the database exists: query_database creates none."
    return ToolFailed(UNAVAILABLE, f"The database {reason_text}.", check)
