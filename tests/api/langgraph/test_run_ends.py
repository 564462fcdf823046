"""A run has ended when its stream closes (section 6): clients take a running one for a cut stream."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest
from langgraph_sdk.client import LangGraphClient

from tests.api.langgraph.steering import new_thread

LANGGRAPH_JSON = Path(__file__).parent / "runs_app" / "langgraph.json"
AT_ONCE = 12
# What is streamed, and how its run ends.
KINDS: tuple[tuple[dict[str, Any], str], ...] = (
    ({"assistant_id": "letters", "input": {}}, "success"),
    ({"assistant_id": "letters", "input": {}, "interrupt_before": ["b"]}, "success"),
    ({"assistant_id": "asking", "input": {}}, "success"),
    ({"assistant_id": "failing", "input": {}}, "error"),
    ({"assistant_id": "ticking", "input": {"steps": 2, "per_step": 20}, "stream_mode": "custom"}, "success"),
    ({"assistant_id": "ticking", "input": {"steps": 1, "per_step": 10**6}, "stream_mode": "custom"}, "interrupted"),
)


@pytest.mark.api("POST /threads/{thread_id}/runs/stream", "200 closes when the run has ended, not before")
@pytest.mark.parametrize("streams", [len(KINDS), pytest.param(120, marks=pytest.mark.slow)])
async def test_no_stream_closes_before_its_run_has_ended(
    http: httpx.AsyncClient, sdk: LangGraphClient, streams: int
) -> None:
    at_once = asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> tuple[str, str]:
        body, status = KINDS[number % len(KINDS)]
        async with at_once:
            thread_id = await new_thread(sdk)
            body = {**body, "stream_resumable": number % 4 < 2}
            async with http.stream("POST", f"/threads/{thread_id}/runs/stream", json=body) as answer:
                path = answer.headers["content-location"]
                if status == "interrupted":
                    assert (await http.post(f"{path}/cancel")).status_code == 202
                async for _ in answer.aiter_bytes():
                    pass
            return (await http.get(path)).json()["status"], status

    async with asyncio.timeout(60):
        ends = await asyncio.gather(*(one(number) for number in range(streams)))
    assert [found for found, _ in ends] == [expected for _, expected in ends]


@pytest.mark.api("GET /threads/{thread_id}/runs/{run_id}/stream", "200 closes when the run has ended, not before")
async def test_no_joined_stream_closes_before_its_run_has_ended(http: httpx.AsyncClient, sdk: LangGraphClient) -> None:
    async def one(last_id: str | None) -> str:
        thread_id = await new_thread(sdk)
        body = {"assistant_id": "ticking", "input": {"steps": 2, "per_step": 20, "pause": 0.001}}
        run = (await http.post(f"/threads/{thread_id}/runs", json={**body, "stream_resumable": True})).json()
        path = f"/threads/{thread_id}/runs/{run['run_id']}"
        async with http.stream(
            "GET", f"{path}/stream", headers={"last-event-id": last_id} if last_id else {}
        ) as answer:
            async for _ in answer.aiter_bytes():
                pass
        return str((await http.get(path)).json()["status"])

    async with asyncio.timeout(60):
        assert set(await asyncio.gather(*(one(last_id) for last_id in [None, "-1"] * 10))) == {"success"}
