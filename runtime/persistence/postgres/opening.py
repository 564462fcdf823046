"""Open everything that the processes of an application share in one PostgreSQL database (S-06)."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from loguru import logger

from toolweave.encryption import KEY_VARIABLE, data_folder_cipher
from toolweave.errors import PersistenceError
from toolweave.runtime.models import ThreadTtl
from toolweave.runtime.persistence.checkpoints.postgres_saver import PostgresRunSaver
from toolweave.runtime.persistence.data_folder import Persistence, make_folder
from toolweave.runtime.persistence.database import PostgresAddress
from toolweave.runtime.persistence.postgres.database import PostgresDatabase, open_postgres, scalar
from toolweave.runtime.persistence.postgres.jobs import prepare_procrastinate
from toolweave.runtime.persistence.postgres.store import open_postgres_store, upgrade_store
from toolweave.runtime.persistence.schema import upgrade_schema
from toolweave.runtime.persistence.store import StoreIndex, StoreOptions


async def prepare_database(database: PostgresDatabase, index: StoreIndex | None = None) -> None:
    """Create or upgrade all tables of the runtime, with vectors if the store has an index (S-06).

    Raises:
        ConfigError: an index is configured, and the database has no pgvector.
        NewerSchema: a newer Toolweave has upgraded the database, and this version cannot use it.
        PersistenceError: the database cannot be used.
    """
    async with database.pool.connection() as connection:
        encoding = await scalar(connection, "SHOW server_encoding")
    if encoding != "UTF8":
        raise PersistenceError(
            f"The database {database.label} has the encoding {encoding}: create it with ENCODING 'UTF8'."
        )
    await database.write(partial(upgrade_schema, database.label))
    await prepare_procrastinate(database.pool)
    await PostgresRunSaver(database.pool).setup()
    async with database.pool.connection() as connection:
        await upgrade_store(connection, index)


@asynccontextmanager
async def open_shared_persistence(
    address: PostgresAddress,
    data_dir: Path,
    *,
    size: int,
    store_options: StoreOptions = StoreOptions(),  # noqa: B008 - frozen
    thread_ttl: ThreadTtl | None = None,
    token_key: str | None = None,
) -> AsyncIterator[Persistence]:
    """Open a PostgreSQL database, creating and migrating its tables; other processes may use it, too.

    The data folder keeps what is not shared: logs, and the key that encrypts credentials without a `token_key`.

    Raises:
        ConfigError: the URL is invalid, or a semantic search is configured and the server has no pgvector.
        NewerSchema: a newer Toolweave has written the database.
        PersistenceError: the database cannot be used.
    """
    make_folder(data_dir)
    if token_key is None:
        logger.warning(
            "{} is not set: processes on other machines cannot read the credentials of callers.", KEY_VARIABLE
        )
    cipher = data_folder_cipher(data_dir, token_key)
    async with open_postgres(address, size=size) as database:
        await prepare_database(database, store_options.index)
        async with open_postgres_store(database.pool, store_options) as store:
            saver = PostgresRunSaver(database.pool)
            try:
                yield Persistence.of(database, saver, store, cipher=cipher, thread_ttl=thread_ttl)
            finally:
                await saver.wait_for_writes()
