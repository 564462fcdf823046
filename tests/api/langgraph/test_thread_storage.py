"""Threads are pruned, measured, and given a time to live over HTTP (langgraph_api.md 2.2)."""

import json
import sqlite3
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import NotFoundError

from tests.api.langgraph.steering import NOBODY, Thread, new_thread, run_at_gate
from tests.fixtures.app_server import serve_in_thread

LANGGRAPH_JSON = Path(__file__).parent / "app" / "langgraph.json"
BOUND_S = 60.0


async def used_thread(sdk: LangGraphClient) -> str:
    thread_id = await new_thread(sdk)
    await sdk.runs.wait(thread_id, "steps", input={"n": 1})
    return thread_id


@pytest.mark.api("POST /threads/prune", "200 deletes the threads and ignores unknown ids")
@pytest.mark.api("POST /threads/prune", "200 ends the runs of a busy thread that it deletes")
async def test_pruned_threads_are_gone(sdk: LangGraphClient, http: httpx.AsyncClient) -> None:
    used, unused, busy = await used_thread(sdk), await new_thread(sdk), await new_thread(sdk)
    await run_at_gate(sdk, http, busy)
    assert await sdk.threads.prune([used, unused, busy, used, NOBODY]) == {"pruned_count": 3}
    for thread_id in (used, unused, busy):
        with pytest.raises(NotFoundError):
            await sdk.threads.get(thread_id)
    assert await sdk.threads.prune([]) == {"pruned_count": 0}


@pytest.mark.api("POST /threads/prune", "200 keep_latest keeps the newest state, and leaves busy threads alone")
async def test_keep_latest_keeps_the_newest_state(sdk: LangGraphClient, http: httpx.AsyncClient) -> None:
    idle, busy = await used_thread(sdk), await used_thread(sdk)
    run_id, _ = await run_at_gate(sdk, http, busy)
    before: Any = await sdk.threads.get_state(idle)
    assert await sdk.threads.prune([idle, busy], strategy="keep_latest") == {"pruned_count": 1}
    assert await sdk.threads.get_history(idle) == [{**before, "parent_checkpoint": None, "parent_checkpoint_id": None}]
    assert (await sdk.runs.wait(idle, "steps", input={"n": 3}))["n"] == 8  # type: ignore[call-overload]
    await sdk.runs.cancel(busy, run_id, wait=True)
    assert len(await sdk.threads.get_history(busy)) > 4


@pytest.mark.api("GET /threads/{thread_id}/storage", "200 counts checkpoints, channel values and pending writes")
async def test_a_thread_is_measured(sdk: LangGraphClient, thread: Thread) -> None:
    nothing = {"count": 0, "bytes": 0}
    assert (await thread.get("/storage")).json() == {
        "thread_id": thread.id,
        "total_bytes": 0,
        "checkpoints": nothing,
        "channel_values": {**nothing, "by_channel": {}},
        "pending_writes": nothing,
    }
    await sdk.threads.update(thread.id, metadata={"graph_id": "steps"})
    await thread.update_state({"n": 1, "log": ["x" * 5000]}, as_node="add")
    await thread.update_state({"log": ["y" * 5000]}, as_node="add")
    taken = (await thread.get("/storage")).json()
    parts = [taken[part]["bytes"] for part in ("checkpoints", "channel_values", "pending_writes")]
    assert taken["total_bytes"] == sum(parts) > 15_000
    assert taken["checkpoints"]["count"] == 2
    by_channel = taken["channel_values"]["by_channel"]
    assert by_channel["log"]["versions"] == 2
    assert 15_000 < by_channel["log"]["bytes"] < 15_100
    assert taken["channel_values"]["count"] == sum(channel["versions"] for channel in by_channel.values())
    assert taken["channel_values"]["bytes"] == sum(channel["bytes"] for channel in by_channel.values())


@pytest.mark.api("POST /threads", "200 takes a time to live, in minutes or with a strategy")
@pytest.mark.api("GET /threads/{thread_id}", "200 shows the time to live with include=ttl")
@pytest.mark.parametrize(
    ("ttl", "strategy", "minutes"),
    [(10, "delete", 10.0), ({"ttl": 0.5}, "delete", 0.5), ({"ttl": 5, "strategy": "keep_latest"}, "keep_latest", 5.0)],
)
async def test_a_time_to_live_is_stored_and_shown(
    http: httpx.AsyncClient, ttl: object, strategy: str, minutes: float
) -> None:
    made = await http.post("/threads", json={"ttl": ttl})
    thread = made.json()
    assert (made.status_code, "x-ignored-fields" in made.headers, "ttl" in thread) == (200, False, False)
    path = f"/threads/{thread['thread_id']}"
    shown = (await http.get(path, params={"include": "ttl"})).json()
    expires_at = datetime.fromisoformat(thread["created_at"]) + timedelta(minutes=minutes)
    expires = expires_at.isoformat(timespec="microseconds")
    expected = {"strategy": strategy, "ttl_minutes": minutes, "expires_at": expires}
    assert shown == {**thread, "ttl": expected}
    assert (await http.get(path, params={"include": "x,ttl"})).json() == shown
    assert (await http.get(path, params={"include": "x"})).json() == thread


