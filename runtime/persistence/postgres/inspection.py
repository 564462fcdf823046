"""Inspect a PostgreSQL database for `toolweave doctor` and `toolweave db check`; nothing is changed."""

from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

import psycopg
from sqlalchemy import Connection, inspect, text

from toolweave.errors import ConfigError, PersistenceError
from toolweave.postgresql import failure_reason
from toolweave.runtime.persistence.database import PostgresAddress
from toolweave.runtime.persistence.postgres.database import RawConnection, open_postgres
from toolweave.runtime.persistence.postgres.workers import LIVE_PROCESSES
from toolweave.runtime.persistence.schema import SchemaRevision, processes, schema_revision

SERVER = """
SELECT current_setting('server_version') AS version, current_setting('server_encoding') AS encoding,
    EXISTS (SELECT FROM pg_available_extensions WHERE name = 'vector') AS has_pgvector,
    current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int AS allowed,
    (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend') AS used
"""
DATABASE_IDENTITY = "SELECT current_database(), pg_postmaster_start_time()"


@dataclass(frozen=True, slots=True)
class DatabaseReport:
    """What a check found: the server's version and encoding, its connections, our schema and our live processes.

    `is_pooled`: the URL leads to a pooler that gives each transaction another session. `direct_problem` is what is
    wrong with the direct URL.
    """

    label: str
    version: str
    encoding: str
    has_pgvector: bool
    connections_allowed: int
    connections_used: int
    schema: SchemaRevision | None
    live_processes: int
    is_pooled: bool
    direct_problem: str | None = None


async def inspect_postgres(address: PostgresAddress) -> DatabaseReport:
    """Connect and inspect.

    Raises:
        ConfigError: the URL is invalid.
        PersistenceError: the database cannot be reached.
    """
    is_pooled = await _is_transaction_pooled(address, direct=False)
    direct_problem = await _direct_problem(address) if address.direct_url else None
    usable = address if direct_problem is None else PostgresAddress(address.url)
    async with open_postgres(usable, size=2) as database:
        server, schema, live = await database.read(_read)
    return DatabaseReport(
        label=address.label,
        version=server.version,
        encoding=server.encoding,
        has_pgvector=server.has_pgvector,
        connections_allowed=server.allowed,
        connections_used=server.used,
        schema=schema,
        live_processes=live,
        is_pooled=is_pooled,
        direct_problem=direct_problem,
    )


def _read(connection: Connection) -> tuple[Any, SchemaRevision | None, int]:
    server = connection.execute(text(SERVER)).one()
    has_processes = inspect(connection).has_table(processes.name)
    live = connection.scalar(text(LIVE_PROCESSES)) if has_processes else 0
    return server, schema_revision(connection), live or 0


async def _direct_problem(address: PostgresAddress) -> str | None:
    try:
        if await _is_transaction_pooled(address, direct=True):
            return "leads to a connection pooler, too"
        async with AsyncExitStack() as stack:
            direct, pooled = [await _connect(stack, address, direct=direct) for direct in (True, False)]
            if await _row(direct, DATABASE_IDENTITY) != await _row(pooled, DATABASE_IDENTITY):
                return "leads to another database"
    except (ConfigError, PersistenceError) as error:
        return f"cannot be used: {error}"
    return None


async def _is_transaction_pooled(address: PostgresAddress, *, direct: bool) -> bool:
    """Return whether a connection changes its session between transactions, as with PgBouncer in transaction mode."""
    async with AsyncExitStack() as stack:
        first, second = [await _connect(stack, address, direct=direct) for _ in range(2)]
        session = partial(_row, query="SELECT pg_backend_pid()")
        before = await session(first)
        async with second.transaction():
            # The second connection has taken the session of the first, or the first gets another one.
            return bool(await session(second) == before or await session(first) != before)


async def _connect(stack: AsyncExitStack, address: PostgresAddress, *, direct: bool) -> RawConnection:
    url, arguments = address.connection_arguments("check", direct=direct)
    try:
        return await stack.enter_async_context(await psycopg.AsyncConnection.connect(url, autocommit=True, **arguments))
    except psycopg.Error as error:
        setting = "TOOLWEAVE_DATABASE_DIRECT_URL" if direct else "TOOLWEAVE_DATABASE_URL"
        raise PersistenceError(f"The database of {setting} {failure_reason(error)}.") from error


async def _row(connection: RawConnection, query: str) -> Any:
    return await (await connection.execute(query.encode())).fetchone()
