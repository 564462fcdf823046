"""Runs are queued, cancelled, rolled back and deleted (langgraph_api.md 5.7-5.9)."""

import asyncio
from pathlib import Path

import httpx
import pytest
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import ConflictError, NotFoundError

from tests.api.langgraph.steering import NOBODY, Thread, new_thread, run_at_gate

LANGGRAPH_JSON = Path(__file__).parent / "app" / "langgraph.json"
ON_POSTGRESQL = True


@pytest.mark.api("POST /threads/{thread_id}/runs", "200 queues behind what runs on the thread")
async def test_a_busy_thread_refuses_or_queues_the_next_run(http: httpx.AsyncClient, thread: Thread) -> None:
    _, gate = await thread.run_at_gate()
    assert (await thread.show())["status"] == "busy"
    with pytest.raises(ConflictError, match="Thread is already running a task"):
        await thread.create_run("steps", input={"n": 1}, multitask_strategy="reject")
    second = await thread.create_run("steps", input={"n": 9})
    await http.post(f"/gates/{gate}/open")
    assert (await thread.join(second["run_id"]))["n"] == 20
    assert [run["status"] for run in await thread.runs()] == ["success", "success"]


@pytest.mark.api("POST /threads/{thread_id}/runs/{run_id}/cancel", "200 with wait, keeps the run's checkpoints")
async def test_a_cancelled_run_keeps_its_checkpoints(http: httpx.AsyncClient, thread: Thread) -> None:
    run_id, _ = await thread.run_at_gate()
    path = f"/threads/{thread.id}/runs/{run_id}"
    answer = await http.post(f"{path}/cancel?wait=1")
    assert (answer.status_code, answer.json()) == (200, {})
    assert (answer.headers["content-location"], answer.headers["location"]) == (path, f"{path}/join")
    assert (await thread.run(run_id))["status"] == "interrupted"
    shown = (await thread.get("")).json()
    assert (shown["status"], shown["values"]["log"]) == ("interrupted", ["add"])
    requested = "interrupt requested via POST /threads/{thread_id}/runs/{run_id}/cancel"
    assert shown["error"] == {"error": "UserInterrupt", "message": requested}
    assert (await thread.state())["next"] == ["hold"]


@pytest.mark.api("POST /threads/{thread_id}/runs/{run_id}/cancel", "200 rolls the run back on request")
async def test_a_rolled_back_run_is_deleted_with_its_checkpoints(thread: Thread) -> None:
    run_id, _ = await thread.run_at_gate()
    answer = await thread.post(f"/runs/{run_id}/cancel?wait=true&action=rollback")
    assert (answer.status_code, answer.json()) == (200, {})
    with pytest.raises(NotFoundError):
        await thread.run(run_id)
    assert (await thread.show())["status"] == "idle"
    assert await thread.history() == []


@pytest.mark.api("POST /threads/{thread_id}/runs/{run_id}/cancel", "202 at once, when it is not waited for")
@pytest.mark.api("POST /threads/{thread_id}/runs/{run_id}/cancel", "202 whatever reason the client gives")
@pytest.mark.parametrize("query", ["wait=false", "wait=0&reason=taken"])
async def test_cancelling_without_waiting_is_accepted_at_once(thread: Thread, query: str) -> None:
    run_id, _ = await thread.run_at_gate()
    answer = await thread.post(f"/runs/{run_id}/cancel?{query}")
    assert (answer.status_code, answer.content) == (202, b"")
    async with asyncio.timeout(60):
        await thread.join(run_id)
    assert await thread.statuses() == ["interrupted"]


@pytest.mark.api("POST /threads/{thread_id}/runs/{run_id}/cancel", "404 for a run that has ended or is unknown")
@pytest.mark.api("POST /threads/{thread_id}/runs/{run_id}/cancel", "422 for an action or a flag that does not exist")
async def test_ended_and_unknown_runs_cannot_be_cancelled(thread: Thread) -> None:
    run = await thread.create_run("steps", input={"n": 1})
    await thread.join(run["run_id"])
    for run_id in (run["run_id"], NOBODY):
        with pytest.raises(NotFoundError, match="No runs found to cancel"):
            await thread.cancel(run_id)
    assert (await thread.post(f"/runs/{NOBODY}/cancel?action=zz")).status_code == 422
    assert (await thread.post(f"/runs/{NOBODY}/cancel?wait=perhaps")).status_code == 422


