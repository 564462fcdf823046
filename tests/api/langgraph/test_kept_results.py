"""What the store keeps of a thread's tool results is there as long as the thread is, and no longer (D-7)."""

import asyncio
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from langgraph_sdk.client import LangGraphClient

from tests.api.langgraph.steering import new_thread
from tests.fixtures.app_server import AppProcess, AppServer

APP = Path(__file__).parent / "apps" / "talking"
LANGGRAPH_JSON = APP / "langgraph.json"
SERVER_ENV = {"TOOLWEAVE_MCP_CONFIG": str(APP / "mcp.jsonc")}
BOUND_S = 20.0

Sdk = LangGraphClient


def told(*calls: tuple[str, dict[str, Any], str]) -> dict[str, Any]:
    """Make the input that has the model call tools."""
    listed = [{"name": name, "args": args, "id": call_id} for name, args, call_id in calls]
    return {"messages": [{"role": "user", "content": json.dumps(listed)}]}


LONG = told(("long_text", {"lines": 500}, "long"))


async def long_result(sdk: Sdk, thread_id: str | None) -> str:
    state: Any = await sdk.runs.wait(thread_id, "talking", input=LONG)
    [text] = [message["content"] for message in state["messages"] if message["type"] == "tool"]
    assert "call read_tool_result with id 'long'" in text
    return str(text)


async def kept(sdk: Sdk, thread_id: str) -> list[str]:
    found = await sdk.store.search_items(["threads", thread_id, "tool_results"])
    return [item["key"] for item in found["items"]]


def prefixes(app_server: AppServer) -> set[str]:
    """Read the store's file beside the server."""
    with sqlite3.connect(app_server.settings.data_dir / "store.db") as connection:
        return {row[0] for row in connection.execute("SELECT prefix FROM store")}


async def test_a_long_result_is_kept_whole_and_read_on_in_a_later_run(sdk: Sdk) -> None:
    thread_id = await new_thread(sdk)
    text = await long_result(sdk, thread_id)
    assert len(text) < 1_300
    assert await kept(sdk, thread_id) == ["long"]
    read = told(("read_tool_result", {"id": "long", "search": "line 499"}, "read"))
    state: Any = await sdk.runs.wait(thread_id, "talking", input=read)
    assert "line 499: plain" in state["messages"][-2]["content"]


async def test_deleting_a_thread_deletes_what_is_kept_and_nothing_else(sdk: Sdk) -> None:
    doomed, staying = await new_thread(sdk), await new_thread(sdk)
    await asyncio.gather(long_result(sdk, doomed), long_result(sdk, staying))
    await sdk.store.put_item(["threads", doomed, "notes"], "mine", {"text": "the application's own"})

    await sdk.threads.delete(doomed)

    assert await kept(sdk, doomed) == []
    assert await kept(sdk, staying) == ["long"]
    assert await sdk.store.get_item(["threads", doomed, "notes"], "mine")


async def test_pruning_deletes_it_and_keeping_the_latest_keeps_it(sdk: Sdk) -> None:
    doomed, shortened = await new_thread(sdk), await new_thread(sdk)
    await asyncio.gather(long_result(sdk, doomed), long_result(sdk, shortened))
    await sdk.threads.prune([doomed])
    await sdk.threads.prune([shortened], strategy="keep_latest")
    assert (await kept(sdk, doomed), await kept(sdk, shortened)) == ([], ["long"])


async def test_a_copied_thread_has_its_own_copy(sdk: Sdk) -> None:
    source = await new_thread(sdk)
    await long_result(sdk, source)
    copied: Any = await sdk.threads.copy(source)  # type: ignore[func-returns-value]  # as the SDK has it
    await sdk.threads.delete(source)
    assert await kept(sdk, copied["thread_id"]) == ["long"]
    read = told(("read_tool_result", {"id": "long", "offset": 1000}, "read"))
    state: Any = await sdk.runs.wait(copied["thread_id"], "talking", input=read)
    assert "[Characters 1000 to " in state["messages"][-2]["content"]


async def test_a_run_without_a_thread_leaves_nothing(sdk: Sdk, app_server: AppServer) -> None:
    before = prefixes(app_server)
    await long_result(sdk, None)
    assert prefixes(app_server) == before


async def test_a_subgraph_keeps_results_for_the_thread_it_runs_on(sdk: Sdk) -> None:
    thread_id = await new_thread(sdk)
    await sdk.runs.wait(thread_id, "around", input=LONG)
    assert await kept(sdk, thread_id) == ["long"]


def tables(data_dir: Path, file: str, query: str) -> list[Any]:
    with sqlite3.connect(data_dir / file) as connection:
        return connection.execute(query).fetchall()


@pytest.fixture
def leftover(tmp_path: Path) -> Iterator[tuple[AppProcess, Path]]:
    process = AppProcess(LANGGRAPH_JSON, tmp_path, SERVER_ENV)
    yield process, tmp_path
    process.close()


def test_what_a_crash_left_of_deleted_threads_goes_at_the_next_start(leftover: tuple[AppProcess, Path]) -> None:
    process, data_dir = leftover
    process.start()
    process.kill()
    gone, foreign = str(uuid4()), "not-a-thread"
    with sqlite3.connect(data_dir / "store.db") as connection:
        for prefix in (f"threads.{gone}.tool_results", f"threads.{foreign}.tool_results", f"threads.{gone}.notes"):
            connection.execute(
                "INSERT INTO store (prefix, key, value, created_at, updated_at) VALUES (?, 'k', '{}', ?, ?)",
                (prefix, "2026-01-01 00:00:00.000000+00:00", "2026-01-01 00:00:00.000000+00:00"),
            )
    connection.close()
    process.start()
    process.wait_for_log("cleared what a crash had left of 1 deleted threads")
    process.kill()
    left = {row[0] for row in tables(data_dir, "store.db", "SELECT prefix FROM store")}
    assert left == {f"threads.{foreign}.tool_results", f"threads.{gone}.notes"}
