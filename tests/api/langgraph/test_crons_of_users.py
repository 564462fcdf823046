"""A cron belongs to the user who created it, and its runs are that user's."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

LANGGRAPH_JSON = Path(__file__).parent / "apps" / "guarded" / "langgraph.json"
ADA = {"authorization": "Bearer ada"}
BOB = {"authorization": "Bearer bob"}
BOUND_S = 60


@pytest.mark.api("POST /runs/crons", "200 starts runs on behalf of the user who created the cron")
async def test_a_run_of_a_cron_knows_the_user_who_created_it(http: httpx.AsyncClient) -> None:
    thread_id = (await http.post("/threads", json={}, headers=ADA)).json()["thread_id"]
    body = {"assistant_id": "keep", "schedule": "* * * * * *", "input": {"said": "now"}}
    async with (
        asyncio.timeout(BOUND_S),
        http.stream("GET", f"/threads/{thread_id}/stream?stream_modes=lifecycle", headers=ADA) as stream,
    ):
        cron = (await http.post(f"/threads/{thread_id}/runs/crons", json=body, headers=ADA)).json()
        async for line in stream.aiter_lines():
            if "run_done" in line:
                break
    assert cron["user_id"] == "ada"
    assert (await http.get(f"/runs/crons/{cron['cron_id']}", headers=BOB)).status_code == 404
    await http.delete(f"/runs/crons/{cron['cron_id']}", headers=ADA)
    thread: Any = (await http.get(f"/threads/{thread_id}", headers=ADA)).json()
    assert thread["values"]["seen"] == {
        "identity": "ada",
        "team": "team of ada",
        "permissions": ["talk"],
        "id": "ada",
        "listed": ["talk"],
        "user_id": "ada",
    }
    (run, *_) = (await http.get(f"/threads/{thread_id}/runs", headers=ADA)).json()
    assert run["metadata"]["owner"] == "ada"
