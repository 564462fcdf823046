"""Migrations and table definitions agree, and newer files are left alone."""

import re
import sqlite3
from functools import partial
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection

from toolweave.errors import NewerSchema, PersistenceError
from toolweave.runtime.persistence.database import open_database
from toolweave.runtime.persistence.schema import upgrade_schema
from toolweave.runtime.persistence.tables import metadata


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
