"""Runs are queued, cancelled, rolled back and deleted (langgraph_api.md 5.7-5.9)."""

import asyncio
from pathlib import Path

import httpx
import pytest
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import ConflictError, NotFoundError

from tests.api.langgraph.steering import NOBODY, new_thread, run_at_gate

LANGGRAPH_JSON = Path(__file__).parent / "app" / "langgraph.json"


async def test_a_busy_thread_refuses_or_queues_the_next_run(sdk: LangGraphClient, http: httpx.AsyncClient) -> None:
    thread_id = await new_thread(sdk)
    _, gate = await run_at_gate(sdk, http, thread_id)
    assert (await sdk.threads.get(thread_id))["status"] == "busy"
    with pytest.raises(ConflictError, match="Thread is already running a task"):
        await sdk.runs.create(thread_id, "steps", input={"n": 1}, multitask_strategy="reject")
    second = await sdk.runs.create(thread_id, "steps", input={"n": 9})
    await http.post(f"/gates/{gate}/open")
    assert (await sdk.runs.join(thread_id, second["run_id"]))["n"] == 20
    assert [run["status"] for run in await sdk.runs.list(thread_id)] == ["success", "success"]


async def test_a_cancelled_run_keeps_what_it_has_done(sdk: LangGraphClient, http: httpx.AsyncClient) -> None:
    thread_id = await new_thread(sdk)
    run_id, _ = await run_at_gate(sdk, http, thread_id)
    path = f"/threads/{thread_id}/runs/{run_id}"
    answer = await http.post(f"{path}/cancel?wait=1")
    assert (answer.status_code, answer.json()) == (200, {})
    assert (answer.headers["content-location"], answer.headers["location"]) == (path, f"{path}/join")
    assert (await sdk.runs.get(thread_id, run_id))["status"] == "interrupted"
    thread = await sdk.threads.get(thread_id)
    assert (thread["status"], (thread["values"] or {})["log"]) == ("interrupted", ["add"])
    assert (await sdk.threads.get_state(thread_id))["next"] == ["hold"]


async def test_a_run_rolled_back_was_never_there(sdk: LangGraphClient, http: httpx.AsyncClient) -> None:
    thread_id = await new_thread(sdk)
    run_id, _ = await run_at_gate(sdk, http, thread_id)
    answer = await http.post(f"/threads/{thread_id}/runs/{run_id}/cancel?wait=true&action=rollback")
    assert (answer.status_code, answer.json()) == (200, {})
    with pytest.raises(NotFoundError):
        await sdk.runs.get(thread_id, run_id)
    assert (await sdk.threads.get(thread_id))["status"] == "idle"
    assert await sdk.threads.get_history(thread_id) == []


async def test_cancelling_without_waiting_is_accepted_at_once(sdk: LangGraphClient, http: httpx.AsyncClient) -> None:
    thread_id = await new_thread(sdk)
    run_id, _ = await run_at_gate(sdk, http, thread_id)
    answer = await http.post(f"/threads/{thread_id}/runs/{run_id}/cancel?wait=false")
    assert (answer.status_code, answer.content) == (202, b"")
    async with asyncio.timeout(10):
        await sdk.runs.join(thread_id, run_id)
    assert (await sdk.runs.get(thread_id, run_id))["status"] == "interrupted"


async def test_there_is_nothing_to_cancel_in_ended_or_unknown_runs(
    sdk: LangGraphClient, http: httpx.AsyncClient
) -> None:
    thread_id = await new_thread(sdk)
    run = await sdk.runs.create(thread_id, "steps", input={"n": 1})
    await sdk.runs.join(thread_id, run["run_id"])
    for run_id in (run["run_id"], NOBODY):
        with pytest.raises(NotFoundError, match="No runs found to cancel"):
            await sdk.runs.cancel(thread_id, run_id)
    assert (await http.post(f"/threads/{thread_id}/runs/{NOBODY}/cancel?action=zz")).status_code == 422
    assert (await http.post(f"/threads/{thread_id}/runs/{NOBODY}/cancel?wait=perhaps")).status_code == 422


async def test_a_deleted_run_takes_its_checkpoints_along(sdk: LangGraphClient, http: httpx.AsyncClient) -> None:
    thread_id = await new_thread(sdk)
    run = await sdk.runs.create(thread_id, "steps", input={"n": 1})
    await sdk.runs.join(thread_id, run["run_id"])
    await sdk.runs.delete(thread_id, run["run_id"])
    assert (await sdk.threads.get_state(thread_id))["values"] == {}
    running, _ = await run_at_gate(sdk, http, thread_id)
    await sdk.runs.delete(thread_id, running)
    assert await sdk.runs.list(thread_id) == []
    with pytest.raises(NotFoundError):
        await sdk.runs.delete(thread_id, running)


async def test_deleting_a_busy_thread_stops_its_run(sdk: LangGraphClient, http: httpx.AsyncClient) -> None:
    thread_id = await new_thread(sdk)
    run_id, _ = await run_at_gate(sdk, http, thread_id)
    waiting = asyncio.create_task(http.get(f"/threads/{thread_id}/runs/{run_id}/join"))
    async with asyncio.timeout(10):
        await sdk.threads.delete(thread_id)
        await waiting
    with pytest.raises(NotFoundError):
        await sdk.threads.get(thread_id)
