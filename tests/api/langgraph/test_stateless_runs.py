"""Runs that bring a thread of their own (langgraph_api.md 2.4, 5.13)."""

import asyncio
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import NotFoundError

LANGGRAPH_JSON = Path(__file__).parent / "app" / "langgraph.json"
NOBODY = "00000000-0000-4000-8000-000000000000"
STEPS = {"assistant_id": "steps", "input": {"n": 1}}


@pytest.mark.api("POST /runs/wait", "200 answers and leaves nothing behind")
async def test_wait_gives_the_values_and_deletes_run_and_thread(http: httpx.AsyncClient) -> None:
    answer = await http.post("/runs/wait", json=STEPS)
    assert answer.json() == {"n": 4, "log": ["add", "double"]}
    path = answer.headers["content-location"]
    assert path.startswith("/threads/")
    assert answer.headers["location"] == f"{path}/join"
    assert (await http.get(path)).status_code == 404
    assert (await http.get(path.rpartition("/runs/")[0])).status_code == 404


@pytest.mark.api("POST /runs/stream", "200 streams, and is found again by the run alone")
async def test_a_stream_is_found_again_by_its_run_alone(http: httpx.AsyncClient) -> None:
    answer = await http.post("/runs/stream", json={**STEPS, "stream_mode": ["values"]})
    run_id = answer.headers["content-location"].removeprefix("/runs/")
    assert answer.headers["location"] == f"/runs/{run_id}/stream"
    assert answer.text.startswith(f'event: metadata\r\ndata: {{"run_id":"{run_id}","attempt":1}}\r\n\r\n')
    assert answer.text.count("event: values") == 3


@pytest.mark.api("POST /runs", "200 creates a run in the background and names its thread")
async def test_a_run_in_the_background_names_its_thread(sdk: LangGraphClient, http: httpx.AsyncClient) -> None:
    gate = str(uuid4())
    answer = await http.post("/runs", json={"assistant_id": "gated", "input": {"gate": gate}})
    run = answer.json()
    assert answer.headers["content-location"] == f"/runs/{run['run_id']}"
    assert run["kwargs"]["temporary"] is True
    assert "graph_id" not in run["metadata"]
    await http.get(f"/gates/{gate}/reached")
    async with asyncio.timeout(60), http.stream("GET", f"/runs/{run['run_id']}/stream") as stream:
        assert stream.headers["location"] == f"/runs/{run['run_id']}/stream"
        await http.post(f"/gates/{gate}/open")
        events = [line async for line in stream.aiter_lines() if line.startswith("event: ")]
    assert events == ["event: values", "event: values"]
    with pytest.raises(NotFoundError):
        await sdk.threads.get(run["thread_id"])


@pytest.mark.api("POST /runs", "200 keeps the thread on request")
async def test_a_thread_is_kept_on_request(sdk: LangGraphClient, http: httpx.AsyncClient) -> None:
    run = (await http.post("/runs", json={**STEPS, "on_completion": "keep"})).json()
    await sdk.runs.join(run["thread_id"], run["run_id"])
    thread = await sdk.threads.get(run["thread_id"])
    assert (thread["status"], thread["values"]) == ("idle", {"n": 4, "log": ["add", "double"]})


@pytest.mark.api("POST /runs/wait", "200 with errors and questions in the body")
async def test_errors_and_interrupts_are_in_the_body(sdk: LangGraphClient) -> None:
    failed = await sdk.runs.wait(None, "broken", input={"n": 1}, raise_error=False)
    assert failed == {"__error__": {"error": "ValueError", "message": "cannot go on from 2"}}
    interrupted: Any = await sdk.runs.wait(None, "ask", input={"n": 5})
    assert [interrupt["value"] for interrupt in interrupted["__interrupt__"]] == [{"question": 5}]


async def test_a_field_that_needs_a_thread_is_named_as_ignored(http: httpx.AsyncClient) -> None:
    answer = await http.post("/runs/wait", json={**STEPS, "checkpoint_id": NOBODY, "multitask_strategy": "reject"})
    assert (answer.status_code, answer.headers["x-ignored-fields"]) == (200, "checkpoint_id")


async def test_many_runs_at_once_do_not_mix(sdk: LangGraphClient) -> None:
    answers: Any = await asyncio.gather(*(sdk.runs.wait(None, "steps", input={"n": n}) for n in range(20)))
    assert [answer["n"] for answer in answers] == [2 * (n + 1) for n in range(20)]


