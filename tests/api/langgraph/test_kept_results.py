"""The store keeps the tool results of a thread exactly as long as the thread exists (D-7)."""

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import pytest_asyncio
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import BadRequestError

from tests.api.langgraph.steering import new_thread
from tests.api.langgraph.talking import TALKING, TALKING_ENV, calls_input, until_ready
from tests.fixtures.app_server import AppServer, serve_in_thread
from tests.servers.connections.peers import log_records

LANGGRAPH_JSON = TALKING
SERVER_ENV = TALKING_ENV
pytestmark = pytest.mark.databases("sqlite", reason="reads the files of the data folder")

Sdk = LangGraphClient
Keys = Callable[[str], list[str]]
LONG = calls_input(("long_text", {"lines": 500}, "long"))


@pytest_asyncio.fixture(scope="module", loop_scope="module", autouse=True)
async def ready_servers(app_server: AppServer) -> None:
    await until_ready(app_server.url)


async def long_result(sdk: Sdk, thread_id: str | None) -> str:
    state: Any = await sdk.runs.wait(thread_id, "talking", input=LONG)
    [text] = [message["content"] for message in state["messages"] if message["type"] == "tool"]
    assert "call read_tool_result with id 'long'" in text
    return str(text)


@pytest.fixture
def keys(app_server: AppServer) -> Callable[[str], list[str]]:
    """Read the store's file beside the server: clients cannot read the stored results of a thread."""

    def stored(thread_id: str) -> list[str]:
        query = "SELECT key FROM store WHERE prefix = ?"
        return [key for (key,) in tables(app_server.settings.data_dir, query, f"threads.{thread_id}.tool_results")]

    return stored


def store_of(data_dir: Path) -> sqlite3.Connection:
    return sqlite3.connect(data_dir / "store.db")


def tables(data_dir: Path, query: str, *values: str) -> list[Any]:
    with closing(store_of(data_dir)) as connection:
        return connection.execute(query, values).fetchall()


async def test_a_long_result_is_stored_whole_and_read_in_a_later_run(sdk: Sdk, keys: Keys) -> None:
    thread_id = await new_thread(sdk)
    text = await long_result(sdk, thread_id)
    assert len(text) < 1_300
    assert keys(thread_id) == ["long"]
    read = calls_input(("read_tool_result", {"id": "long", "search": "line 499"}, "read"))
    state: Any = await sdk.runs.wait(thread_id, "talking", input=read)
    assert "line 499: plain" in state["messages"][-2]["content"]


async def test_clients_of_the_store_neither_see_nor_change_stored_results(sdk: Sdk, keys: Keys) -> None:
    thread_id = await new_thread(sdk)
    await long_result(sdk, thread_id)
    place = ["threads", thread_id, "tool_results"]
    await sdk.store.put_item(["threads", thread_id], "mine", {"a": 1})
    for prefix in (place, ["threads", thread_id], ["threads"]):
        found = await sdk.store.search_items(prefix, limit=1_000)
        assert not [item for item in found["items"] if item["namespace"][-1] == "tool_results"]
    listed: Any = await sdk.store.list_namespaces(prefix=["threads", thread_id])
    assert listed["namespaces"] == [["threads", thread_id]]
    assert await sdk.store.get_item(place, "long") is None
    for change in (sdk.store.put_item(place, "long", {"text": "another"}), sdk.store.delete_item(place, "long")):
        with pytest.raises(BadRequestError):
            await change
    assert keys(thread_id) == ["long"]


async def test_deleting_and_pruning_a_thread_deletes_its_results_and_nothing_else(sdk: Sdk, keys: Keys) -> None:
    deleted, pruned, shortened, _ = threads = [await new_thread(sdk) for _ in range(4)]
    await asyncio.gather(*(long_result(sdk, thread_id) for thread_id in threads))
    await sdk.store.put_item(["threads", deleted, "notes"], "mine", {"text": "the application's own"})
    await sdk.threads.delete(deleted)
    await sdk.threads.prune([pruned])
    await sdk.threads.prune([shortened], strategy="keep_latest")
    assert [keys(thread_id) for thread_id in threads] == [[], [], ["long"], ["long"]]
    assert await sdk.store.get_item(["threads", deleted, "notes"], "mine")


async def test_a_copied_thread_has_its_own_copy(sdk: Sdk, keys: Keys) -> None:
    source = await new_thread(sdk)
    await long_result(sdk, source)
    copied: Any = await sdk.threads.copy(source)  # type: ignore[func-returns-value]  # as the SDK has it
    await sdk.threads.delete(source)
    assert keys(copied["thread_id"]) == ["long"]
    read = calls_input(("read_tool_result", {"id": "long", "offset": 1000}, "read"))
    state: Any = await sdk.runs.wait(copied["thread_id"], "talking", input=read)
    assert "[Characters 1000 to " in state["messages"][-2]["content"]


async def test_a_run_without_a_thread_leaves_nothing(sdk: Sdk, app_server: AppServer) -> None:
    query = "SELECT DISTINCT prefix FROM store ORDER BY prefix"
    before = tables(app_server.settings.data_dir, query)
    await long_result(sdk, None)
    assert tables(app_server.settings.data_dir, query) == before


async def test_a_subgraph_keeps_results_for_the_thread_it_runs_on(sdk: Sdk, keys: Keys) -> None:
    thread_id = await new_thread(sdk)
    await sdk.runs.wait(thread_id, "around", input=LONG)
    assert keys(thread_id) == ["long"]


async def test_results_of_deleted_threads_left_by_a_crash_are_deleted_at_the_next_start(
    app_server: AppServer, tmp_path: Path
) -> None:
    gone, foreign = str(uuid4()), "not-a-thread"
    with closing(store_of(app_server.settings.data_dir)) as stored, closing(store_of(tmp_path)) as left_behind:
        stored.backup(left_behind)
        with left_behind:
            left_behind.execute("DELETE FROM store")
            for prefix in (f"threads.{gone}.tool_results", f"threads.{foreign}.tool_results", f"threads.{gone}.notes"):
                left_behind.execute(
                    "INSERT INTO store (prefix, key, value, created_at, updated_at) VALUES (?, 'k', '{}', ?, ?)",
                    (prefix, "2026-01-01 00:00:00.000000+00:00", "2026-01-01 00:00:00.000000+00:00"),
                )
    with log_records() as records, serve_in_thread(LANGGRAPH_JSON, tmp_path, SERVER_ENV):
        pass
    assert "deleted the data that a crash had left of 1 deleted threads" in [record["message"] for record in records]
    left = {row[0] for row in tables(tmp_path, "SELECT prefix FROM store")}
    assert left == {f"threads.{foreign}.tool_results", f"threads.{gone}.notes"}
