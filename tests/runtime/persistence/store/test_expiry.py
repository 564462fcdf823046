"""Items with a time to live expire after it, and using them restarts it."""

import asyncio

import pytest

from tests.runtime.persistence.store.conftest import BOUND_S, Clock, StoreDatabase
from toolweave.runtime.persistence.store import StoreOptions

NS = ("notes",)


async def test_an_expired_item_is_not_found_even_before_it_is_swept(
    store_database: StoreDatabase, clock: Clock
) -> None:
    store = store_database.store(StoreOptions(refresh_on_read=False), clock)
    await store.aput(NS, "short", {}, ttl=5)
    await store.aput(NS, "long", {}, ttl=60)
    await store.aput(("gone",), "at once", {}, ttl=0)
    assert await store.aget(("gone",), "at once") is None
    clock.advance(5)
    assert await store.aget(NS, "short") is None
    assert [item.key for item in await store.asearch(())] == ["long"]
    assert await store.alist_namespaces() == [NS]
    assert await store_database.rows() == 3
    assert await store.sweep_ttl() == 2
    assert await store_database.rows() == 1


async def test_reading_restarts_the_time_to_live_unless_the_call_says_no(
    store_database: StoreDatabase, clock: Clock
) -> None:
    store = store_database.store(StoreOptions(), clock)
    for key in ("got", "found", "only looked at"):
        await store.aput((key,), key, {}, ttl=10)
    clock.advance(9)
    await store.aget(("got",), "got")
    await store.asearch(("found",))
    await store.aget(("only looked at",), "only looked at", refresh_ttl=False)
    clock.advance(9)
    assert {item.key for item in await store.asearch((), refresh_ttl=False)} == {"got", "found"}
    clock.advance(1)
    assert await store.asearch(()) == []


async def test_reading_an_expired_item_does_not_restart_its_time_to_live(
    store_database: StoreDatabase, clock: Clock
) -> None:
    store = store_database.store(StoreOptions(), clock)
    await store.aput(NS, "k", {}, ttl=1)
    clock.advance(2)
    assert await store.aget(NS, "k") is None
    clock.advance(-1.5)
    assert await store.aget(NS, "k") is not None


async def test_the_default_holds_for_items_without_a_time_to_live(store_database: StoreDatabase, clock: Clock) -> None:
    store = store_database.store(StoreOptions(default_ttl=3, refresh_on_read=False), clock)
    await store.aput(NS, "default", {})
    await store.aput(NS, "for ever", {}, ttl=None)
    await store.aput(NS, "own", {}, ttl=10)
    clock.advance(4)
    assert [item.key for item in await store.asearch(NS)] == ["for ever", "own"]


async def test_a_put_sets_a_new_time_to_live(store_database: StoreDatabase, clock: Clock) -> None:
    store = store_database.store(StoreOptions(), clock)
    await store.aput(NS, "k", {"n": 1}, ttl=1)
    clock.advance(2)
    await store.aput(NS, "k", {"n": 2})
    clock.advance(1_000_000)
    item = await store.aget(NS, "k")
    assert item is not None
    assert item.value == {"n": 2}
    assert item.created_at == item.updated_at


@pytest.mark.parametrize("minutes", [1e9, 1e300])
async def test_a_time_to_live_beyond_the_calendar_is_endless(
    minutes: float, store_database: StoreDatabase, clock: Clock
) -> None:
    store = store_database.store(StoreOptions(), clock)
    await store.aput(NS, "k", {}, ttl=minutes)
    assert await store.aget(NS, "k") is not None
    assert await store.aget(NS, "k") is not None


async def test_the_sweeper_deletes_while_the_store_is_open_and_ends_with_it(store_database: StoreDatabase) -> None:
    async with store_database.open(StoreOptions(sweep_seconds=0.01)) as store:
        await store.aput(NS, "k", {}, ttl=0)
        async with asyncio.timeout(BOUND_S):
            while await store_database.rows():
                pass
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "store-sweeper"]
