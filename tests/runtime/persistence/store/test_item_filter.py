"""What a filter finds (langgraph_api.md sections 2.6 and 10)."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from langgraph.store.base import PutOp

from toolweave.runtime.persistence.database import SqliteDatabase, driver_of
from toolweave.runtime.persistence.store import LongTermStore, SqliteStore, StoreOptions
from toolweave.runtime.persistence.store_filter import OPERATORS, check_item_filter, matches_item_filter

VALUE = {"n": 2, "half": 0.5, "word": "pear", "digits": "10", "on": True, "none": None, "list": [1, 2], "o": {"p": 1}}


@pytest.mark.parametrize(
    "wanted",
    [
        {},
        {"n": 2},
        {"n": 2.0},
        {"n": {"$gt": 1, "$lt": 3}},
        {"n": {"$gte": "2"}},
        {"digits": {"$gt": 9}},
        {"word": {"$gt": "apple"}},
        {"n": {"$ne": 3}},
        {"gone": {"$ne": 3}},
        {"gone": None},
        {"none": {"$eq": None}},
        {"on": True},
        {"list": [1, 2]},
        {"o": {"p": {"$lte": 1}}},
        {"o": {}},
    ],
)
def test_a_value_fits(wanted: dict[str, Any]) -> None:
    check_item_filter(wanted)
    assert matches_item_filter(VALUE, wanted)


@pytest.mark.parametrize(
    "wanted",
    [
        {"n": "2"},
        {"n": {"$gt": 2}},
        {"word": {"$gt": "zebra"}},
        {"gone": {"$gt": 0}},
        {"none": {"$gte": 0}},
        {"list": {"$gt": 0}},
        {"n": {"$gt": None}},
        {"n": {}},
        {"list": [1]},
        {"o": {"p": 2}},
        {"o.p": 1},
        {"o": {"p": {"q": 1}}},
        {"n": {"$gt": 10**400}},
    ],
)
def test_a_value_does_not_fit(wanted: dict[str, Any]) -> None:
    check_item_filter(wanted)
    assert not matches_item_filter(VALUE, wanted)


@pytest.mark.parametrize("wanted", [{"n": {"$in": [1]}}, {"o": {"p": {"$gt": 1, "x": 2}}}, {"list": [{"$bad": 1}]}])
def test_an_unknown_operator_is_refused_before_any_item_is_read(wanted: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="Unsupported operator"):
        check_item_filter(wanted)


# What SQLite and Python read, compare or write differently.
ODD: Sequence[Any] = (
    *(None, True, False, 0, -0.0, 1, 1.0, 2, -3, 0.1, 0.3, 0.1 + 0.2, 123456789.12345679, 1e22),
    *(1e-320, -1e-310, float("inf"), float("-inf"), float("nan")),
    *(2**53, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1, 10**30, 10**400, float(2**63), 1.7976931348623157e308),
    *("", "1", "1.0", "true", "null", "[1]", "{}", " 2 ", "1_0", "nan", "inf", "-inf", "a", "A", "aa", "b"),
    *("a\0", "a\0b", "\0", "a\ud800", "\uffff", "\U0001f600", "ü", 'a"b', "a\\u0000", "\n", "%", "x'1'"),
    *([], [1], [True], ["a"], [1, 2], [None], [[1]]),
    *({}, {"p": 1}, {"p": None}, {"p": "a"}, {"p": {"q": [0.1]}}, {"q": 1}),
)


async def filtered(store: LongTermStore, wanted: dict[str, Any]) -> list[Any]:
    """Search, and compare with deciding about every value in Python."""
    found = [item.value for item in await store.asearch((), filter=wanted, limit=1000)]
    everything = [item.value for item in await store.asearch((), limit=1000)]
    assert repr(found) == repr([value for value in everything if matches_item_filter(value, wanted)]), wanted
    return found


async def test_a_search_finds_exactly_what_fits_whatever_the_database_thinks_of_the_values(
    store: LongTermStore,
) -> None:
    for number, value in enumerate(ODD):
        await store.aput(("odd", f"n{number % 3}"), str(number), {"n": value, "o": {"p": value}, "list": [value]})
    await store.aput(("odd",), "missing", {})
    await store.aput(("odd",), "no JSON for SQLite", {"n": float("nan"), "o": {"p": 1, "big": 10**30}, "list": []})
    await store.aput(("odd",), "a name twice", {"n": 1, "o": {1: 1, "1": 2, "p": 1}})
    found = 0
    for operand in ODD:
        for wanted in (operand, *({operator: operand} for operator in OPERATORS)):
            found += len(await filtered(store, {"n": wanted}))
        found += len(await filtered(store, {"o": {"p": {"$gt": operand}}}))
        found += len(await filtered(store, {"list": [operand]}))
    assert found > len(ODD)


HOSTILE_NAMES = (
    *("", "a.b", "$", "$.n", "[0]", "#", "'", '"', '"."n', "\\"),
    *("a\\u0062", "a\nb", "a\0b", "ключ", "\ud800", "x" * 500),
)


@pytest.mark.parametrize("name", HOSTILE_NAMES)
async def test_any_name_can_be_searched_for(name: str, store: LongTermStore) -> None:
    await store.aput(("a",), "with", {name: 1, "o": {name: "x"}, "n": 1})
    await store.aput(("a",), "null", {name: None, "o": {name: None}, "n": 1})
    await store.aput(("a",), "without", {"o": {}, "n": 1, "ab": 1})
    assert len(await filtered(store, {name: 1})) == 1
    assert len(await filtered(store, {name: {"$ne": 1}})) == 2
    # Inside a filter, a name that begins with $ is an operator.
    if not name.startswith("$"):
        assert len(await filtered(store, {"o": {name: "x"}})) == 1
        assert len(await filtered(store, {"o": {name: None}})) == 2


async def test_a_filter_of_many_parts_is_decided_as_a_small_one(store: LongTermStore) -> None:
    await store.aput(("a",), "all", {f"n{number}": number for number in range(2000)})
    await store.aput(("a",), "all but one", {f"n{number}": number for number in range(1999)})
    assert len(await filtered(store, {f"n{number}": number for number in range(2000)})) == 1
    assert len(await filtered(store, {"n5": dict.fromkeys(("$eq", "$gte", "$lte"), 5)})) == 2


async def test_a_filtered_search_decodes_only_items_that_may_fit(database: SqliteDatabase) -> None:
    """An item that SQLite can read and Python cannot shows which items are decoded."""
    store = SqliteStore(database, StoreOptions())
    unreadable = json.dumps({"kind": "b", "n": 2, "done": False, "o": {"p": 2}, "text": "\ud800"})
    put = "INSERT INTO store (prefix, key, value, created_at, updated_at) VALUES ('a', 'unreadable', ?, '2026', '2026')"
    await database.write(lambda connection: driver_of(connection).execute(put, (unreadable,)).rowcount)
    await store.aput(("a",), "other", {"kind": "a", "n": 1, "done": True, "o": {"p": 1}})
    with pytest.raises(ValueError, match="surrogate"):
        await store.asearch(("a",), filter={"kind": "b"})
    numbers: list[Any] = [1, 1.0, True, {"$eq": 1}, {"$ne": 2}, {"$gte": 0.5, "$lte": 1}]
    filters: list[dict[str, Any]] = [{"kind": "a"}, {"kind": {"$ne": "b"}}, {"done": True, "gone": None}]
    for wanted in (*filters, *({"n": number} for number in numbers)):
        assert [item.key for item in await store.asearch(("a",), filter=wanted)] == ["other"], wanted


async def test_a_search_looks_through_its_namespace_only(database: SqliteDatabase) -> None:
    store = SqliteStore(database, StoreOptions())
    instructions = 0

    def count() -> None:
        nonlocal instructions
        instructions += 1

    async def instructions_of_a_search() -> int:
        nonlocal instructions
        instructions = 0
        assert len(await store.asearch(("a",), filter={"n": 1})) == 10
        return instructions

    for number in range(10):
        await store.aput(("a", str(number)), "k", {"n": 1})
    await database.read(lambda connection: driver_of(connection).set_progress_handler(count, 1))
    alone = await instructions_of_a_search()
    await store.abatch([PutOp(("b", str(number)), "k", {"n": 1}) for number in range(1000)])
    assert await instructions_of_a_search() <= 2 * alone
