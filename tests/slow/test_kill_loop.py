"""Kill the server again and again: every run it has accepted ends, each node's effect on the state counted once."""

import asyncio
import random
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.fixtures.app_server import AppProcess

LANGGRAPH_JSON = Path(__file__).parent / "app" / "langgraph.json"
KILLS, RUNS_PER_LIFE, SEED = 12, 25, 20261121

pytestmark = [pytest.mark.slow, pytest.mark.timeout(540), pytest.mark.requirement("S-05")]


async def submit(http: httpx.AsyncClient, accepted: list[dict[str, Any]]) -> None:
    """Create runs until the server is gone; keep those it has answered for."""
    for number in range(RUNS_PER_LIFE):
        body: dict[str, Any] = {"assistant_id": "steps", "input": {"pauses": 4}, "if_not_exists": "create"}
        body["stream_resumable"] = number % 2 == 0
        try:
            answer = await http.post(f"/threads/{uuid4()}/runs", json=body)
        except httpx.HTTPError:
            return
        accepted.append(answer.json())


async def one_life(process: AppProcess, dice: random.Random, accepted: list[dict[str, Any]]) -> None:
    await asyncio.to_thread(process.start)
    async with httpx.AsyncClient(base_url=process.url, timeout=10) as http:
        submitting = asyncio.create_task(submit(http, accepted))
        await asyncio.wait([submitting], timeout=dice.uniform(0.01, 0.4))
        await asyncio.to_thread(process.kill)
        await submitting


async def test_no_accepted_run_is_lost_or_done_twice(app_process: AppProcess) -> None:
    dice, accepted = random.Random(SEED), list[dict[str, Any]]()
    for _ in range(KILLS):
        await one_life(app_process, dice, accepted)
    await asyncio.to_thread(app_process.start)
    assert len(accepted) > KILLS
    async with httpx.AsyncClient(base_url=app_process.url, timeout=60) as http:
        for run in accepted:
            path = f"/threads/{run['thread_id']}/runs/{run['run_id']}"
            values = (await http.get(f"{path}/join")).json()
            assert values == {"pauses": 4, "log": ["begin", "pause", "pause", "pause", "pause", "end"]}
            assert (await http.get(path)).json()["status"] == "success"
            assert (await http.get(f"/threads/{run['thread_id']}")).json()["status"] == "idle"
