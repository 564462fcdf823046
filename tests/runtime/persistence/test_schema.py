"""Migrations and table definitions agree, and newer files are left alone."""

import re
import sqlite3
from functools import partial
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection

from toolweave.errors import NewerSchema, PersistenceError
from toolweave.runtime.codec import to_json
from toolweave.runtime.persistence.database import open_database
from toolweave.runtime.persistence.opening import open_persistence
from toolweave.runtime.persistence.run_rows import opened_credentials
from toolweave.runtime.persistence.schema import MIGRATIONS, metadata, one_migration_at_a_time, upgrade_schema
from toolweave.sealing import seal_of


def definitions(path: Path) -> set[str]:
    """The text of every table and index, in a form that does not depend on line breaks and quotes."""
    connection = sqlite3.connect(path)
    try:
        found = connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name != 'alembic_version'")
        return {re.sub(r"[\s\"]+", " ", sql).strip() for (sql,) in found}
    finally:
        connection.close()


async def test_migrations_make_exactly_the_tables_that_are_defined(tmp_path: Path) -> None:
    migrated, defined = tmp_path / "migrated.db", tmp_path / "defined.db"

    def differences(connection: Connection) -> list[object]:
        return list(compare_metadata(MigrationContext.configure(connection), metadata))

    async with open_database(migrated, partial(upgrade_schema, migrated)) as database:
        assert await database.read(differences) == []
    async with open_database(defined, metadata.create_all):
        pass
    assert definitions(migrated) == definitions(defined)
    assert any("WHERE status" in definition for definition in definitions(migrated))


async def test_opening_again_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "app.db"
    async with open_database(path, partial(upgrade_schema, path)):
        pass
    before = definitions(path)

    async with open_database(path, partial(upgrade_schema, path)):
        pass

    assert definitions(path) == before


async def test_a_newer_schema_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "app.db"
    async with open_database(path, partial(upgrade_schema, path)):
        pass
    connection = sqlite3.connect(path)
    connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.execute("CREATE TABLE from_the_future (id INTEGER)")
    connection.commit()
    connection.close()
    before = definitions(path)

    with pytest.raises(NewerSchema, match=r"app\.db was written by a newer version.*'9999'.*Upgrade Toolweave"):
        async with open_database(path, partial(upgrade_schema, path)):
            pytest.fail("opened")

    assert definitions(path) == before


async def test_a_migration_that_fails_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "app.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE runs (somebody_elses TEXT)")
    connection.close()
    before = definitions(path)

    with pytest.raises(PersistenceError, match=r"app\.db: table runs already exists"):
        async with open_database(path, partial(upgrade_schema, path)):
            pytest.fail("opened")

    assert definitions(path) == before


def upgrade_to(revision: str, connection: Connection) -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.attributes.update(connection=connection, seal=None)
    # It begins SQLAlchemy's transaction: alembic would otherwise commit that of the writer.
    assert MigrationContext.configure(connection).get_current_revision() is None
    with one_migration_at_a_time:
        command.upgrade(config, revision)


@pytest.mark.requirement("R-02")
async def test_tokens_that_an_earlier_version_stored_are_encrypted_or_removed(tmp_path: Path) -> None:
    # SQLite stores a long row on several pages, and these are not used again at once.
    token = "secret-token" * 2_000
    user = {"identity": "ada", "display_name": "Ada", "permissions": ["talk"], "token": token}
    kwargs = {"config": {"configurable": {"langgraph_auth_user": user, "langgraph_auth_user_id": "ada"}}}
    async with open_database(tmp_path / "app.db", partial(upgrade_to, "0004")) as old:
        await old.write(partial(store_as_version_4, kwargs=to_json(kwargs), user=to_json(user)))
    assert b"secret-token" in (tmp_path / "app.db").read_bytes()

    async with open_persistence(tmp_path) as persistence:
        ended, waiting = [await persistence.runs.get("t", run_id) for run_id in ("ended", "waiting")]
        (cron,) = await persistence.crons.search()
        assert await persistence.runs.credentials(ended) == {}
        assert await persistence.runs.credentials(waiting) == {"user": {"token": token}}
        shown = {name: value for name, value in user.items() if name != "token"}
        for run in (ended, waiting):
            assert run.kwargs["config"]["configurable"]["langgraph_auth_user"] == shown
        assert cron.user == shown
        assert await opened_credentials(seal_of(tmp_path, None), cron.sealed) == {"user": {"token": token}}
        plain = await persistence.runs.get("t", "nobody's")
        assert plain.kwargs == {"input": "langgraph_auth_user"}
    assert b"secret-token" not in (tmp_path / "app.db").read_bytes()


def store_as_version_4(connection: Connection, kwargs: str, user: str) -> None:
    connection.exec_driver_sql(
        "INSERT INTO threads (thread_id, status, settled, metadata, config, created_at, updated_at, state_updated_at)"
        " VALUES ('t', 'busy', 'idle', '{}', '{}', 0, 0, 0)"
    )
    connection.exec_driver_sql("INSERT INTO assistants VALUES ('a', 'g', 'a', NULL, '{}', '{}', '{}', 1, 0, 0)")
    for run_id, status, given in (
        ("nobody's", "success", '{"input":"langgraph_auth_user"}'),
        ("ended", "success", kwargs),
        ("waiting", "pending", kwargs),
    ):
        connection.exec_driver_sql(
            "INSERT INTO runs (run_id, thread_id, assistant_id, graph_id, status, metadata, kwargs, multitask_strategy,"
            " temporary, attempt, created_at, updated_at) VALUES (?, 't', 'a', 'g', ?, '{}', ?, 'enqueue', 0, 0, 0, 0)",
            (run_id, status, given),
        )
    connection.exec_driver_sql(
        "INSERT INTO crons (cron_id, assistant_id, schedule, payload, metadata, enabled, created_at, updated_at,"
        " user_members) VALUES ('c', 'a', '* * * * *', '{}', '{}', 1, 0, 0, ?)",
        (user,),
    )
