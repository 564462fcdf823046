"""Several processes prepare one PostgreSQL database at once, and all tables are there once."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from tests.fixtures.postgres import PostgresServer
from toolweave.errors import PersistenceError
from toolweave.runtime.persistence.database import PostgresAddress
from toolweave.runtime.persistence.postgres.database import open_postgres
from toolweave.runtime.persistence.postgres.opening import prepare_database

TABLES = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"


async def test_processes_that_start_together_prepare_the_database_once(postgres: PostgresServer) -> None:
    with postgres.fresh_database() as url:
        async with AsyncExitStack() as stack:
            address = PostgresAddress(url)
            opened = [await stack.enter_async_context(open_postgres(address, size=2)) for _ in range(3)]
            await asyncio.gather(*(prepare_database(database) for database in opened))
            [tables] = postgres.execute(TABLES, url=url)
            await prepare_database(opened[0])
        assert postgres.execute(TABLES, url=url) == [tables]
        postgres.execute("SELECT count(*) FROM procrastinate_jobs, checkpoints, store, threads, kept_writes", url=url)
        postgres.execute("DROP FUNCTION procrastinate_defer_jobs_v1", url=url)
        async with open_postgres(address, size=2) as database:
            with pytest.raises(PersistenceError, match="older procrastinate"):
                await prepare_database(database)


async def test_a_database_that_cannot_store_all_texts_is_refused(postgres: PostgresServer) -> None:
    postgres.execute("CREATE DATABASE narrow ENCODING 'LATIN1' LOCALE 'C' LOCALE_PROVIDER libc TEMPLATE template0")
    try:
        async with open_postgres(PostgresAddress(postgres.url("narrow")), size=2) as database:
            with pytest.raises(PersistenceError, match="has the encoding LATIN1"):
                await prepare_database(database)
    finally:
        postgres.execute("DROP DATABASE narrow WITH (FORCE)")
