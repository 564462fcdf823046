"""Describe and open the todo database (T-13)."""

from contextlib import AbstractAsyncContextManager

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from toolweave.config.settings import Settings
from toolweave.servers.databases.database import BUSY_TIMEOUT_S, Database, open_database
from toolweave.servers.databases.engine import DatabaseKind

VERSION = 1
METADATA = sa.MetaData()
# Dates are compared as texts by code point, whatever collation a PostgreSQL database has.
_DATE_TYPE = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
TODOS = sa.Table(
    "todos",
    METADATA,
    sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
    sa.Column("title", sa.Text, nullable=False),
    sa.Column("description", sa.Text),
    sa.Column("status", sa.Text, nullable=False),
    sa.Column("priority", sa.Text, nullable=False),
    sa.Column("due_date", _DATE_TYPE),
    sa.Column("tags", sa.Text, nullable=False),
    sa.Column("created_at", sa.Text, nullable=False),
    sa.Column("updated_at", sa.Text, nullable=False),
    sa.Column("completed_at", sa.Text),
    sqlite_autoincrement=True,
)
IDEMPOTENT_RESULTS = sa.Table(
    "todo_idempotent_results",
    METADATA,
    sa.Column("tool", sa.Text, primary_key=True),
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("result", sa.Text, nullable=False),
    sa.Column("created_at", _DATE_TYPE, nullable=False, index=True),
)
SCHEMA_VERSION = sa.Table("todo_schema_version", METADATA, sa.Column("version", sa.Integer, nullable=False))
FULL_TEXT = sa.table("todos_fts", sa.column("rowid"), sa.column("todos_fts"))
_FULL_TEXT_DDL = (
    """
    CREATE VIRTUAL TABLE todos_fts USING fts5(
        title, description, tags,
        content='todos', content_rowid='id', tokenize='unicode61 remove_diacritics 2', prefix='2 3'
    )
    """,
    """
    CREATE TRIGGER todos_fts_insert AFTER INSERT ON todos BEGIN
        INSERT INTO todos_fts(rowid, title, description, tags)
        VALUES (new.id, new.title, new.description, new.tags);
    END
    """,
    """
    CREATE TRIGGER todos_fts_delete AFTER DELETE ON todos BEGIN
        INSERT INTO todos_fts(todos_fts, rowid, title, description, tags)
        VALUES ('delete', old.id, old.title, old.description, old.tags);
    END
    """,
    """
    CREATE TRIGGER todos_fts_update AFTER UPDATE OF title, description, tags ON todos BEGIN
        INSERT INTO todos_fts(todos_fts, rowid, title, description, tags)
        VALUES ('delete', old.id, old.title, old.description, old.tags);
        INSERT INTO todos_fts(rowid, title, description, tags)
        VALUES (new.id, new.title, new.description, new.tags);
    END
    """,
)


async def create_tables(connection: AsyncConnection) -> None:
    """Create the tables and, if SQLite has FTS5, the full-text index."""
    await connection.run_sync(METADATA.create_all)
    has_fts5 = sa.select(sa.func.sqlite_compileoption_used("ENABLE_FTS5"))
    if connection.dialect.name == "sqlite" and await connection.scalar(has_fts5):
        for statement in _FULL_TEXT_DDL:
            await connection.execute(sa.text(statement))


async def has_full_text(connection: AsyncConnection) -> bool:
    """Return whether this database has the full-text index."""
    return connection.dialect.name == "sqlite" and await connection.run_sync(
        lambda sync: sa.inspect(sync).has_table(FULL_TEXT.name)
    )


TODO_DATABASE = DatabaseKind(
    name="todo database",
    setting="TOOLWEAVE_TODO_DATABASE_URL",
    version=VERSION,
    version_table=SCHEMA_VERSION,
    create=create_tables,
)


def database_url(settings: Settings) -> str:
    """Return the URL from the settings, by default of the SQLite file in the data folder."""
    return settings.todo_database_url or f"sqlite+aiosqlite:///{settings.data_dir.absolute() / 'todo.db'}"


def open_todo_database(url: str, *, busy_timeout_s: float = BUSY_TIMEOUT_S) -> AbstractAsyncContextManager[Database]:
    """Open the todo database at a SQLAlchemy URL; raises as `open_database`."""
    return open_database(url, TODO_DATABASE, busy_timeout_s=busy_timeout_s)
