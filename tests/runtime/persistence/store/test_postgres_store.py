"""The store in PostgreSQL shares its tables with LangGraph's own and with other processes."""

import asyncio
from typing import Any, cast

import pytest
from langgraph.store.base import Op, PutOp
from langgraph.store.postgres.aio import AsyncPostgresStore

from tests.fixtures.postgres import PostgresServer
from tests.runtime.persistence.store.conftest import Clock, postgres_pool
from tests.runtime.persistence.store.embedding import DIMS, BagOfWords, index
from toolweave.errors import ConfigError, InvalidRequest
from toolweave.runtime.persistence.postgres.database import Pool
from toolweave.runtime.persistence.postgres.store import PostgresStore, open_postgres_store
from toolweave.runtime.persistence.store import StoreIndex, StoreOptions

NS = ("users", "u1")
VECTOR_TABLE = "SELECT to_regclass('store_vectors')"


async def scalar(pool: Pool, query: str) -> Any:
    async with pool.connection() as connection:
        row = await (await connection.execute(query.encode())).fetchone()
    assert row is not None
    return row[0]


@pytest.mark.parametrize("theirs_first", [True, False])
async def test_langgraphs_own_store_and_ours_read_each_others_items(pool: Pool, theirs_first: bool) -> None:
    theirs = AsyncPostgresStore(cast("Any", pool), index={"dims": DIMS, "embed": BagOfWords(), "fields": ["$"]})
    if theirs_first:
        await theirs.setup()
    async with open_postgres_store(pool, StoreOptions(index())) as ours:
        await theirs.setup()
        await theirs.aput(NS, "theirs", {"text": "cats"})
        await ours.aput(NS, "ours", {"text": "dogs", "n": 1}, ttl=0.5)
        for store in (ours, theirs):
            found = [(item.key, item.value) for item in await store.asearch(NS, query="dogs")]
            assert found == [("ours", {"text": "dogs", "n": 1}), ("theirs", {"text": "cats"})]
            item = await store.aget(NS, "ours")
            assert item is not None
            assert item.created_at.utcoffset() is not None


async def test_processes_that_start_together_create_the_tables_once(postgres: PostgresServer) -> None:
    async def start(url: str, number: int) -> None:
        async with postgres_pool(url) as pool, open_postgres_store(pool, StoreOptions(index())) as store:
            await store.aput(NS, str(number), {"text": "x"})

    with postgres.fresh_database() as url:
        await asyncio.gather(*(start(url, number) for number in range(4)))
        async with postgres_pool(url) as pool, open_postgres_store(pool, StoreOptions()) as store:
            assert len(await store.asearch(NS)) == 4


async def test_without_an_index_no_extension_is_needed(pool: Pool) -> None:
    async with open_postgres_store(pool, StoreOptions()):
        assert await scalar(pool, VECTOR_TABLE) is None


async def test_a_user_who_may_not_create_anything_uses_what_is_there(postgres: PostgresServer, pool: Pool) -> None:
    """A database without pgvector looks the same to a user who may not install it."""
    async with open_postgres_store(pool, StoreOptions()):
        pass
    postgres.execute("CREATE ROLE store_user LOGIN PASSWORD 'secret'")
    try:
        async with pool.connection() as connection:
            await connection.execute("GRANT SELECT, INSERT, UPDATE, DELETE ON store, store_migrations TO store_user")
        url = postgres.url(await scalar(pool, "SELECT current_database()"), "store_user", "secret")
        async with postgres_pool(url) as users:
            async with open_postgres_store(users, StoreOptions()) as store:
                await store.aput(NS, "k", {})
            with pytest.raises(ConfigError, match="pgvector") as caught:
                async with open_postgres_store(users, StoreOptions(index())):
                    pass
            assert "CREATE EXTENSION vector" in str(caught.value)
    finally:
        async with pool.connection() as connection:
            await connection.execute("DROP OWNED BY store_user")
        postgres.execute("DROP ROLE store_user")


