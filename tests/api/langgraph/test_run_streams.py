"""Runs are streamed, joined and replayed, and may end with their client (langgraph_api.md 5.10, 6)."""

import asyncio
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import UnprocessableEntityError

from tests.api.langgraph.steering import NOBODY, Thread

LANGGRAPH_JSON = Path(__file__).parent / "app" / "langgraph.json"
ON_POSTGRESQL = True


@pytest.mark.api("POST /threads/{thread_id}/runs/stream", "200 begins with metadata and simply ends")
async def test_a_stream_begins_with_metadata_and_simply_ends(sdk: LangGraphClient, thread: Thread) -> None:
    created: list[Any] = []
    stream = sdk.runs.stream(
        thread.id, "steps", input={"n": 1}, stream_mode=["values", "custom"], on_run_created=created.append
    )
    parts = [(part.event, part.data, part.id) async for part in stream]
    (run,) = await thread.runs()
    assert created == [{"run_id": run["run_id"], "thread_id": thread.id}]
    assert run["status"] == "success"
    assert parts == [
        ("metadata", {"run_id": run["run_id"], "attempt": 1}, None),
        ("values", {"n": 1, "log": []}, None),
        ("values", {"n": 2, "log": ["add"]}, None),
        ("custom", {"doubling": 2}, None),
        ("values", {"n": 4, "log": ["add", "double"]}, None),
    ]


async def test_tokens_arrive_as_message_chunks(sdk: LangGraphClient, thread: Thread) -> None:
    hello: Any = {"messages": [{"role": "user", "content": "dear world"}]}
    stream = sdk.runs.stream(
        thread.id, "talk", input=hello, stream_mode="messages-tuple", context={"greeting": "good morning"}
    )
    chunks = [part.data[0]["content"] async for part in stream if part.event == "messages"]
    assert "".join(chunks) == "good morning dear world"
    assert len(chunks) > 3


@pytest.mark.api("GET /threads/{thread_id}/runs/{run_id}/join", "200 with an error for an unknown run")
@pytest.mark.api("GET /threads/{thread_id}/runs/{run_id}/stream", "200 with an error event for an unknown run")
async def test_joining_an_unknown_run_gives_an_error_in_the_body(sdk: LangGraphClient, thread: Thread) -> None:
    error = {"error": "HTTPException", "message": "404: Run not found"}
    assert await thread.join(NOBODY) == {"__error__": error}
    parts = [(part.event, part.data) async for part in sdk.runs.join_stream(thread.id, NOBODY)]
    assert parts == [("error", error)]
    with pytest.raises(UnprocessableEntityError, match="Invalid run ID: must be a UUID"):
        await thread.run("zz")


@pytest.mark.api("GET /threads/{thread_id}/runs/{run_id}/stream", "200 goes on from where a run is")
async def test_a_joined_stream_has_the_events_after_the_join(http: httpx.AsyncClient, thread: Thread) -> None:
    run_id, gate = await thread.run_at_gate(stream_mode=["values", "updates"])
    parts: list[str] = []
    async with asyncio.timeout(60), http.stream("GET", f"/threads/{thread.id}/runs/{run_id}/stream") as answer:
        await http.post(f"/gates/{gate}/open")
        parts = [line async for line in answer.aiter_lines() if line.startswith("event: ")]
    assert parts == [f"event: {name}" for name in ("updates", "values", "updates", "values")]


@pytest.mark.api("GET /threads/{thread_id}/runs/{run_id}/stream", "200 replays a resumable run from any id")
async def test_a_resumable_run_is_replayed_from_any_id(sdk: LangGraphClient, thread: Thread) -> None:
    stream = sdk.runs.stream(thread.id, "steps", input={"n": 1}, stream_mode=["values"], stream_resumable=True)
    parts = [(part.event, part.data, part.id) async for part in stream]
    ids = [part[2] or "" for part in parts]
    assert ids == sorted(set(ids))
    run_id = parts[0][1]["run_id"]

    async def joined(last: str | None, **query: Any) -> list[Any]:
        found = sdk.runs.join_stream(thread.id, run_id, last_event_id=last, **query)
        return [(part.event, part.data, part.id) async for part in found]

    assert await joined("-1") == parts
    assert await joined(ids[1]) == parts[2:]
    assert await joined(ids[-1]) == []
    assert await joined(None) == []
    assert await joined("garbage") == []
    assert await joined("-1", stream_mode="values") == parts[1:]
    assert await joined("-1", stream_mode=["updates", "values"]) == parts[1:]


@pytest.mark.api("GET /threads/{thread_id}/runs/{run_id}/stream", "200 is empty for an ended run that is not resumable")
async def test_a_run_that_is_not_resumable_has_no_replay(sdk: LangGraphClient, thread: Thread) -> None:
    run = await thread.create_run("steps", input={"n": 1})
    await thread.join(run["run_id"])
    assert [part async for part in sdk.runs.join_stream(thread.id, run["run_id"], last_event_id="-1")] == []


@pytest.mark.parametrize("end", ["stream", "wait"])
@pytest.mark.parametrize(("on_disconnect", "status"), [("cancel", "interrupted"), ("continue", "success")])
@pytest.mark.api("POST /threads/{thread_id}/runs/stream", "200 can cancel the run when its client leaves")
@pytest.mark.api("POST /threads/{thread_id}/runs/wait", "200 can cancel the run when its client leaves")
async def test_a_disconnect_cancels_the_run_only_with_on_disconnect_cancel(
    http: httpx.AsyncClient, thread: Thread, end: str, on_disconnect: str, status: str
) -> None:
    gate = str(uuid4())
    body = {"assistant_id": "gated", "input": {"n": 1, "gate": gate}, "on_disconnect": on_disconnect}
    async with asyncio.timeout(60):
        async with http.stream("POST", f"/threads/{thread.id}/runs/{end}", json=body):
            await http.get(f"/gates/{gate}/reached")
        (run,) = await thread.runs()
        if on_disconnect == "continue":
            await http.post(f"/gates/{gate}/open")
        await thread.join(run["run_id"])
    assert (await thread.run(run["run_id"]))["status"] == status


@pytest.mark.api("GET /threads/{thread_id}/runs/{run_id}/stream", "200 can cancel the run when its client leaves")
@pytest.mark.api("GET /threads/{thread_id}/runs/{run_id}/join", "200 can cancel the run when its client leaves")
@pytest.mark.parametrize("end", ["stream", "join"])
async def test_leaving_a_joined_run_cancels_it_only_on_request(
    http: httpx.AsyncClient, thread: Thread, end: str
) -> None:
    run_id, _ = await thread.run_at_gate()
    path = f"/threads/{thread.id}/runs/{run_id}/{end}"
    async with http.stream("GET", path):
        pass
    assert (await thread.run(run_id))["status"] == "running"
    async with asyncio.timeout(60):
        async with http.stream("GET", path, params={"cancel_on_disconnect": "true"}):
            pass
        await thread.join(run_id)
    assert (await thread.run(run_id))["status"] == "interrupted"
