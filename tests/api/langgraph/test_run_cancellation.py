"""Runs are queued, cancelled, rolled back and deleted (langgraph_api.md 5.7-5.9)."""

import asyncio
from pathlib import Path

import httpx
import pytest
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import ConflictError, NotFoundError

from tests.api.langgraph.steering import NOBODY, new_thread, run_at_gate

LANGGRAPH_JSON = Path(__file__).parent / "app" / "langgraph.json"


@pytest.mark.api("POST /threads/{thread_id}/runs", "200 queues behind what runs on the thread")
async def test_a_busy_thread_refuses_or_queues_the_next_run(
    sdk: LangGraphClient, http: httpx.AsyncClient, thread_id: str
) -> None:
    _, gate = await run_at_gate(sdk, http, thread_id)
    assert (await sdk.threads.get(thread_id))["status"] == "busy"
    with pytest.raises(ConflictError, match="Thread is already running a task"):
        await sdk.runs.create(thread_id, "steps", input={"n": 1}, multitask_strategy="reject")
    second = await sdk.runs.create(thread_id, "steps", input={"n": 9})
    await http.post(f"/gates/{gate}/open")
    assert (await sdk.runs.join(thread_id, second["run_id"]))["n"] == 20
    assert [run["status"] for run in await sdk.runs.list(thread_id)] == ["success", "success"]


@pytest.mark.api(
    "POST /threads/{thread_id}/runs/{run_id}/cancel", "200 keeps what the run has done, when it is waited for"
)
async def test_a_cancelled_run_keeps_what_it_has_done(
    sdk: LangGraphClient, http: httpx.AsyncClient, thread_id: str
) -> None:
    run_id, _ = await run_at_gate(sdk, http, thread_id)
    path = f"/threads/{thread_id}/runs/{run_id}"
    answer = await http.post(f"{path}/cancel?wait=1")
    assert (answer.status_code, answer.json()) == (200, {})
    assert (answer.headers["content-location"], answer.headers["location"]) == (path, f"{path}/join")
    assert (await sdk.runs.get(thread_id, run_id))["status"] == "interrupted"
    thread = (await http.get(f"/threads/{thread_id}")).json()
    assert (thread["status"], thread["values"]["log"]) == ("interrupted", ["add"])
    requested = "interrupt requested via POST /threads/{thread_id}/runs/{run_id}/cancel"
    assert thread["error"] == {"error": "UserInterrupt", "message": requested}
    assert (await sdk.threads.get_state(thread_id))["next"] == ["hold"]


@pytest.mark.api("POST /threads/{thread_id}/runs/{run_id}/cancel", "200 rolls the run back when asked to")
async def test_a_run_rolled_back_was_never_there(sdk: LangGraphClient, http: httpx.AsyncClient, thread_id: str) -> None:
    run_id, _ = await run_at_gate(sdk, http, thread_id)
    answer = await http.post(f"/threads/{thread_id}/runs/{run_id}/cancel?wait=true&action=rollback")
    assert (answer.status_code, answer.json()) == (200, {})
    with pytest.raises(NotFoundError):
        await sdk.runs.get(thread_id, run_id)
    assert (await sdk.threads.get(thread_id))["status"] == "idle"
    assert await sdk.threads.get_history(thread_id) == []


@pytest.mark.api("POST /threads/{thread_id}/runs/{run_id}/cancel", "202 at once, when it is not waited for")
@pytest.mark.api("POST /threads/{thread_id}/runs/{run_id}/cancel", "202 whatever reason the client gives")
@pytest.mark.parametrize("query", ["wait=false", "wait=0&reason=taken"])
async def test_cancelling_without_waiting_is_accepted_at_once(
    sdk: LangGraphClient, http: httpx.AsyncClient, thread_id: str, query: str
) -> None:
    run_id, _ = await run_at_gate(sdk, http, thread_id)
    answer = await http.post(f"/threads/{thread_id}/runs/{run_id}/cancel?{query}")
    assert (answer.status_code, answer.content) == (202, b"")
    async with asyncio.timeout(60):
        await sdk.runs.join(thread_id, run_id)
    assert await statuses(sdk, thread_id) == ["interrupted"]