async def test_an_update_by_a_server_without_an_index_deletes_the_embedded_texts(pool: Pool) -> None:
    async with open_postgres_store(pool, StoreOptions(index())) as store:
        await store.aput(NS, "k", {"text": "cats"})
    async with open_postgres_store(pool, StoreOptions()) as store:
        await store.aput(NS, "k", {"text": "dogs"})
    async with open_postgres_store(pool, StoreOptions(index())) as store:
        (item,) = await store.asearch(NS, query="cats")
        assert item.score is None


async def test_an_index_with_long_vectors_is_possible(pool: Pool) -> None:
    dims = 3072
    async with open_postgres_store(pool, StoreOptions(StoreIndex(BagOfWords(dims), dims))) as store:
        await store.aput(NS, "k", {"text": "cats"})
        assert [item.key for item in await store.asearch(NS, query="cats")] == ["k"]


@pytest.mark.parametrize(
    "key", ["a\0b", "".join(chr(0x4E00 + number * 7) for number in range(2000))], ids=["nul", "long"]
)
async def test_a_key_that_postgresql_cannot_store_is_an_invalid_request(key: str, pool: Pool) -> None:
    async with open_postgres_store(pool, StoreOptions()) as store:
        half = store.abatch([PutOp(NS, "half", {}), PutOp(NS, key, {})])
        calls = store.aput(NS, key, {}), half, store.aput(NS, "neighbour", {})
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [InvalidRequest, InvalidRequest, type(None)]
        assert await store.aget(NS, "half") is None
        assert await store.aget(NS, "neighbour") is not None


async def test_a_call_survives_a_lost_connection(postgres: PostgresServer) -> None:
    ended = "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE datname = %(database)s"
    with postgres.fresh_database() as url:
        async with postgres_pool(url, connections=1) as pool, open_postgres_store(pool, StoreOptions()) as store:
            await store.aput(NS, "k", {})
            postgres.execute(ended, {"database": await scalar(pool, "SELECT current_database()")})
            assert await store.aget(NS, "k") is not None


async def test_writers_of_the_same_items_do_not_wait_for_each_other_in_a_circle(pool: Pool) -> None:
    async with open_postgres_store(pool, StoreOptions()) as store:
        ops: list[Op] = [PutOp(NS, str(number), {"n": number}) for number in range(50)]
        await asyncio.gather(*(store.abatch(ops[::step]) for step in (1, -1) * 10))
        assert len(await store.asearch(NS, limit=100)) == 50


async def test_a_cancelled_batch_is_stored_whole_or_not_at_all_and_the_next_call_succeeds(
    postgres: PostgresServer,
) -> None:
    with postgres.fresh_database() as url:
        async with postgres_pool(url, connections=1) as pool, open_postgres_store(pool, StoreOptions()) as store:
            for turns in range(0, 40, 2):
                batch: list[Op] = [PutOp(NS, f"{turns} {number}", {"turns": turns}) for number in range(3)]
                putting = asyncio.create_task(store.abatch(batch))
                for _ in range(turns):
                    await asyncio.sleep(0)
                putting.cancel()
                await asyncio.gather(putting, return_exceptions=True)
                assert len(await store.asearch(NS, filter={"turns": turns})) in (0, 3)


async def test_items_of_a_batch_are_found_in_its_order(pool: Pool, clock: Clock) -> None:
    async with open_postgres_store(pool, StoreOptions()):
        store = PostgresStore(pool, StoreOptions(), clock)
        await store.abatch([PutOp(NS, key, {}) for key in ("c", "a", "b")])
        assert [item.key for item in await store.asearch(NS)] == ["c", "a", "b"]


async def test_reading_an_item_of_half_a_minute_gives_it_a_whole_one(pool: Pool, clock: Clock) -> None:
    async with open_postgres_store(pool, StoreOptions(sweep_seconds=3600)):
        pass
    store = PostgresStore(pool, StoreOptions(), clock)
    await store.aput(NS, "k", {}, ttl=0.5)
    assert await store.aget(NS, "k") is not None
    clock.advance(0.9)
    assert await store.aget(NS, "k", refresh_ttl=False) is not None
    clock.advance(0.1)
    assert await store.aget(NS, "k") is None
