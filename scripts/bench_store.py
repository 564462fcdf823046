"""Compare searches among 10 000 store items with LangGraph's own SQLite store, in turn and on equal data."""

import asyncio
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from langgraph.store.base import BaseStore, PutOp
from langgraph.store.sqlite.aio import AsyncSqliteStore

from toolweave.runtime.persistence.store import StoreOptions, open_store

ITEMS, NAMESPACES, AT_ONCE, ROUNDS = 10_000, 100, 500, 31
SEARCHES: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "by a text, page of 10": (("users",), {"filter": {"kind": "kind49"}}),
    "by a text, page of 200": (("users",), {"filter": {"kind": "kind49"}, "limit": 200}),
    "by a number": (("users",), {"filter": {"n": 9999}}),
    "by a flag": (("users",), {"filter": {"done": True}}),
    "by an ordering": (("users",), {"filter": {"n": {"$gte": 9990}}}),
    "by a difference": (("users",), {"filter": {"kind": {"$ne": "kind0"}}}),
    "a namespace, page of 10": (("users", "u7"), {}),
    "a namespace, page of 100": (("users", "u7"), {"limit": 100}),
    "a namespace by a text": (("users", "u7"), {"filter": {"kind": "kind7"}}),
    "all namespaces, page of 10": (("users",), {}),
    "all namespaces, page of 10 after 9000": (("users",), {"offset": 9000}),
}


def put(number: int) -> PutOp:
    value = {"n": number, "kind": f"kind{number % 50}", "done": number % 2 == 0, "text": "some text " * 10}
    return PutOp(("users", f"u{number % NAMESPACES}"), f"k{number}", value)


async def compare(theirs: BaseStore, ours: BaseStore, prefix: tuple[str, ...], options: dict[str, Any]) -> None:
    taken: dict[BaseStore, list[float]] = {theirs: [], ours: []}
    for _ in range(ROUNDS):
        for store, durations in taken.items():
            started = time.perf_counter()
            await store.asearch(prefix, **options)
            durations.append((time.perf_counter() - started) * 1000)
    own, base = statistics.median(taken[ours]), statistics.median(taken[theirs])
    print(f"{own:8.2f} ÷ {base:.2f} ms = {own / base:.2f} x    goal <= 1.5")


async def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        async with (
            AsyncSqliteStore.from_conn_string(str(folder / "theirs.db")) as theirs,
            open_store(folder / "ours.db", StoreOptions()) as ours,
        ):
            await theirs.setup()
            for first in range(0, ITEMS, AT_ONCE):
                puts = [put(number) for number in range(first, first + AT_ONCE)]
                await theirs.abatch(puts)
                await ours.abatch(puts)
            for label, (prefix, options) in SEARCHES.items():
                print(f"store search: {label:<38}", end="")
                await compare(theirs, ours, prefix, options)


if __name__ == "__main__":
    asyncio.run(main())
