"""PostgreSQL restarts, crashes, and cuts all connections during runs: no run is lost, and no client notices."""

import asyncio
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from langgraph_sdk.errors import InternalServerError

from tests.distributed.cluster import Cluster
from tests.fixtures.postgres import PostgresServer

CLIENTS, STEPS, BOUND_S = 18, 5, 120.0
CUT = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
"""
ALL_ENDED = "SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM runs WHERE status IN ('pending', 'running'))"
pytestmark = [pytest.mark.requirement("S-06"), pytest.mark.slow, pytest.mark.timeout(400)]


def restart(cluster: Cluster, postgres: PostgresServer) -> None:
    postgres.stop("INT")
    postgres.start()


def crash(cluster: Cluster, postgres: PostgresServer) -> None:
    postgres.stop("QUIT")
    postgres.start()


def cut(cluster: Cluster, postgres: PostgresServer) -> None:
    cluster.query(CUT)


async def client(cluster: Cluster, number: int, until: asyncio.Event) -> int:
    """Create runs, and wait for them or follow them, until the event; return how many."""
    runs = 0
    async with cluster.client(number) as sdk:
        while not until.is_set() or runs == 0:
            try:
                await execute(sdk, number)
            except (InternalServerError, httpx.HTTPStatusError) as error:
                # The connection broke while the creation was committed: the answer says so. `wait` has it in a note.
                if "may be stored or not" not in "".join([str(error), *getattr(error, "__notes__", ())]):
                    raise
            else:
                runs += 1
    return runs


async def execute(sdk: Any, number: int) -> None:
    name = str(uuid4())
    values = {"name": name, "steps": STEPS, "pause": 0.4}
    thread_id = (await sdk.threads.create())["thread_id"]
    if number % 3 == 0:
        found = await sdk.runs.wait(thread_id, "ticks", input=values)
    elif number % 3 == 1:
        run = await sdk.runs.create(thread_id, "ticks", input=values)
        found = await sdk.runs.join(thread_id, run["run_id"])
    else:
        found = await stream(sdk, thread_id, values, resumable=number % 2 == 0)
    assert found["log"] == [f"{name}/{step}" for step in range(STEPS)]


async def stream(sdk: Any, thread_id: str, values: Any, *, resumable: bool) -> Any:
    """Follow a run; all its events arrive in order."""
    modes = ["values", "custom"]
    events = sdk.runs.stream(thread_id, "ticks", input=values, stream_mode=modes, stream_resumable=resumable)
    parts = [part async for part in events]
    ticks = [part.data["tick"] for part in parts if part.event == "custom"]
    assert ticks == [f"{values['name']}/{step}/{number}" for step in range(STEPS) for number in range(10)]
    lengths = [len(part.data.get("log", [])) for part in parts if part.event == "values"]
    assert lengths == list(range(STEPS + 1))
    return parts[-1].data


@pytest.mark.parametrize("disturb", [restart, crash, cut])
async def test_no_run_and_no_event_is_lost(
    disturb: Callable[[Cluster, PostgresServer], None], postgres: PostgresServer, tmp_path: Path
) -> None:
    dice = random.Random(20261124)
    # Longer than the outages on a busy machine: the workers live on.
    env = {"TOOLWEAVE_WORKER_LEASE_S": "10"}
    with Cluster(postgres, tmp_path, workers=2, concurrency=10, env=env) as cluster:
        until = asyncio.Event()
        clients = [asyncio.create_task(client(cluster, number, until)) for number in range(CLIENTS)]
        for _ in range(3):
            await asyncio.sleep(dice.uniform(1.0, 3.0))
            await asyncio.to_thread(disturb, cluster, postgres)
        until.set()
        async with asyncio.timeout(BOUND_S):
            runs = sum(await asyncio.gather(*clients))
        await asyncio.to_thread(cluster.wait_for, ALL_ENDED)
        [(status, stored)] = cluster.query("SELECT status, count(*) FROM runs GROUP BY status")
        assert status == "success"
        assert stored >= runs
        assert cluster.query("SELECT count(*) FROM runs WHERE attempt > 1") == [(0,)]
