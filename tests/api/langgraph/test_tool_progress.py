"""A tool's progress is in the `custom` stream while it runs, in any form a server may send it (mcp.md 2.4)."""

from typing import Any

import pytest
import pytest_asyncio
from langgraph_sdk.client import LangGraphClient

from tests.api.langgraph.steering import new_thread
from tests.api.langgraph.talking import TALKING, TALKING_ENV, calls_input, until_ready
from tests.fixtures.app_server import AppServer

LANGGRAPH_JSON = TALKING
SERVER_ENV = TALKING_ENV

Events = list[tuple[str, dict[str, Any]]]


@pytest_asyncio.fixture(scope="module", loop_scope="module", autouse=True)
async def ready_servers(app_server: AppServer) -> None:
    await until_ready(app_server.url)


async def custom(sdk: LangGraphClient, graph: str, run_input: dict[str, Any], **options: Any) -> Events:
    """Run a graph; give the names and data of its custom events."""
    thread_id = await new_thread(sdk)
    parts = sdk.runs.stream(thread_id, graph, input=run_input, stream_mode=["custom"], **options)
    found = [(part.event, part.data) async for part in parts]
    assert found[-1][0] != "error", found[-1]
    return [(event, data) for event, data in found if event.startswith("custom")]


async def test_progress_reaches_a_client_of_the_custom_stream(sdk: LangGraphClient) -> None:
    reports = [{"progress": 1, "total": 4, "message": "one"}]
    events = await custom(sdk, "talking", calls_input(("progress", {"reports": reports}, "c1")))
    where = {"type": "tool_progress", "tool": "progress", "server": "talk", "tool_call_id": "c1"}
    assert events == [("custom", {**where, "progress": 1.0, "total": 4.0, "message": "one"})]


@pytest.mark.parametrize("graph", ["talking", "around"])
async def test_a_flood_is_reduced_and_its_last_report_always_arrives(sdk: LangGraphClient, graph: str) -> None:
    options = {"stream_subgraphs": True} if graph == "around" else {}
    events = await custom(sdk, graph, calls_input(("progress_flood", {"reports": 5_000}, "c1")), **options)
    reported = [data["progress"] for _, data in events]
    assert reported[-1] == 5_000
    assert reported == sorted(reported)
    assert len(reported) < 200
    assert {event.partition("|")[2].partition(":")[0] for event, _ in events} == {"inner" if options else ""}


async def test_invalid_numbers_and_very_long_messages_are_sanitized(sdk: LangGraphClient) -> None:
    reports = [
        {"progress": float("nan")},
        {"progress": float("inf"), "total": 1},
        {"progress": "half"},
        {"progress": 1e300, "total": float("nan"), "message": "\x1b[31m" + "m" * 1_000_000},
    ]
    [(_, event)] = await custom(sdk, "talking", calls_input(("progress", {"reports": reports}, "c1")))
    assert (event["progress"], event["total"]) == (1e300, None)
    assert event["message"].startswith("mmm")
    assert len(event["message"]) == 500


async def test_progress_after_the_result_is_dropped(sdk: LangGraphClient) -> None:
    assert await custom(sdk, "talking", calls_input(("late_progress", {}, "c1"))) == []


async def test_a_client_of_other_modes_gets_no_custom_events(sdk: LangGraphClient, thread_id: str) -> None:
    run_input = calls_input(("progress", {"reports": [{"progress": 1}]}, "c1"))
    parts = [part async for part in sdk.runs.stream(thread_id, "talking", input=run_input, stream_mode=["values"])]
    assert {part.event for part in parts} == {"metadata", "values"}
    assert parts[-1].data["messages"][-2]["content"] == "done"
