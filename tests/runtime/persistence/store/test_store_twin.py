"""Whatever is done to the store, it answers as LangGraph's own in-memory store does."""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langgraph.store.base import BaseStore, SearchItem
from langgraph.store.memory import InMemoryStore

from tests.runtime.persistence.store.conftest import postgres_pool
from toolweave.runtime.persistence.postgres.store import PostgresStore, open_postgres_store
from toolweave.runtime.persistence.store import StoreOptions, open_store

LABELS = st.sampled_from(["a", "A", "ab", "a%", "a*", "b", "ü", "-"])
NAMESPACES = st.lists(LABELS, min_size=1, max_size=3).map(tuple)
KEYS = st.sampled_from(["k", "K", "", "k.k", "%"])
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 3), st.sampled_from([0.5, 2.0]), st.sampled_from(["", "x", "1"])
)
VALUES = st.dictionaries(
    st.sampled_from(["n", "m", "n.m", "'"]),
    st.one_of(SCALARS, st.lists(SCALARS, max_size=2), st.dictionaries(st.just("m"), SCALARS, max_size=1)),
    max_size=3,
)
# Orderings are left out: the in-memory store fails on items that lack the field.
WANTED = st.dictionaries(
    st.sampled_from(["n", "m", "n.m", "'"]),
    st.one_of(SCALARS, st.fixed_dictionaries({"$ne": SCALARS}), st.fixed_dictionaries({"$eq": SCALARS}), VALUES),
    max_size=2,
)
PATTERNS = st.lists(st.one_of(LABELS, st.just("*")), max_size=3).map(tuple)
DEEDS = st.one_of(
    st.tuples(st.just("put"), NAMESPACES, KEYS, VALUES),
    st.tuples(st.just("delete"), NAMESPACES, KEYS),
    st.tuples(st.just("get"), NAMESPACES, KEYS),
    st.tuples(st.just("search"), st.one_of(NAMESPACES, st.just(())), WANTED),
    st.tuples(st.just("namespaces"), PATTERNS, PATTERNS),
)


async def do(store: BaseStore, deed: tuple[Any, ...]) -> Any:
    what, *with_ = deed
    if what == "put":
        return await store.aput(*with_)
    if what == "delete":
        return await store.adelete(*with_)
    if what == "get":
        item = await store.aget(*with_)
        return item and item.value
    if what == "search":
        prefix, wanted = with_
        return sorted(shown(item) for item in await store.asearch(prefix, filter=wanted, limit=1000))
    prefix, suffix = with_
    listed = await store.alist_namespaces(prefix=prefix, suffix=suffix, limit=1000)
    # The in-memory store goes on listing namespaces whose items are all gone.
    return [namespace for namespace in listed if await holds_items(store, namespace)]


async def holds_items(store: BaseStore, namespace: tuple[str, ...]) -> bool:
    return any(item.namespace == namespace for item in await store.asearch(namespace, limit=1000))


def shown(item: SearchItem) -> tuple[tuple[str, ...], str, str]:
    return item.namespace, item.key, repr(sorted(item.value.items()))


async def compare(opening: AbstractAsyncContextManager[BaseStore], deeds: list[tuple[Any, ...]]) -> None:
    twin = InMemoryStore()
    async with opening as store:
        for deed in deeds:
            assert await do(store, deed) == await do(twin, deed), deed


@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(st.lists(DEEDS, max_size=30))
def test_it_answers_as_the_in_memory_store(deeds: list[tuple[Any, ...]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(compare(open_store(Path(folder) / "store.db", StoreOptions()), deeds))


@asynccontextmanager
async def emptied(url: str) -> AsyncIterator[PostgresStore]:
    async with postgres_pool(url) as pool, open_postgres_store(pool, StoreOptions()) as store:
        async with pool.connection() as connection:
            await connection.execute("TRUNCATE store")
        yield store


@pytest.mark.slow
@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(st.lists(DEEDS, max_size=30))
def test_in_postgresql_it_answers_as_the_in_memory_store(emptied_url: str, deeds: list[tuple[Any, ...]]) -> None:
    asyncio.run(compare(emptied(emptied_url), deeds))
