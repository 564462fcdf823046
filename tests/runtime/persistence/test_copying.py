"""A data folder of an earlier version, copied to PostgreSQL, reads the same there as before."""

import json
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
import sqlalchemy as sa
from langchain_core.embeddings import Embeddings
from langgraph.checkpoint.base import BaseCheckpointSaver

from tests.fixtures.postgres import PostgresServer
from toolweave.encryption import data_folder_cipher
from toolweave.errors import PersistenceError
from toolweave.runtime.persistence.checkpoints.postgres_saver import PostgresRunSaver
from toolweave.runtime.persistence.data_folder import Persistence, open_persistence
from toolweave.runtime.persistence.database import PostgresAddress, RuntimeDatabase
from toolweave.runtime.persistence.postgres.copying import NOT_COPIED, FolderCopy
from toolweave.runtime.persistence.postgres.database import PostgresDatabase, open_postgres
from toolweave.runtime.persistence.postgres.opening import prepare_database
from toolweave.runtime.persistence.postgres.store import open_postgres_store
from toolweave.runtime.persistence.run_rows import open_credentials
from toolweave.runtime.persistence.runs import RunRepository
from toolweave.runtime.persistence.schema import metadata
from toolweave.runtime.persistence.store import StoreIndex, StoreOptions

FOLDERS = Path(__file__).parents[2] / "data_folders"
KEY = "a key of several machines"


@pytest.fixture(params=["schema-0004", "schema-0006-product"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Give a data folder that an earlier version has left, with runs that were running."""
    with ZipFile(FOLDERS / f"{request.param}.zip") as packed:
        packed.extractall(tmp_path / "old")
    return tmp_path / "old"


@pytest.fixture
async def database(postgres: PostgresServer) -> AsyncIterator[PostgresDatabase]:
    with postgres.fresh_database() as url:
        async with open_postgres(PostgresAddress(url), size=3) as database:
            await prepare_database(database)
            yield database


def copy_of(folder: Path, **options: Any) -> FolderCopy:
    return FolderCopy(folder, read=data_folder_cipher(folder, KEY), write=data_folder_cipher(folder, KEY), **options)


async def history(saver: BaseCheckpointSaver[Any]) -> list[Any]:
    """Return all checkpoints of all threads with their pending writes."""
    found = [checkpoint async for checkpoint in saver.alist(None)]
    for checkpoint in found:
        checkpoint.config["configurable"] = dict(sorted(checkpoint.config["configurable"].items()))
    return sorted(found, key=lambda each: json.dumps(each.config))


async def rows(database: RuntimeDatabase, table: sa.Table) -> list[dict[str, Any]]:
    statement = sa.select(table).order_by(*table.primary_key)
    return await database.read(lambda connection: [row._asdict() for row in connection.execute(statement)])


async def test_everything_that_was_stored_reads_the_same_on_postgresql(
    folder: Path, database: PostgresDatabase
) -> None:
    async with open_persistence(folder) as old:
        counts = await copy_of(folder).run(database)
        checkpoints = await history(old.checkpointer)
        assert counts["checkpoints"] == len(checkpoints) > 0
        assert await history(PostgresRunSaver(database.pool)) == checkpoints
        for table in metadata.sorted_tables:
            if table not in NOT_COPIED:
                expected = [changed(table.name, row) for row in await rows(old.app, table)]
                found = [changed(table.name, row) for row in await rows(database, table)]
                assert (table.name, found) == (table.name, expected)
                assert counts[table.name] == len(found)
        async with open_postgres_store(database.pool, StoreOptions()) as store:
            assert await store.asearch((), limit=100) == await old.store.asearch((), limit=100)
        await require_continuation(old, database)


def changed(table: str, row: dict[str, Any]) -> dict[str, Any]:
    """Return a row without what a copy changes."""
    left_out = {"runs": ("sealed", "status"), "run_events": ("created_at",), "crons": ("sealed",)}.get(table, ())
    return {name: value for name, value in row.items() if name not in left_out}


async def require_continuation(old: Persistence, database: PostgresDatabase) -> None:
    """Runs wait that were running, with their callers' credentials in the servers' key, and new rows come last."""
    before = {run.run_id: run for run in await old.runs.list_active()}
    after = await RunRepository(database, cipher=data_folder_cipher(Path("absent"), KEY)).list_active()
    assert {run.run_id for run in after} == {*before}
    assert {run.status for run in after} == {"pending"}
    for run in after:
        query = sa.text("SELECT sealed FROM runs WHERE run_id = :id").bindparams(id=run.run_id)
        sealed = await database.read(partial(sa.Connection.scalar, statement=query))
        found = await open_credentials(data_folder_cipher(Path("absent"), KEY), sealed)
        assert found == await old.runs.credentials(before[run.run_id])
    following = await database.write(
        lambda connection: connection.scalar(sa.text("SELECT nextval('runs_seq_seq') > max(seq) FROM runs"))
    )
    assert following


async def test_a_database_in_use_is_refused_and_left_alone(folder: Path, database: PostgresDatabase) -> None:
    await database.write(
        lambda connection: connection.exec_driver_sql(
            "INSERT INTO processes VALUES ('p', 'worker', 'h', 1, 1, 0, extract(epoch FROM now()) * 1000000, 60000000)"
        )
    )
    async with open_persistence(folder):
        with pytest.raises(PersistenceError, match="Processes of Toolweave use the database"):
            await copy_of(folder).run(database)
        await database.write(lambda connection: connection.exec_driver_sql("DELETE FROM processes"))
        await copy_of(folder).run(database)
        with pytest.raises(PersistenceError, match="has rows in its table threads"):
            await copy_of(folder).run(database)


async def test_a_row_that_cannot_be_stored_leaves_the_database_empty(folder: Path, database: PostgresDatabase) -> None:
    async with open_persistence(folder):
        await database.write(
            lambda connection: connection.exec_driver_sql("ALTER TABLE threads ADD CHECK (status = 'unheard of')")
        )
        with pytest.raises(PersistenceError, match=r"could not be copied to .*Nothing was stored"):
            await copy_of(folder).run(database)
    assert await rows(database, metadata.tables["assistants"]) == []


async def test_vectors_of_the_configured_length_are_copied(tmp_path: Path, database: PostgresDatabase) -> None:
    index = StoreIndex(LengthEmbeddings(), dims=2)
    async with open_persistence(tmp_path, store_options=StoreOptions(index=index)) as old:
        for key, text in (("a", "x"), ("b", "x" * 9), ("nul", "\0")):
            await old.store.aput(("notes",), key, {"text": text}, ttl=30.5 if key == "a" else None)
        await prepare_database(database, index)
        counts = await copy_of(tmp_path, dims=2).run(database)
        assert (counts["store"], counts["store_vectors"]) == (3, 3)
        async with open_postgres_store(database.pool, StoreOptions(index=index)) as store:
            for query in (None, "x" * 40):
                found = [(each.key, each.value, each.created_at) for each in await store.asearch((), query=query)]
                expected = await old.store.asearch((), query=query)
                assert found == [(each.key, each.value, each.created_at) for each in expected]


class LengthEmbeddings(Embeddings):
    """Vectors that depend on the lengths of texts."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [[float(len(text)), 100.0] for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]
