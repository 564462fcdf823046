"""The store stores and finds every item of graphs and clients."""

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from langgraph.store.base import GetOp, Op, PutOp
from langgraph.store.sqlite import SqliteStore as LangGraphsStore

from tests.runtime.persistence.store.conftest import Clock, StoreDatabase
from toolweave.errors import InvalidRequest
from toolweave.runtime.persistence.store import LongTermStore, StoreOptions, open_store

NS = ("users", "u1")
DEEP: dict[str, Any] = {}
for _ in range(200):
    DEEP = {"deeper": DEEP}


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"a": 1, "b": [None, True, 1.5, "x"], "c": {"d": {}}},
        {"a": 12},  # eight bytes of JSON, which SQLite could take for its binary form
        {"ü\u2028\U0001f600": "ß'; DROP TABLE store; --"},
        {"nul": "a\0b", "half": "\ud800"},
        {"huge": 10**40, "text": "x" * 1_000_000},
        DEEP,
    ],
    ids=["empty", "kinds", "eight-bytes", "unicode", "nul", "huge", "deep"],
)
async def test_a_value_comes_back_as_it_was_put(value: dict[str, Any], store: LongTermStore) -> None:
    await store.aput(NS, "k", value)
    item = await store.aget(NS, "k")
    assert item is not None
    assert (item.value, item.namespace, item.key) == (value, NS, "k")
    assert (await store.asearch(NS, filter={name: value[name] for name in list(value)[:1]}))[0].value == value


async def test_an_update_keeps_the_items_place_and_the_time_it_was_made(
    store_database: StoreDatabase, clock: Clock
) -> None:
    store = store_database.store(StoreOptions(), clock)
    for key in ("a", "b", "c"):
        await store.aput(NS, key, {"n": 1})
    made = clock.now
    clock.advance(1)
    await store.aput(NS, "a", {"n": 2})
    found = await store.asearch(NS)
    assert [item.key for item in found] == ["a", "b", "c"]
    assert (found[0].created_at, found[0].updated_at, found[0].value) == (made, clock.now, {"n": 2})


async def test_searches_page_through_namespaces_as_they_began(store: LongTermStore) -> None:
    for namespace, key in (("b", "1"), ("a", "2"), ("b", "3"), ("c", "4")):
        await store.aput(("all", namespace), key, {"odd": int(key) % 2})
    assert [item.key for item in await store.asearch(("all",))] == ["1", "3", "2", "4"]
    assert [item.key for item in await store.asearch((), limit=2, offset=1)] == ["3", "2"]
    assert [item.key for item in await store.asearch((), filter={"odd": 0}, limit=1, offset=1)] == ["4"]


async def test_a_call_that_fails_affects_no_other_call(store: LongTermStore) -> None:
    """LangGraph's own stores fail every call of the same moment with it, or store half of them."""
    calls = [store.aput(NS, str(number), {"n": number}) for number in range(20)]
    bad = [store.aput(NS, "bad", {"not": {"json": object()}}), store.asearch(NS, filter={"n": {"$in": [1]}})]
    half = store.abatch([PutOp(NS, "half", {}), PutOp(NS, "\ud800", {})])
    outcomes = await asyncio.gather(*calls, *bad, half, return_exceptions=True)
    assert outcomes[:20] == [None] * 20
    assert [type(outcome) for outcome in outcomes[20:]] == [InvalidRequest, ValueError, UnicodeEncodeError]
    assert len(await store.asearch(NS, limit=100)) == 20
    assert await store.aget(NS, "half") is None
    await store.aput(NS, "after", {})
    assert await store.aget(NS, "after") is not None


async def test_a_batch_reads_before_it_writes_and_the_last_put_of_a_key_counts(store: LongTermStore) -> None:
    await store.aput(NS, "k", {"n": 1})
    ops: list[Op] = [PutOp(NS, "k", {"n": 2}), GetOp(NS, "k"), PutOp(NS, "k", {"n": 3})]
    put, got, last = await store.abatch(ops)
    assert (put, last) == (None, None)
    assert got.value == {"n": 1}  # type: ignore[union-attr]
    item = await store.aget(NS, "k")
    assert item is not None
    assert item.value == {"n": 3}


async def test_a_node_on_another_thread_calls_the_store_synchronously(store: LongTermStore) -> None:
    await asyncio.to_thread(store.put, NS, "k", {"n": 1})
    item = await asyncio.to_thread(store.get, NS, "k")
    assert item is not None
    assert item.value == {"n": 1}


async def test_namespaces_are_listed_in_order_by_prefix_suffix_and_depth(store: LongTermStore) -> None:
    for namespace in (("b", "x", "z"), ("a", "x"), ("a", "y", "z"), ("a", "y", "w"), ("B",), ("ab",)):
        await store.aput(namespace, "k", {})
    assert await store.alist_namespaces(max_depth=1) == [("B",), ("a",), ("ab",), ("b",)]
    assert await store.alist_namespaces(prefix=("a",), limit=2, offset=1) == [("a", "y", "w"), ("a", "y", "z")]
    assert await store.alist_namespaces(prefix=("*", "x")) == [("a", "x"), ("b", "x", "z")]
    assert await store.alist_namespaces(suffix=("*", "z"), max_depth=2) == [("a", "y"), ("b", "x")]


async def test_tool_results_are_the_threads_own_and_hidden_from_clients(store: LongTermStore) -> None:
    first, second = (f"0000000{number}-0000-4000-8000-000000000000" for number in (1, 2))
    await store.aput(("threads", first, "tool_results"), "call", {"text": "long"})
    await store.aput(("threads", "mine", "tool_results"), "call", {})
    await store.copy_thread_items(first, second)
    assert await store.thread_ids() == {first, second}
    item = await store.aget(("threads", second, "tool_results"), "call")
    assert item is not None
    assert item.value == {"text": "long"}
    clients = store.without_tool_results()
    assert await clients.aget(("threads", second, "tool_results"), "call") is None
    assert [item.namespace for item in await clients.asearch(())] == [("threads", "mine", "tool_results")]
    assert await clients.alist_namespaces() == [("threads", "mine", "tool_results")]
    await store.delete_thread_items(first)
    assert await store.thread_ids() == {second}


async def test_a_synchronous_call_on_the_loop_says_what_to_do_instead(store: LongTermStore) -> None:
    with pytest.raises(asyncio.InvalidStateError, match=r"await store\.aput"):
        store.put(NS, "k", {})


async def test_a_file_of_langgraphs_own_store_is_read_and_written_on(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with LangGraphsStore.from_conn_string(str(path)) as theirs:
        theirs.setup()
        theirs.put(NS, "theirs", {"a": 12})
    async with open_store(path, StoreOptions()) as store:
        item = await store.aget(NS, "theirs")
        assert item is not None
        assert item.value == {"a": 12}
        assert item.created_at.utcoffset() is not None
        await store.aput(NS, "theirs", {"a": 13})
        await store.aput(NS, "ours", {})
        assert [item.value for item in await store.asearch(NS, filter={"a": {"$gte": 13}})] == [{"a": 13}]


async def test_a_second_program_that_writes_the_file_does_not_break_a_put(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with open_store(path, StoreOptions()) as store:
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        putting = asyncio.create_task(store.aput(NS, "k", {}))
        assert await store.aget(NS, "k") is None
        other.execute("COMMIT")
        other.close()
        await putting
        assert await store.aget(NS, "k") is not None
