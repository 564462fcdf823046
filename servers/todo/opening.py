"""Open the todo database: create what is absent, refuse what a newer Toolweave wrote (T-13)."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from toolweave.servers.databases.opening import BUSY_TIMEOUT_S, open_database
from toolweave.servers.databases.transactions import Database
from toolweave.servers.todo.schema import TODO_DATABASE, has_full_text


@dataclass(frozen=True, slots=True)
class TodoDatabase(Database):
    """A todo database whose schema is current; `full_text` tells whether it has the full-text index."""

    full_text: bool


@asynccontextmanager
async def open_todo_database(url: str, *, busy_timeout_s: float = BUSY_TIMEOUT_S) -> AsyncIterator[TodoDatabase]:
    """Open the database at a SQLAlchemy URL; a SQLite file, its folder and the schema are created when absent.

    Whoever holds the database is waited for up to `busy_timeout_s`.

    Raises:
        ConfigError: the URL is none, or its driver is not installed.
        NewerSchema: a newer Toolweave wrote the database; nothing was changed.
        PersistenceError: it cannot be opened; names it and the fix.
    """
    async with open_database(url, TODO_DATABASE, busy_timeout_s=busy_timeout_s) as database:
        async with database.read() as connection:
            full_text = await has_full_text(connection)
        yield TodoDatabase(database.engine, database.kind, database.writers, database.file, database.prepare, full_text)
