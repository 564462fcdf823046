"""Check the databases that are on a PostgreSQL: reached, of a schema we know, read by a user who may only read."""

import asyncio
from collections.abc import Iterator

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from toolweave.cli.doctor import Finding, failure
from toolweave.config.settings import Settings
from toolweave.errors import ToolweaveError
from toolweave.servers.core.query.databases import open_query_database
from toolweave.servers.databases.engine import parse_url
from toolweave.servers.databases.opening import has_schema
from toolweave.servers.databases.postgresql import reason
from toolweave.servers.todo.schema import TODO_DATABASE

QUERIES = "query database"
CHECK = "Check that its server runs, and TOOLWEAVE_QUERY_DATABASE_URL and TOOLWEAVE_QUERY_ROLE."
READER = "Name a user who may only read (docs/postgresql.md), or set TOOLWEAVE_QUERY_ROLE to a role that may."
_WRITABLE = sa.text("""
    SELECT EXISTS (
        SELECT FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
        WHERE c.relkind IN ('r', 'p') AND n.nspname NOT LIKE 'pg\\_%' AND n.nspname <> 'information_schema'
        AND has_table_privilege(c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE')
    )
""")


def check_postgresql(settings: Settings) -> Iterator[Finding]:
    """Say how it stands with the todo and the query database where they are on a PostgreSQL; nothing is changed."""
    if _is_postgresql(settings.todo_database_url):
        yield _todos(settings.todo_database_url or "")
    if _is_postgresql(settings.query_database_url):
        yield asyncio.run(_queries(settings))


def _is_postgresql(url: str | None) -> bool:
    try:
        return url is not None and sa.make_url(url).get_backend_name() in ("postgresql", "postgres")
    except sa.exc.ArgumentError:
        return False


def _todos(url: str) -> Finding:
    subject = TODO_DATABASE.name
    place = parse_url(url, TODO_DATABASE).host or "this machine"
    try:
        there = asyncio.run(has_schema(url, TODO_DATABASE))
    except ToolweaveError as error:
        return failure(subject, error)
    return Finding(
        "ok", subject, f"PostgreSQL on {place}, {'its tables are there' if there else 'without tables yet'}."
    )


async def _queries(settings: Settings) -> Finding:
    try:
        async with open_query_database(settings) as database:
            may_write = await database.run(_may_write)
    except ToolweaveError as error:
        return failure(QUERIES, error)
    except (sa.exc.SQLAlchemyError, OSError, UnicodeError) as error:
        cause = error.orig if isinstance(error, sa.exc.DBAPIError) else error
        return Finding("fail", QUERIES, f"It {reason(cause)}.", CHECK)
    if may_write:
        return Finding("warn", QUERIES, "PostgreSQL answers, and lets its user write to tables.", READER)
    return Finding("ok", QUERIES, "PostgreSQL answers, and lets its user only read.")


async def _may_write(connection: AsyncConnection) -> bool:
    return bool(await connection.scalar(_WRITABLE))
