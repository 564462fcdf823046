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


async def test_wait_answers_and_leaves_nothing_behind(http: httpx.AsyncClient) -> None:
    answer = await http.post("/runs/wait", json=STEPS)
    assert answer.json() == {"n": 4, "log": ["add", "double"]}
    path = answer.headers["content-location"]
    assert path.startswith("/threads/")
    assert answer.headers["location"] == f"{path}/join"
    assert (await http.get(path)).status_code == 404
    assert (await http.get(path.rpartition("/runs/")[0])).status_code == 404


async def test_a_stream_is_found_again_by_its_run_alone(http: httpx.AsyncClient) -> None:
    answer = await http.post("/runs/stream", json={**STEPS, "stream_mode": ["values"]})
    run_id = answer.headers["content-location"].removeprefix("/runs/")
    assert answer.headers["location"] == f"/runs/{run_id}/stream"
    assert answer.text.startswith(f'event: metadata\r\ndata: {{"run_id":"{run_id}","attempt":1}}\r\n\r\n')
    assert answer.text.count("event: values") == 3


async def test_a_run_in_the_background_names_its_thread(sdk: LangGraphClient, http: httpx.AsyncClient) -> None:
    gate = str(uuid4())
    answer = await http.post("/runs", json={"assistant_id": "gated", "input": {"gate": gate}})
    run = answer.json()
    assert answer.headers["content-location"] == f"/runs/{run['run_id']}"
    assert run["kwargs"]["temporary"] is True
    assert "graph_id" not in run["metadata"]
    await http.get(f"/gates/{gate}/reached")
    async with asyncio.timeout(10), http.stream("GET", f"/runs/{run['run_id']}/stream") as stream:
        assert stream.headers["location"] == f"/runs/{run['run_id']}/stream"
        await http.post(f"/gates/{gate}/open")
        events = [line async for line in stream.aiter_lines() if line.startswith("event: ")]
    assert events == ["event: values", "event: values"]
    with pytest.raises(NotFoundError):
        await sdk.threads.get(run["thread_id"])


async def test_a_thread_is_kept_when_asked_for(sdk: LangGraphClient, http: httpx.AsyncClient) -> None:
    run = (await http.post("/runs", json={**STEPS, "on_completion": "keep"})).json()
    await sdk.runs.join(run["thread_id"], run["run_id"])
    thread = await sdk.threads.get(run["thread_id"])
    assert (thread["status"], thread["values"]) == ("idle", {"n": 4, "log": ["add", "double"]})


async def test_errors_and_interrupts_are_in_the_body(sdk: LangGraphClient) -> None:
    failed = await sdk.runs.wait(None, "broken", input={"n": 1}, raise_error=False)
    assert failed == {"__error__": {"error": "ValueError", "message": "cannot go on from 2"}}
    asked: Any = await sdk.runs.wait(None, "ask", input={"n": 5})
    assert [interrupt["value"] for interrupt in asked["__interrupt__"]] == [{"question": 5}]


async def test_what_only_makes_sense_on_a_thread_is_named_as_ignored(http: httpx.AsyncClient) -> None:
    answer = await http.post("/runs/wait", json={**STEPS, "checkpoint_id": NOBODY, "multitask_strategy": "reject"})
    assert (answer.status_code, answer.headers["x-ignored-fields"]) == (200, "checkpoint_id")


async def test_unknown_runs_and_assistants_are_not_found(http: httpx.AsyncClient) -> None:
    assert (await http.get(f"/runs/{NOBODY}/stream")).json() == {"detail": "Run not found"}
    assert (await http.get("/runs/zz/stream")).status_code == 422
    assert (await http.post("/runs/wait", json={"assistant_id": NOBODY})).status_code == 404
    assert (await http.post("/runs/wait", json={"assistant_id": "nope"})).status_code == 422


async def test_many_runs_at_once_do_not_mix(sdk: LangGraphClient) -> None:
    answers: Any = await asyncio.gather(*(sdk.runs.wait(None, "steps", input={"n": n}) for n in range(20)))
    assert [answer["n"] for answer in answers] == [2 * (n + 1) for n in range(20)]
