"""Open the todo database: create what is absent, refuse what a newer Toolweave wrote (T-13)."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from sqlalchemy.ext.asyncio import AsyncEngine

from toolweave.errors import NewerSchema, PersistenceError
from toolweave.servers.todo import schema
from toolweave.servers.todo.database import BUSY_TIMEOUT_S, SETTING, TodoDatabase, create_engine, parse_url, transaction

_RETRY_S = 0.02


@asynccontextmanager
async def open_todo_database(url: str, *, busy_timeout_s: float = BUSY_TIMEOUT_S) -> AsyncIterator[TodoDatabase]:
    """Open the database at a SQLAlchemy URL; a SQLite file, its folder and the schema are created when absent.

    Whoever holds the database is waited for up to `busy_timeout_s`.

    Raises:
        ConfigError: the URL is none, or its driver is not installed.
        NewerSchema: a newer Toolweave wrote the database; nothing was changed.
        PersistenceError: it cannot be opened; names it and the fix.
    """
    parsed = parse_url(url)
    is_sqlite = parsed.get_backend_name() == "sqlite"
    label = (parsed.database or ":memory:") if is_sqlite else parsed.render_as_string(hide_password=True)
    engine = create_engine(parsed, busy_timeout_s)
    try:
        try:
            if is_sqlite and parsed.database not in (None, "", ":memory:"):
                Path(parsed.database).parent.mkdir(parents=True, exist_ok=True)
            full_text = await _prepare(engine, label)
        except NewerSchema:
            raise
        except (PersistenceError, OSError) as error:
            raise PersistenceError(_cannot_open(label, error)) from error
        yield TodoDatabase(engine, full_text)
    finally:
        await engine.dispose()


async def _prepare(engine: AsyncEngine, label: str) -> bool:
    """Bring the database to the current schema; return whether it has the full-text index."""
    async with transaction(engine, "DEFERRED") as connection:
        if await schema.is_current(connection, label):
            return await schema.has_full_text(connection)
    if engine.dialect.name == "sqlite":
        await _use_write_ahead_log(engine)
    async with transaction(engine, "IMMEDIATE") as connection:
        # Another process may have created it between the two transactions.
        if not await schema.is_current(connection, label):
            await schema.create(connection)
        return await schema.has_full_text(connection)


async def _use_write_ahead_log(engine: AsyncEngine) -> None:
    """Let readers and a writer work side by side; the file remembers it.

    SQLite answers "locked" at once, without its busy timeout, when two processes switch a new file together.
    """
    attempts = int(BUSY_TIMEOUT_S / _RETRY_S)
    async with engine.connect() as connection:
        driver: Any = (await connection.get_raw_connection()).driver_connection
        for attempt in range(attempts):
            try:
                await driver.execute_fetchall("PRAGMA journal_mode = WAL")
            except sqlite3.OperationalError as error:
                if error.sqlite_errorname != "SQLITE_BUSY" or attempt == attempts - 1:
                    raise PersistenceError(f"The todo database cannot be prepared: {error}.") from error
                await asyncio.sleep(_RETRY_S)
            else:
                return


def _cannot_open(label: str, error: Exception) -> str:
    reason = error.strerror if isinstance(error, OSError) else str(error).removesuffix(".")
    return (
        f"Cannot open the todo database {label}: {reason}. "
        f"Check that the file and its folder are there for writing, or set {SETTING} to another database."
    )
