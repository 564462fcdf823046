"""Migrations and table definitions agree, and files of unknown schemas are left alone."""

import asyncio
import re
import sqlite3
from collections.abc import Callable
from functools import partial
from pathlib import Path
from zipfile import ZipFile

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection

from tests.fixtures.postgres import PostgresServer
from toolweave.encryption import data_folder_cipher
from toolweave.errors import NewerSchema, PersistenceError
from toolweave.runtime.codec import to_json
from toolweave.runtime.models import Page
from toolweave.runtime.persistence.data_folder import open_persistence
from toolweave.runtime.persistence.database import PostgresAddress, RuntimeDatabase, open_sqlite
from toolweave.runtime.persistence.postgres.database import open_postgres
from toolweave.runtime.persistence.run_rows import open_credentials
from toolweave.runtime.persistence.schema import NEWEST_REVISION, metadata, schema_revision, upgrade_schema
from toolweave.runtime.persistence.threads import ThreadRepository

OLD_FOLDER = Path(__file__).parents[2] / "data_folders" / "schema-0004.zip"


def definitions(path: Path) -> set[str]:
    """The text of every table and index, in a form that does not depend on line breaks and quotes."""
    connection = sqlite3.connect(path)
    try:
        found = connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name != 'alembic_version'")
        return {re.sub(r"[\s\"]+", " ", sql).strip() for (sql,) in found}
    finally:
        connection.close()


@pytest.fixture
def old_file(tmp_path: Path) -> Path:
    """Give an app.db of schema 0004 with data."""
    with ZipFile(OLD_FOLDER) as packed:
        return Path(packed.extract("app.db", tmp_path))


async def test_migrations_make_exactly_the_tables_that_are_defined(tmp_path: Path, old_file: Path) -> None:
    defined = tmp_path / "defined.db"

    def differences(connection: Connection) -> list[object]:
        return list(compare_metadata(MigrationContext.configure(connection), metadata))

    for path in (old_file, defined):
        async with open_sqlite(path, partial(upgrade_schema, str(path))) as database:
            assert await database.read(differences) == []
    made, upgraded = ({sql for sql in definitions(path) if "INDEX" in sql} for path in (defined, old_file))
    assert made == upgraded
    assert any("WHERE status" in definition for definition in made)


@pytest.mark.parametrize(
    ("schema", "error", "message"),
    [
        ("9999", NewerSchema, r"app\.db was written by a newer version.*'9999'.*Upgrade Toolweave"),
        ("0003", PersistenceError, r"app\.db has schema '0003', older than '0004': use another data folder"),
    ],
)
async def test_an_unknown_schema_is_refused_and_left_alone(
    tmp_path: Path, schema: str, error: type[Exception], message: str
) -> None:
    path = tmp_path / "app.db"
    async with open_sqlite(path, partial(upgrade_schema, str(path))):
        pass
    connection = sqlite3.connect(path)
    connection.execute("UPDATE alembic_version SET version_num = ?", [schema])
    connection.execute("UPDATE schema_compatibility SET oldest_code = ?", [schema])
    connection.execute("CREATE TABLE from_the_future (id INTEGER)")
    connection.commit()
    connection.close()
    before = definitions(path)

    with pytest.raises(error, match=message):
        async with open_sqlite(path, partial(upgrade_schema, str(path))):
            pytest.fail("opened")

    assert definitions(path) == before


async def test_a_migration_that_fails_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "app.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE runs (somebody_elses TEXT)")
    connection.close()
    before = definitions(path)

    with pytest.raises(PersistenceError, match=r"app\.db: table runs already exists"):
        async with open_sqlite(path, partial(upgrade_schema, str(path))):
            pytest.fail("opened")

    assert definitions(path) == before


@pytest.mark.requirement("R-02")
async def test_tokens_that_an_earlier_version_stored_are_encrypted_or_removed(tmp_path: Path, old_file: Path) -> None:
    # SQLite stores a long row on several pages, and these are not used again at once.
    token = "secret-token" * 2_000
    user = {"identity": "ada", "display_name": "Ada", "permissions": ["talk"], "token": token}
    kwargs = {"config": {"configurable": {"langgraph_auth_user": user, "langgraph_auth_user_id": "ada"}}}
    async with open_sqlite(old_file) as old:
        await old.write(partial(store_as_version_4, kwargs=to_json(kwargs), user=to_json(user)))
    assert b"secret-token" in (tmp_path / "app.db").read_bytes()

    async with open_persistence(tmp_path) as persistence:
        ended, waiting = [await persistence.runs.get("t", run_id) for run_id in ("ended", "waiting")]
        (cron,) = await persistence.crons.search(thread_id="t")
        assert await persistence.runs.credentials(ended) == {}
        assert await persistence.runs.credentials(waiting) == {"user": {"token": token}}
        shown = {name: value for name, value in user.items() if name != "token"}
        for run in (ended, waiting):
            assert run.kwargs["config"]["configurable"]["langgraph_auth_user"] == shown
        assert cron.user == shown
        assert await open_credentials(data_folder_cipher(tmp_path, None), cron.sealed) == {"user": {"token": token}}
        plain = await persistence.runs.get("t", "without user")
        assert plain.kwargs == {"input": "langgraph_auth_user"}
    assert b"secret-token" not in (tmp_path / "app.db").read_bytes()