@pytest.mark.api("POST /threads/{thread_id}/runs/{run_id}/cancel", "404 for a run that has ended or is unknown")
@pytest.mark.api("POST /threads/{thread_id}/runs/{run_id}/cancel", "422 for an action or a flag that does not exist")
async def test_there_is_nothing_to_cancel_in_ended_or_unknown_runs(
    sdk: LangGraphClient, http: httpx.AsyncClient, thread_id: str
) -> None:
    run = await sdk.runs.create(thread_id, "steps", input={"n": 1})
    await sdk.runs.join(thread_id, run["run_id"])
    for run_id in (run["run_id"], NOBODY):
        with pytest.raises(NotFoundError, match="No runs found to cancel"):
            await sdk.runs.cancel(thread_id, run_id)
    assert (await http.post(f"/threads/{thread_id}/runs/{NOBODY}/cancel?action=zz")).status_code == 422
    assert (await http.post(f"/threads/{thread_id}/runs/{NOBODY}/cancel?wait=perhaps")).status_code == 422


@pytest.mark.api(
    "DELETE /threads/{thread_id}/runs/{run_id}", "204 deletes the run with its checkpoints, stopping it first"
)
async def test_a_deleted_run_takes_its_checkpoints_along(
    sdk: LangGraphClient, http: httpx.AsyncClient, thread_id: str
) -> None:
    run = await sdk.runs.create(thread_id, "steps", input={"n": 1})
    await sdk.runs.join(thread_id, run["run_id"])
    await sdk.runs.delete(thread_id, run["run_id"])
    assert (await sdk.threads.get_state(thread_id))["values"] == {}
    running, _ = await run_at_gate(sdk, http, thread_id)
    await sdk.runs.delete(thread_id, running)
    assert await sdk.runs.list(thread_id) == []
    with pytest.raises(NotFoundError):
        await sdk.runs.delete(thread_id, running)


@pytest.mark.api("DELETE /threads/{thread_id}", "204 deletes a busy thread, whose run ends")
async def test_deleting_a_busy_thread_stops_its_run(
    sdk: LangGraphClient, http: httpx.AsyncClient, thread_id: str
) -> None:
    run_id, _ = await run_at_gate(sdk, http, thread_id)
    waiting = asyncio.create_task(http.get(f"/threads/{thread_id}/runs/{run_id}/join"))
    async with asyncio.timeout(60):
        await sdk.threads.delete(thread_id)
        await waiting
    with pytest.raises(NotFoundError):
        await sdk.threads.get(thread_id)


async def statuses(sdk: LangGraphClient, thread_id: str) -> list[str]:
    """Give the statuses of a thread's runs, the last one first."""
    return [run["status"] for run in await sdk.runs.list(thread_id)]


@pytest.mark.api(
    "POST /runs/cancel", "204 cancels the runs of a thread that are named, passing over those that are not there"
)
async def test_named_runs_of_a_thread_are_cancelled(
    sdk: LangGraphClient, http: httpx.AsyncClient, thread_id: str
) -> None:
    first, _ = await run_at_gate(sdk, http, thread_id)
    second = (await sdk.runs.create(thread_id, "steps", input={"n": 1}))["run_id"]
    third = (await sdk.runs.create(thread_id, "steps", input={"n": 1}))["run_id"]
    answer = await http.post("/runs/cancel", json={"thread_id": thread_id, "run_ids": [first, second, second, NOBODY]})
    assert (answer.status_code, answer.content) == (204, b"")
    async with asyncio.timeout(60):
        await sdk.runs.join(thread_id, third)
    assert await statuses(sdk, thread_id) == ["success", "interrupted", "interrupted"]
    assert (await sdk.threads.get(thread_id))["status"] == "idle"


@pytest.mark.api("POST /runs/cancel", "204 cancels all runs of a status, of every thread")
@pytest.mark.parametrize(
    ("status", "left"),
    [
        ("pending", ["interrupted", "running"]),
        ("running", ["success", "interrupted"]),
        ("all", ["interrupted", "interrupted"]),
    ],
)
async def test_all_runs_of_a_status_are_cancelled(
    sdk: LangGraphClient, http: httpx.AsyncClient, status: str, left: list[str]
) -> None:
    started = [await new_thread(sdk) for _ in range(2)]
    for thread_id in started:
        await run_at_gate(sdk, http, thread_id)
        await sdk.runs.create(thread_id, "steps", input={"n": 1})
    assert (await http.post("/runs/cancel", json={"status": status})).status_code == 204
    async with asyncio.timeout(60):
        for thread_id in started:
            ended = [run for run, end in zip(await sdk.runs.list(thread_id), left, strict=True) if end != "running"]
            for run in ended:
                await sdk.runs.join(thread_id, run["run_id"])
            assert await statuses(sdk, thread_id) == left
    await http.post("/runs/cancel", json={"status": "all"})