@pytest.mark.api("POST /runs/batch", "200 creates them all, each on a thread of its own")
async def test_a_batch_creates_runs_on_threads_of_their_own(sdk: LangGraphClient, http: httpx.AsyncClient) -> None:
    bodies = [{"assistant_id": "steps", "input": {"n": n}, "on_completion": "keep"} for n in range(5)]
    answer = await http.post("/runs/batch", json=bodies)
    runs = answer.json()
    assert (answer.status_code, [run["status"] for run in runs]) == (200, ["pending"] * 5)
    assert len({run["thread_id"] for run in runs}) == 5
    values: Any = [await sdk.runs.join(run["thread_id"], run["run_id"]) for run in runs]
    assert [one["n"] for one in values] == [2 * (n + 1) for n in range(5)]


@pytest.mark.api("POST /runs/batch", "200 names what it ignored in any of them, once")
async def test_a_batch_names_what_it_ignored(http: httpx.AsyncClient) -> None:
    bodies = [{**STEPS, "inptu": 1}, {**STEPS, "feedback_keys": ["k"], "inptu": 2}]
    answer = await http.post("/runs/batch", json=bodies)
    assert (answer.status_code, answer.headers["x-ignored-fields"]) == (200, "inptu, feedback_keys")
    assert "x-ignored-fields" not in (await http.post("/runs/batch", json=[STEPS])).headers


BAD_RUNS: tuple[tuple[Any, int, str], ...] = (
    ({"assistant_id": "nope"}, 422, "Invalid assistant: 'nope'"),
    ({"assistant_id": NOBODY}, 404, "Thread or assistant not found."),
    ({}, 422, '"assistant_id" is a required property'),
    (1, 422, "On instance[1]:\n    1"),
    ({**STEPS, "stream_mode": "zz"}, 422, 'On instance[1]["stream_mode"]'),
    ({**STEPS, "context": {"a": 1}, "config": {"configurable": {"b": 1}}}, 400, "Cannot specify both"),
)


@pytest.mark.api("POST /runs/batch", "400 for context beside config.configurable in one of them")
@pytest.mark.api("POST /runs/batch", "404 for an unknown assistant in one of them")
@pytest.mark.api("POST /runs/batch", "422 for one that is not valid, for none and for too many")
@pytest.mark.parametrize(("bad", "status", "detail"), BAD_RUNS)
async def test_a_batch_with_one_bad_run_creates_none(
    sdk: LangGraphClient, http: httpx.AsyncClient, bad: Any, status: int, detail: str
) -> None:

    async def threads() -> set[str]:
        return {thread["thread_id"] for thread in await sdk.threads.search(limit=1000)}

    before = await threads()
    answer = await http.post("/runs/batch", json=[{**STEPS, "on_completion": "keep"}, bad])
    assert answer.status_code == status
    assert detail in answer.json()["detail"]
    assert await threads() <= before


@pytest.mark.parametrize("bodies", [[], STEPS, [STEPS] * 1001, "steps"])
async def test_a_batch_is_a_list_of_one_to_a_thousand(http: httpx.AsyncClient, bodies: Any) -> None:
    assert (await http.post("/runs/batch", json=bodies)).status_code == 422


@pytest.mark.api("GET /runs/{run_id}/stream", "200 replays a resumable run from any id")
@pytest.mark.parametrize("on_completion", ["keep", "delete"])
async def test_a_resumable_stream_is_replayed_after_its_end(http: httpx.AsyncClient, on_completion: str) -> None:
    body = {**STEPS, "stream_mode": ["values", "updates"], "stream_resumable": True, "on_completion": on_completion}
    answer = await http.post("/runs/stream", json=body)
    path = answer.headers["location"]
    frames = answer.text.split("\r\n\r\n")[:-1]
    ids = [frame.rpartition("id: ")[2] for frame in frames]

    async def joined(last_id: str | None, **query: str) -> list[str]:
        again = await http.get(path, headers={"last-event-id": last_id} if last_id else {}, params=query)
        assert (again.status_code, again.headers["location"]) == (200, path)
        return again.text.split("\r\n\r\n")[:-1]

    assert await joined("-1") == frames
    assert await joined(ids[2]) == frames[3:]
    assert await joined(ids[-1]) == await joined(None) == await joined("garbage") == []
    assert await joined("-1", stream_mode="updates") == [frame for frame in frames if "event: updates" in frame]
    assert await joined("-1", checkpoint_id=NOBODY, namespace="") == frames


@pytest.mark.api("GET /runs/{run_id}/stream", "404 for an unknown run, and for one that is gone and was not resumable")
async def test_the_stream_of_an_unknown_or_deleted_run_is_not_found(http: httpx.AsyncClient) -> None:
    gone = (await http.post("/runs/stream", json=STEPS)).headers["location"]
    for path in (gone, f"/runs/{NOBODY}/stream"):
        answer = await http.get(path, headers={"last-event-id": "-1"})
        assert (answer.status_code, answer.json()) == (404, {"detail": "Run not found"})