def store_as_version_4(connection: Connection, kwargs: str, user: str) -> None:
    connection.exec_driver_sql(
        "INSERT INTO threads (thread_id, status, settled, metadata, config, created_at, updated_at, state_updated_at)"
        " VALUES ('t', 'busy', 'idle', '{}', '{}', 0, 0, 0)"
    )
    connection.exec_driver_sql("INSERT INTO assistants VALUES ('a', 'g', 'a', NULL, '{}', '{}', '{}', 1, 0, 0)")
    for run_id, status, given in (
        ("without user", "success", '{"input":"langgraph_auth_user"}'),
        ("ended", "success", kwargs),
        ("waiting", "pending", kwargs),
    ):
        connection.exec_driver_sql(
            "INSERT INTO runs (run_id, thread_id, assistant_id, graph_id, status, metadata, kwargs, multitask_strategy,"
            " temporary, attempt, created_at, updated_at) VALUES (?, 't', 'a', 'g', ?, '{}', ?, 'enqueue', 0, 0, 0, 0)",
            (run_id, status, given),
        )
    connection.exec_driver_sql(
        "INSERT INTO crons (cron_id, assistant_id, thread_id, schedule, payload, metadata, enabled, created_at,"
        " updated_at, user_members) VALUES ('c', 'a', 't', '* * * * *', '{}', '{}', 1, 0, 0, ?)",
        (user,),
    )


# As code of schema 0006 inserts rows.
OLD_THREAD = (
    "INSERT INTO threads (thread_id, status, settled, metadata, config, created_at, updated_at, state_updated_at)"
    " VALUES ('{id}', 'busy', 'idle', '{{}}', '{{}}', 0, 0, 0)"
)
OLD_RUN = (
    "INSERT INTO runs (run_id, thread_id, assistant_id, graph_id, status, metadata, kwargs, multitask_strategy,"
    " temporary, attempt, created_at, updated_at)"
    " VALUES ('{id}', '{id}', 'a', 'g', 'pending', '{{}}', '{{}}', 'enqueue', 0, 0, 0, 0)"
)
# What a later version's additive migration does.
LATER = (
    "ALTER TABLE threads ADD COLUMN later TEXT NOT NULL DEFAULT 'x'",
    "ALTER TABLE runs ADD COLUMN later INTEGER",
    "UPDATE alembic_version SET version_num = '0009'",
)
BREAKING = "UPDATE schema_compatibility SET oldest_code = '0009'"


async def test_this_version_works_on_a_newer_schema_whose_migrations_were_additive(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    path = tmp_path / "app.db"
    with postgres.fresh_database() as url:
        async with open_postgres(PostgresAddress(url), size=2) as database:
            await migrate_and_work(database, partial(upgrade_schema, url))
    async with open_sqlite(path, partial(upgrade_schema, str(path))) as file:
        await migrate_and_work(file, partial(upgrade_schema, str(path)))


async def migrate_and_work(database: RuntimeDatabase, upgrade: Callable[[Connection], object]) -> None:
    await database.write(upgrade)
    for statement in LATER:
        await database.write(partial(execute, statement))
    await database.write(upgrade)
    for statement in (OLD_THREAD, OLD_RUN):
        await database.write(partial(execute, statement.format(id="t")))
    assert [thread.thread_id for thread in await ThreadRepository(database).search(Page(5))] == ["t"]
    await database.write(partial(execute, BREAKING))
    with pytest.raises(NewerSchema, match="written by a newer version"):
        await database.write(upgrade)


def execute(statement: str, connection: Connection) -> None:
    connection.exec_driver_sql(statement)


async def test_an_older_process_goes_on_inserting_while_a_newer_one_migrates(postgres: PostgresServer) -> None:
    with postgres.fresh_database() as url:
        address = PostgresAddress(url)
        async with open_postgres(address, size=2) as newer, open_postgres(address, size=2) as older:
            await newer.write(partial(upgrade_schema, url))
            await newer.write(back_to_0006)
            migration = asyncio.create_task(newer.write(partial(upgrade_schema, url)))
            inserted = 0
            while not migration.done() or inserted == 0:
                inserted += 1
                await older.write(partial(insert_as_0006, number=inserted))
            await migration
            urgencies = "SELECT urgency FROM runs"
            found = await newer.read(lambda connection: [*connection.exec_driver_sql(urgencies).scalars()])
            assert found == [0] * inserted
            await newer.write(partial(upgrade_schema, url))


async def test_two_databases_are_upgraded_at_once_in_one_event_loop(postgres: PostgresServer) -> None:
    with postgres.fresh_database() as first, postgres.fresh_database() as second:
        async with (
            open_postgres(PostgresAddress(first), size=1) as a,
            open_postgres(PostgresAddress(second), size=1) as b,
        ):
            for database in (a, b):
                await database.write(partial(upgrade_schema, first))
                await database.write(back_to_0006)
            async with asyncio.timeout(60):
                await asyncio.gather(*(database.write(partial(upgrade_schema, first)) for database in (a, b)))
            revisions = [await database.read(schema_revision) for database in (a, b)]
            assert [found and found.revision for found in revisions] == [NEWEST_REVISION] * 2


def insert_as_0006(connection: Connection, number: int) -> None:
    for statement in (OLD_THREAD, OLD_RUN):
        connection.exec_driver_sql(statement.format(id=number))


def back_to_0006(connection: Connection) -> None:
    """Undo the last migrations."""
    for table, columns in (
        ("threads", ("claimed_by", "fairness_group", "followed_until", "priority")),
        ("runs", ("urgency", "promoted", "watch", "process_id", "cancel_reason")),
        ("run_events", ("created_at",)),
    ):
        for column in columns:
            connection.exec_driver_sql(f"ALTER TABLE {table} DROP COLUMN {column}")
    indexes = [f"INDEX ix_threads_{name}" for name in ("stopped", "status", "state_updated_at")]
    for thing in ("TABLE processes", "TABLE schema_compatibility", *indexes):
        connection.exec_driver_sql(f"DROP {thing}")
    connection.exec_driver_sql("UPDATE alembic_version SET version_num = '0006'")
