"""Open a checkpointer on PostgreSQL, and look up and change what the checkpointers of both databases have stored."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import sqlalchemy as sa
from psycopg_pool import AsyncConnectionPool

from toolweave.runtime.persistence.checkpoints.postgres_saver import PostgresRunSaver
from toolweave.runtime.persistence.checkpoints.saver import RunAwareSaver
from toolweave.runtime.persistence.checkpoints.sqlite_saver import SqliteRunSaver
from toolweave.runtime.persistence.schema import metadata
from toolweave.runtime.persistence.threads import ThreadClaim

HOLD_THREAD = """
INSERT INTO threads (thread_id, status, settled, metadata, config, created_at, updated_at, state_updated_at, claim)
VALUES (%s, 'busy', 'idle', '{}', '{}', 0, 0, 0, %s) ON CONFLICT (thread_id) DO UPDATE SET claim = EXCLUDED.claim
"""
LET_GO = "UPDATE threads SET claim = NULL WHERE thread_id = %s AND claim = %s"
EMPTY = "TRUNCATE checkpoints, checkpoint_blobs, checkpoint_writes, kept_writes, runs, threads CASCADE"


@asynccontextmanager
async def postgres_pool(url: str) -> AsyncIterator[AsyncConnectionPool[Any]]:
    """Open connections as the server does."""
    address = sa.make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    options = {"autocommit": True, "prepare_threshold": 0}
    async with AsyncConnectionPool(address, kwargs=options, min_size=2, max_size=8) as pool:
        yield pool


@asynccontextmanager
async def postgres_saver(url: str) -> AsyncIterator[PostgresRunSaver]:
    """Open a checkpointer without checkpoints in a database, beside the tables of threads and runs."""
    async with postgres_pool(url) as pool:
        saver = PostgresRunSaver(pool)
        await saver.setup()
        create_tables(url)
        async with pool.connection() as connection:
            await connection.execute(EMPTY)
        yield saver
        await saver.wait_for_writes()


def create_tables(url: str) -> None:
    """Create our tables."""
    engine = sa.create_engine(url)
    metadata.create_all(engine)
    engine.dispose()


async def fetch(saver: RunAwareSaver, query: str, *values: object) -> list[tuple[Any, ...]]:
    """Return the rows of a query with the parameters `?`; LangGraph has another name for `writes` on PostgreSQL."""
    if isinstance(saver, SqliteRunSaver):
        return [tuple(row) for row in await saver.conn.execute_fetchall(query, values)]
    assert isinstance(saver, PostgresRunSaver)
    query = query.replace("FROM writes", "FROM checkpoint_writes").replace("?", "%s")
    async with saver._pool.connection() as connection:
        cursor = await connection.execute(query.encode(), values)
        return await cursor.fetchall() if cursor.description else []


async def hold(saver: RunAwareSaver, claim: ThreadClaim) -> None:
    """Let a claim hold its thread."""
    if isinstance(saver, PostgresRunSaver):
        await fetch(saver, HOLD_THREAD, claim.thread_id, claim.token)
    saver.accept_claim(claim)


async def let_go(saver: RunAwareSaver, claim: ThreadClaim) -> None:
    """Release the claim if it holds its thread."""
    saver.remove_claim(claim)
    if isinstance(saver, PostgresRunSaver):
        await fetch(saver, LET_GO, claim.thread_id, claim.token)


@asynccontextmanager
async def claimed(saver: RunAwareSaver, thread_id: str) -> AsyncIterator[ThreadClaim]:
    """Claim a thread."""
    claim = ThreadClaim.new(thread_id)
    await hold(saver, claim)
    yield claim
    await let_go(saver, claim)


def restarted(saver: RunAwareSaver) -> RunAwareSaver:
    """Return a saver of the same database that knows of no earlier run, as in another process."""
    if isinstance(saver, SqliteRunSaver):
        return SqliteRunSaver(saver.conn, saver._database)
    assert isinstance(saver, PostgresRunSaver)
    return PostgresRunSaver(saver._pool)
