"""Crons start ordinary runs, and continue whatever the result of one run is."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import NotFoundError

from tests.api.langgraph.steering import new_thread, run_at_gate

LANGGRAPH_JSON = Path(__file__).parent / "app" / "langgraph.json"
EVERY_SECOND = "* * * * * *"
BOUND_S = 60


@asynccontextmanager
async def cron_at_gate(http: httpx.AsyncClient, path: str, **fields: Any) -> AsyncIterator[tuple[Any, str]]:
    """Let a cron fire every second until its first run waits at a gate; gives the deleted cron and the gate.

    The gate is opened at the end, so that later runs end, too.
    """
    gate = str(uuid4())
    body = {"assistant_id": "gated", "schedule": EVERY_SECOND, "input": {"n": 1, "gate": gate}, **fields}
    cron = (await http.post(path, json=body)).json()
    async with asyncio.timeout(BOUND_S):
        await http.get(f"/gates/{gate}/reached")
    await http.delete(f"/runs/crons/{cron['cron_id']}")
    yield cron, gate
    await http.post(f"/gates/{gate}/open")


async def runs_of(sdk: LangGraphClient, cron: Any) -> list[Any]:
    """Find a cron's runs by the metadata that each carries."""
    found: list[Any] = []
    for thread in await sdk.threads.search(limit=1000):
        runs: list[Any] = [*await sdk.runs.list(thread["thread_id"], limit=1000)]
        found.extend(run for run in runs if run["metadata"].get("cron_id") == cron["cron_id"])
    return found


@pytest.mark.api("POST /runs/crons", "200 starts runs with the payload, on threads that are deleted afterwards")
async def test_a_cron_starts_runs_whose_threads_are_deleted(sdk: LangGraphClient, http: httpx.AsyncClient) -> None:
    fields = {"metadata": {"c": 1}, "stream_mode": ["updates"], "durability": "sync", "config": {"tags": ["t"]}}
    async with cron_at_gate(http, "/runs/crons", **fields) as (cron, gate):
        run = (await runs_of(sdk, cron))[0]
        await http.post(f"/gates/{gate}/open")
        await sdk.runs.join(run["thread_id"], run["run_id"])
    ids = {"assistant_id": cron["assistant_id"], "cron_id": cron["cron_id"]}
    assert run["metadata"] == {**ids, "created_by": "system", "c": 1}
    kwargs = run["kwargs"]
    assert kwargs["input"] == {"n": 1, "gate": gate}
    assert (kwargs["stream_mode"], kwargs["durability"]) == (["updates"], "sync")
    assert (kwargs["temporary"], kwargs["config"]["tags"]) == (True, ["t"])
    assert kwargs["config"]["configurable"]["cron_id"] == cron["cron_id"]
    with pytest.raises(NotFoundError):
        await sdk.threads.get(run["thread_id"])


@pytest.mark.api("POST /runs/crons", "200 keeps the threads of its runs on request")
async def test_a_cron_keeps_the_threads_of_its_runs_on_request(sdk: LangGraphClient, http: httpx.AsyncClient) -> None:
    async with cron_at_gate(http, "/runs/crons", on_run_completed="keep") as (cron, gate):
        run = (await runs_of(sdk, cron))[0]
        await http.post(f"/gates/{gate}/open")
        await sdk.runs.join(run["thread_id"], run["run_id"])
    thread: Any = await sdk.threads.get(run["thread_id"])
    assert (thread["status"], thread["values"]["log"]) == ("idle", ["add", "passed", "double"])


@pytest.mark.api("POST /threads/{thread_id}/runs/crons", "200 starts runs on the thread")
async def test_a_cron_starts_runs_on_its_thread(sdk: LangGraphClient, http: httpx.AsyncClient) -> None:
    thread_id = await new_thread(sdk)
    async with cron_at_gate(http, f"/threads/{thread_id}/runs/crons") as (cron, gate):
        runs: Any = await sdk.runs.list(thread_id)
        await http.post(f"/gates/{gate}/open")
        # Later firings have queued up behind the one at the gate; the last one ends last.
        await sdk.runs.join(thread_id, runs[0]["run_id"])
    assert {run["metadata"]["cron_id"] for run in runs} == {cron["cron_id"]}
    thread: Any = await sdk.threads.get(thread_id)
    assert thread["values"]["log"] == ["add", "passed", "double"] * len(await sdk.runs.list(thread_id))


async def test_a_cron_whose_run_is_refused_fires_again(sdk: LangGraphClient, http: httpx.AsyncClient) -> None:
    thread_id = await new_thread(sdk)
    busy, gate = await run_at_gate(sdk, http, thread_id)
    body = {"assistant_id": "gated", "schedule": EVERY_SECOND, "multitask_strategy": "reject"}
    refused = (await http.post(f"/threads/{thread_id}/runs/crons", json=body)).json()
    # Another cron, due at the same seconds, says when the first has had its turn.
    async with cron_at_gate(http, "/runs/crons"):
        (only,) = await sdk.runs.list(thread_id)
        assert only["run_id"] == busy
    own = str(uuid4())
    change = {"input": {"n": 1, "gate": own}}
    await http.patch(f"/runs/crons/{refused['cron_id']}", json=change)
    await http.post(f"/gates/{gate}/open")
    async with asyncio.timeout(BOUND_S):
        await http.get(f"/gates/{own}/reached")
    await http.delete(f"/runs/crons/{refused['cron_id']}")
    newest: Any = (await sdk.runs.list(thread_id))[0]
    await http.post(f"/gates/{own}/open")
    assert newest["metadata"]["cron_id"] == refused["cron_id"]
    await sdk.runs.join(thread_id, newest["run_id"])
