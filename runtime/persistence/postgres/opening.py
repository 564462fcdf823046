"""Create and upgrade the tables of a PostgreSQL database; several processes may do so at the same time."""

from functools import partial

from procrastinate.schema import SchemaManager

from toolweave.errors import PersistenceError
from toolweave.runtime.persistence.checkpoints.postgres_saver import PostgresRunSaver
from toolweave.runtime.persistence.postgres.database import Pool, PostgresDatabase
from toolweave.runtime.persistence.postgres_store import upgrade_store
from toolweave.runtime.persistence.schema import upgrade_schema
from toolweave.runtime.persistence.store import StoreIndex

LOCK_PROCRASTINATE = "SELECT pg_advisory_xact_lock(hashtextextended('procrastinate', 0))"
# The table exists in all versions, the function since version 3, whose later versions keep it.
FIND_PROCRASTINATE = "SELECT to_regclass('procrastinate_jobs'), to_regproc('procrastinate_defer_jobs_v1')"


async def prepare_database(database: PostgresDatabase, index: StoreIndex | None = None) -> None:
    """Create or upgrade all tables of the runtime, with vectors if the store has an index (S-06).

    Raises:
        ConfigError: an index is configured, and the database has no pgvector.
        NewerSchema: a newer Toolweave has upgraded the database, and this version cannot use it.
        PersistenceError: the database cannot be used.
    """
    async with database.pool.connection() as connection:
        cursor = await connection.execute("SHOW server_encoding")
        [encoding] = await cursor.fetchone() or [""]
        if encoding != "UTF8":
            raise PersistenceError(
                f"The database {database.label} has the encoding {encoding}: create it with ENCODING 'UTF8'."
            )
    await database.write(partial(upgrade_schema, database.label))
    await prepare_procrastinate(database.pool)
    await PostgresRunSaver(database.pool).setup()
    async with database.pool.connection() as connection:
        await upgrade_store(connection, index)


async def prepare_procrastinate(pool: Pool) -> None:
    """Create procrastinate's tables and functions if they are absent.

    Raises:
        PersistenceError: they are of an older version of procrastinate.
    """
    async with pool.connection() as connection, connection.transaction():
        await connection.execute(LOCK_PROCRASTINATE)
        table, function = await (await connection.execute(FIND_PROCRASTINATE)).fetchone() or (None, None)
        if table is None:
            await connection.execute(SchemaManager.get_schema())
        elif function is None:
            raise PersistenceError(
                "The database has the tables of an older procrastinate: run the migrations of procrastinate, or use "
                "another database or schema (TOOLWEAVE_DATABASE_URL)."
            )
