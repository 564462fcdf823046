"""Create the engine of a database from its kind and its URL, and detect a replaced SQLite file."""

import asyncio
import contextlib
import sqlite3
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import AsyncAdaptedQueuePool

from toolweave import postgresql
from toolweave.errors import ConfigError

POOL_SIZE = 5
_URL_FIX = "Use a sqlite:// URL, or begin the URL with postgresql:// (pip install 'toolweave[postgres]')."
_ASYNC_DRIVERS = {"sqlite": "sqlite+aiosqlite", "postgresql": postgresql.DRIVER, "postgres": postgresql.DRIVER}


@dataclass(frozen=True, slots=True)
class DatabaseKind:
    """A kind of database; messages contain its `name`, such as "the {name} is busy".

    `create` creates all tables; `version_table` has one row with the schema's version. On SQLite, a commit survives a
    killed process with `synchronous` NORMAL, and also a power failure with FULL.
    """

    name: str
    setting: str
    version: int
    version_table: sa.Table
    create: Callable[[AsyncConnection], Awaitable[None]]
    synchronous: Literal["NORMAL", "FULL"] = "NORMAL"


class OpenedFile:
    """The identity of a database file when it was opened.

    SQLite keeps using a file that was deleted or replaced; what it writes there is lost when it closes.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._identity: tuple[int, int] | None = None

    def record_identity(self) -> None:
        """Store the identity of the file that is at the path now."""
        self._identity = self._current_identity()

    def is_replaced(self) -> bool:
        """Return whether another file, or none, is at the path now."""
        return self._identity is not None and self._current_identity() != self._identity

    def _current_identity(self) -> tuple[int, int] | None:
        try:
            found = self.path.stat() if self.path else None
        except OSError:
            return None
        return (found.st_dev, found.st_ino) if found else None


class _SQLiteConnection(sqlite3.Connection):
    """A connection that rolls back before it closes.

    The traceback of a cancelled call may reference a cursor. As long as it does, SQLite keeps a closed connection's
    transaction and locks.
    """

    def close(self) -> None:
        # The connection may be closed already; closing it twice is not an error.
        with contextlib.suppress(sqlite3.Error):
            self.rollback()
        super().close()


class SQLiteThreads:
    """The threads of closed connections; such a thread may still execute the statement of a cancelled call."""

    def __init__(self) -> None:
        self._stops: set[asyncio.Future[object]] = set()

    def stop_once(self, stop: Callable[[], Any]) -> Callable[[], Any]:
        """Return a `stop` that stops a connection's thread only once.

        Without this, closing a connection that a cancelled call has stopped would wait for ever for the stopped thread.
        """
        was_called = False

        def stop_thread() -> Any:
            nonlocal was_called
            if was_called:
                return None
            was_called = True
            stopped = stop()
            # None if the garbage collector stops it where no event loop runs.
            if stopped is not None:
                self._stops.add(stopped)
                stopped.add_done_callback(self._stops.discard)
            return stopped

        return stop_thread

    async def wait(self, timeout_s: float) -> None:
        """Wait until the threads have ended: one that outlives the event loop fails and keeps the database locked."""
        if self._stops:
            await asyncio.wait(self._stops, timeout=timeout_s)


def parse_url(url: str | sa.URL, setting: str) -> sa.URL:
    """Parse a SQLAlchemy URL and add the asynchronous driver.

    Raises:
        ConfigError: it is not a database URL; the message contains `setting`.
    """
    try:
        parsed = sa.make_url(url)
    except sa.exc.ArgumentError:
        raise ConfigError("this is not a database URL.", source=setting, fix=_URL_FIX) from None
    return parsed.set(drivername=_ASYNC_DRIVERS.get(parsed.drivername, parsed.drivername))


def sqlite_file(url: sa.URL) -> Path | None:
    """Return the file of a SQLite database; None for a database in memory or of another kind."""
    name = url.database
    if url.get_backend_name() != "sqlite" or name in (None, "", ":memory:"):
        return None
    if not name.startswith("file:"):
        return Path(name)
    path = unquote(urlsplit(name).path)
    return None if path in ("", ":memory:") or url.query.get("mode") == "memory" else Path(path)


def create_pooled_engine(url: sa.URL, setting: str, name: str, queue_timeout_s: float, **options: Any) -> AsyncEngine:
    """Create an engine without connecting; the first engine of a process imports its driver.

    Raises:
        ConfigError: the URL's driver is absent or not asynchronous; the message contains `setting`.
    """
    is_sqlite = url.get_backend_name() == "sqlite"
    if url.drivername == postgresql.DRIVER:
        options["connect_args"] = postgresql.connect_args(url, name)
    try:
        return create_async_engine(
            url,
            poolclass=AsyncAdaptedQueuePool,
            pool_size=1 if is_sqlite and sqlite_file(url) is None else POOL_SIZE,
            max_overflow=0,
            pool_timeout=queue_timeout_s,
            # A restarted server has closed the idle connections in the pool.
            pool_pre_ping=not is_sqlite,
            **options,
        )
    except (sa.exc.ArgumentError, sa.exc.InvalidRequestError, ImportError) as error:
        problem = f"there is no asynchronous driver for {url.drivername} here."
        raise ConfigError(problem, source=setting, fix=_URL_FIX) from error


def create_engine(
    url: sa.URL, kind: DatabaseKind, busy_timeout_s: float, queue_timeout_s: float, threads: SQLiteThreads
) -> AsyncEngine:
    """Create the engine of a database that we write to; raises as `create_pooled_engine`."""
    is_sqlite = url.get_backend_name() == "sqlite"
    connect_args = {"timeout": busy_timeout_s, "factory": _SQLiteConnection} if is_sqlite else {}
    engine = create_pooled_engine(url, kind.setting, kind.name, queue_timeout_s, connect_args=connect_args)
    if is_sqlite:
        # Runs before SQLAlchemy's own setup of a new connection, because that setup may be cancelled.
        sa.event.listen(engine.sync_engine, "connect", _connect_listener(kind, threads), insert=True)
        statements = {"DEFERRED": "BEGIN DEFERRED", "IMMEDIATE": "BEGIN IMMEDIATE"}
    elif url.drivername == postgresql.DRIVER:
        statements = postgresql.begin_statements(kind.version_table.name, busy_timeout_s)
    else:
        return engine
    sa.event.listen(engine.sync_engine, "begin", _begin_listener(statements))
    return engine


def _begin_listener(statements: Mapping[str, str]) -> Callable[[sa.Connection], None]:
    def begin(connection: sa.Connection) -> None:
        connection.exec_driver_sql(statements[connection.get_execution_options()["begin"]])

    return begin


def _connect_listener(kind: DatabaseKind, threads: SQLiteThreads) -> Callable[[Any, object], None]:
    def configure(connection: Any, _record: object) -> None:
        driver = connection.driver_connection
        driver.stop = threads.stop_once(driver.stop)
        # None: the driver does not begin transactions by itself.
        connection.isolation_level = None
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA synchronous = {kind.synchronous}")
        cursor.close()

    return configure