async def test_threads_without_a_time_to_live_show_none(
    sdk: LangGraphClient, http: httpx.AsyncClient, thread: Thread
) -> None:
    assert "ttl" not in await sdk.threads.get(thread.id, include=["ttl"])
    only_strategy = await http.post("/threads", json={"ttl": {"strategy": "delete"}})
    assert (only_strategy.status_code, only_strategy.headers["x-ignored-fields"]) == (200, "ttl")


@pytest.mark.api("PATCH /threads/{thread_id}", "200 sets a time to live that counts from now")
async def test_a_time_to_live_can_be_set_later(sdk: LangGraphClient, thread: Thread) -> None:
    before = datetime.now(UTC)
    await sdk.threads.update(thread.id, metadata={}, ttl={"ttl": 7, "strategy": "keep_latest"})
    shown: Any = await sdk.threads.get(thread.id, include=["ttl"])
    assert (shown["ttl"]["strategy"], shown["ttl"]["ttl_minutes"]) == ("keep_latest", 7.0)
    expires_at = datetime.fromisoformat(shown["ttl"]["expires_at"])
    assert before <= expires_at - timedelta(minutes=7) <= datetime.now(UTC)


@pytest.mark.parametrize("ttl", [-1, "x", True, 1e300, {"ttl": -1}, {"ttl": "5"}, {"ttl": 5, "strategy": "zz"}, [5]])
async def test_an_invalid_time_to_live_is_refused(http: httpx.AsyncClient, thread: Thread, ttl: object) -> None:
    assert (await http.post("/threads", json={"ttl": ttl})).status_code == 422
    assert (await http.patch(f"/threads/{thread.id}", json={"ttl": ttl})).status_code == 422


@pytest.mark.requirement("S-05")
def test_a_server_applies_its_own_time_to_live_and_deletes_data_left_by_a_crash(tmp_path: Path) -> None:
    config = json.loads(LANGGRAPH_JSON.read_text(encoding="utf-8"))
    config["graphs"] = {"steps": f"{LANGGRAPH_JSON.parent}/steered_graphs.py:steps"}
    config |= {"dependencies": [str(LANGGRAPH_JSON.parent)], "http": {}}
    config["checkpointer"] = {"ttl": {"strategy": "delete", "default_ttl": 60, "sweep_interval_minutes": 0.0001}}
    changed = tmp_path / "langgraph.json"
    changed.write_text(json.dumps(config), encoding="utf-8")
    thread_id, orphan = str(uuid4()), str(uuid4())
    for _ in range(2):
        with (
            serve_in_thread(changed, tmp_path / "data", {}) as server,
            httpx.Client(base_url=server.url, timeout=60) as http,
        ):
            run = {"assistant_id": "steps", "input": {"n": 1}, "if_not_exists": "create"}
            http.post(f"/threads/{thread_id}/runs/wait", json=run).raise_for_status()
            ttl = http.get(f"/threads/{thread_id}", params={"include": "ttl"}).json()["ttl"]
            assert (ttl["strategy"], ttl["ttl_minutes"]) == ("delete", 60.0)
            gone = http.post("/threads", json={"ttl": 0}).json()["thread_id"]
            wait_until(lambda: http.get(f"/threads/{gone}").status_code == 404)  # noqa: B023 - called at once
            wait_until(lambda: checkpoints(tmp_path / "data", orphan) == 0)
        assert checkpoints(tmp_path / "data", thread_id) > 0
        with sqlite3.connect(tmp_path / "data" / "checkpoints.db") as connection:
            copied = "SELECT ?, checkpoint_ns, checkpoint_id, NULL, type, checkpoint, metadata FROM checkpoints"
            connection.execute(f"INSERT INTO checkpoints {copied} WHERE thread_id = ?", (orphan, thread_id))
        assert checkpoints(tmp_path / "data", orphan) > 0


def checkpoints(folder: Path, thread_id: str) -> int:
    with sqlite3.connect(folder / "checkpoints.db") as connection:
        query = "SELECT COUNT(*) FROM checkpoints WHERE thread_id = ?"
        return int(connection.execute(query, (thread_id,)).fetchone()[0])


def wait_until(condition: Any) -> None:
    """Check the condition until it is true; each check is a request or a read."""
    deadline = time.monotonic() + BOUND_S
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