@pytest.mark.api("DELETE /threads/{thread_id}/runs/{run_id}", "204 stops the run and deletes it and its checkpoints")
async def test_a_run_is_deleted_with_its_checkpoints(sdk: LangGraphClient, thread: Thread) -> None:
    run = await thread.create_run("steps", input={"n": 1})
    await thread.join(run["run_id"])
    await sdk.runs.delete(thread.id, run["run_id"])
    assert (await thread.state())["values"] == {}
    running, _ = await thread.run_at_gate()
    await sdk.runs.delete(thread.id, running)
    assert await thread.runs() == []
    with pytest.raises(NotFoundError):
        await sdk.runs.delete(thread.id, running)


@pytest.mark.api("DELETE /threads/{thread_id}", "204 deletes a busy thread, whose run ends")
async def test_deleting_a_busy_thread_stops_its_run(thread: Thread) -> None:
    run_id, _ = await thread.run_at_gate()
    waiting = asyncio.create_task(thread.get(f"/runs/{run_id}/join"))
    async with asyncio.timeout(60):
        await thread.delete()
        await waiting
    with pytest.raises(NotFoundError):
        await thread.show()


@pytest.mark.api("POST /runs/cancel", "204 cancels the named runs of a thread and ignores unknown ones")
async def test_named_runs_of_a_thread_are_cancelled(http: httpx.AsyncClient, thread: Thread) -> None:
    first, _ = await thread.run_at_gate()
    second = (await thread.create_run("steps", input={"n": 1}))["run_id"]
    third = (await thread.create_run("steps", input={"n": 1}))["run_id"]
    answer = await http.post("/runs/cancel", json={"thread_id": thread.id, "run_ids": [first, second, second, NOBODY]})
    assert (answer.status_code, answer.content) == (204, b"")
    async with asyncio.timeout(60):
        await thread.join(third)
    assert await thread.statuses() == ["success", "interrupted", "interrupted"]
    assert (await thread.show())["status"] == "idle"


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
    threads = [Thread(await new_thread(sdk), sdk, http) for _ in range(2)]
    for thread in threads:
        await thread.run_at_gate()
        await thread.create_run("steps", input={"n": 1})
    assert (await http.post("/runs/cancel", json={"status": status})).status_code == 204
    async with asyncio.timeout(60):
        for thread in threads:
            ended = [run for run, end in zip(await thread.runs(), left, strict=True) if end != "running"]
            for run in ended:
                await thread.join(run["run_id"])
            assert await thread.statuses() == left
    await http.post("/runs/cancel", json={"status": "all"})


@pytest.mark.api("POST /runs/cancel", "204 rolls back on request")
async def test_runs_are_rolled_back_together(sdk: LangGraphClient, thread: Thread) -> None:
    runs = [(await thread.run_at_gate())[0]]
    runs.append((await thread.create_run("steps", input={"n": 1}))["run_id"])
    await sdk.runs.cancel_many(thread_id=thread.id, run_ids=runs, action="rollback")
    async with asyncio.timeout(60):
        while await thread.runs():
            await thread.join(runs[0])
    assert (await thread.show())["status"] == "idle"
    assert await thread.history() == []


@pytest.mark.api("POST /runs/cancel", "404 when there is nothing to cancel")
async def test_cancelling_without_a_matching_run_is_not_found(sdk: LangGraphClient, http: httpx.AsyncClient) -> None:
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
async def test_an_ambiguous_request_to_cancel_is_refused(http: httpx.AsyncClient, body: object, query: str) -> None:
    answer = await http.post(f"/runs/cancel{query}", json=body)
    assert answer.status_code == 422
    assert isinstance(answer.json()["detail"], str)


@pytest.mark.parametrize(
    ("strategy", "left", "log"),
    [("interrupt", ["success", "interrupted"], ["add", "add", "double"]), ("rollback", ["success"], ["add", "double"])],
)
@pytest.mark.api("POST /threads/{thread_id}/runs", "200 interrupts or rolls back the run before it on request")
async def test_a_run_may_replace_the_one_before(thread: Thread, strategy: str, left: list[str], log: list[str]) -> None:
    await thread.run_at_gate()
    body = {"assistant_id": "steps", "input": {"n": 1}, "multitask_strategy": strategy}
    run = (await thread.post("/runs", json=body)).json()
    async with asyncio.timeout(60):
        assert (await thread.get(f"/runs/{run['run_id']}/join")).json()["log"] == log
    assert await thread.statuses() == left