@pytest.mark.api("POST /runs/cancel", "204 rolls back when asked to")
async def test_runs_are_rolled_back_together(sdk: LangGraphClient, http: httpx.AsyncClient, thread_id: str) -> None:
    runs = [(await run_at_gate(sdk, http, thread_id))[0]]
    runs.append((await sdk.runs.create(thread_id, "steps", input={"n": 1}))["run_id"])
    await sdk.runs.cancel_many(thread_id=thread_id, run_ids=runs, action="rollback")
    async with asyncio.timeout(60):
        while await sdk.runs.list(thread_id):
            await sdk.runs.join(thread_id, runs[0])
    assert (await sdk.threads.get(thread_id))["status"] == "idle"
    assert await sdk.threads.get_history(thread_id) == []


@pytest.mark.api("POST /runs/cancel", "404 when there is nothing to cancel")
async def test_there_may_be_nothing_to_cancel_at_all(sdk: LangGraphClient, http: httpx.AsyncClient) -> None:
    thread_id, other = await new_thread(sdk), await new_thread(sdk)
    foreign, gate = await run_at_gate(sdk, http, other)
    for body in (
        {"thread_id": thread_id, "run_ids": [NOBODY]},
        {"thread_id": thread_id, "run_ids": []},
        {"thread_id": thread_id, "run_ids": [foreign]},
        {"thread_id": NOBODY, "run_ids": [foreign]},
        {"status": "pending"},
    ):
        answer = await http.post("/runs/cancel", json=body)
        assert (answer.status_code, answer.json()) == (404, {"detail": "No runs found to cancel."})
    await http.post(f"/gates/{gate}/open")


@pytest.mark.api("POST /runs/cancel", "422 unless it names either a status or runs of a thread, and a known action")
@pytest.mark.parametrize(
    ("body", "query"),
    [
        ({}, ""),
        ([], ""),
        ({"status": "success"}, ""),
        ({"status": None}, ""),
        ({"thread_id": NOBODY}, ""),
        ({"run_ids": [NOBODY]}, ""),
        ({"thread_id": NOBODY, "run_ids": [NOBODY], "status": "all"}, ""),
        ({"thread_id": NOBODY, "status": "all"}, ""),
        ({"thread_id": "zz", "run_ids": [NOBODY]}, ""),
        ({"thread_id": NOBODY, "run_ids": ["zz"]}, ""),
        ({"status": "all"}, "?action=zz"),
    ],
)
async def test_what_to_cancel_must_be_clear(http: httpx.AsyncClient, body: object, query: str) -> None:
    answer = await http.post(f"/runs/cancel{query}", json=body)
    assert answer.status_code == 422
    assert isinstance(answer.json()["detail"], str)


@pytest.mark.parametrize(
    ("strategy", "left", "log"),
    [("interrupt", ["success", "interrupted"], ["add", "add", "double"]), ("rollback", ["success"], ["add", "double"])],
)
@pytest.mark.api("POST /threads/{thread_id}/runs", "200 interrupts or rolls back the run before it when asked to")
async def test_a_run_may_take_the_place_of_the_one_before(
    sdk: LangGraphClient, http: httpx.AsyncClient, thread_id: str, strategy: str, left: list[str], log: list[str]
) -> None:
    await run_at_gate(sdk, http, thread_id)
    body = {"assistant_id": "steps", "input": {"n": 1}, "multitask_strategy": strategy}
    run = (await http.post(f"/threads/{thread_id}/runs", json=body)).json()
    async with asyncio.timeout(60):
        assert (await http.get(f"/threads/{thread_id}/runs/{run['run_id']}/join")).json()["log"] == log
    assert await statuses(sdk, thread_id) == left
