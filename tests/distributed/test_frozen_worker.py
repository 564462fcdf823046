"""A worker that is frozen beyond its lease: its late writes are refused, and it goes on with a new identity."""

import asyncio
import sys
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.distributed.cluster import Cluster
from tests.fixtures.postgres import PostgresServer

ROUNDS, STEPS = 2, 6
EXECUTED_BY = "SELECT p.pid FROM runs AS r JOIN processes AS p USING (process_id) WHERE r.status = 'running'"
HAS_CHECKPOINT = "SELECT 1 FROM checkpoints WHERE thread_id = %(thread_id)s"
CLAIMED_AGAIN = "SELECT 1 FROM runs WHERE run_id = %(run_id)s AND attempt = 2 AND status = 'running'"
IS_BACK = "SELECT 1 WHERE (SELECT count(*) FROM processes WHERE pid = %(pid)s AND slots > 0) = 1"
IDENTITIES = "SELECT process_id, pid FROM processes WHERE role = 'worker'"
pytestmark = [pytest.mark.requirement("S-06"), pytest.mark.slow, pytest.mark.timeout(400)]


async def test_a_worker_that_was_frozen_beyond_its_lease_writes_nothing_and_goes_on_with_a_new_identity(
    postgres: PostgresServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Cluster(postgres, tmp_path, replicas=1, workers=2, concurrency=4) as cluster:
        refused = sum([await freeze_and_thaw(cluster) for _ in range(ROUNDS)])
        assert cluster.logs().count("had no heartbeat for") == ROUNDS
    with capsys.disabled():
        sys.stdout.write(f"\n{ROUNDS} workers frozen, {refused} of their steps ended late, and none is stored\n")


async def freeze_and_thaw(cluster: Cluster) -> int:
    """Freeze a worker in the middle of runs; return how many steps it finished after it was thawed."""
    before = dict(cluster.query(IDENTITIES))
    async with cluster.client() as sdk:
        run, follower = await start(sdk)
        [(pid,)] = await asyncio.to_thread(cluster.wait_for, EXECUTED_BY)
        frozen = next(worker for worker in cluster.workers if worker.pid == pid)
        await asyncio.to_thread(cluster.wait_for, HAS_CHECKPOINT, {"thread_id": run["thread_id"]})
        others = [asyncio.create_task(start_short(sdk, steps=1, pause=2.5)) for _ in range(6)]
        await asyncio.to_thread(
            cluster.wait_for, "SELECT 1 WHERE (SELECT count(*) FROM runs WHERE status = 'running') = 7"
        )
        begun = {step.run_id for step in cluster.steps() if step.pid == pid}
        frozen.freeze()
        await asyncio.to_thread(cluster.wait_for, CLAIMED_AGAIN, {"run_id": run["run_id"]})
        # The frozen worker is in the middle of a step, and the other one executes the run.
        thawed = time.time()
        frozen.thaw()
        values = await sdk.runs.join(run["thread_id"], run["run_id"])
        # A new identity: no runs are lost, and the worker gets new ones.
        await asyncio.to_thread(cluster.wait_for, IS_BACK, {"pid": pid})
        now = dict(cluster.query(IDENTITIES))
        assert [process for process, its_pid in now.items() if its_pid == pid] != [
            process for process, its_pid in before.items() if its_pid == pid
        ]
        await check_once(cluster, sdk, run, values, pid)
        await check_events(await follower, values)
        for run_id in await asyncio.gather(*others):
            [(thread_id,)] = cluster.query("SELECT thread_id FROM runs WHERE run_id = %(run_id)s", {"run_id": run_id})
            assert await stored_steps(sdk, thread_id) == [0, 0, 1]
        later: list[Any] = await asyncio.gather(*(start_short(sdk, steps=2, pause=0.5) for _ in range(8)))
        executing = {step.pid for step in cluster.steps() if step.run_id in later}
        assert executing == {worker.pid for worker in cluster.workers}
        late = [
            step
            for step in cluster.steps()
            if step.pid == pid
            and step.kind == "end"
            and step.at > thawed
            and step.run_id in begun
            and step.attempt == 1
        ]
        return len(late)


async def start(sdk: Any) -> tuple[Any, "asyncio.Task[list[Any]]"]:
    """Start a run of some seconds and follow its events."""
    thread_id = (await sdk.threads.create())["thread_id"]
    values = {"name": str(uuid4()), "steps": STEPS, "pause": 1.0}
    fields = {"input": values, "durability": "sync", "stream_mode": ["values", "custom"], "stream_resumable": True}
    run = await sdk.runs.create(thread_id, "ticks", **fields)

    async def follow() -> list[Any]:
        return [part async for part in sdk.runs.join_stream(thread_id, run["run_id"], last_event_id="-1")]

    return run, asyncio.create_task(follow())


async def stored_steps(sdk: Any, thread_id: str) -> list[int]:
    """Return how many steps each checkpoint of a thread contains, oldest first."""
    history = await sdk.threads.get_history(thread_id, limit=100)
    return [len(state["values"].get("log", [])) for state in reversed(history)]


async def start_short(sdk: Any, *, steps: int, pause: float) -> str:
    thread_id = (await sdk.threads.create())["thread_id"]
    run = await sdk.runs.create(thread_id, "steps", input={"name": str(uuid4()), "steps": steps, "pause": pause})
    await sdk.runs.join(thread_id, run["run_id"])
    return str(run["run_id"])


async def check_once(cluster: Cluster, sdk: Any, run: Any, values: Any, frozen_pid: int) -> None:
    """Check that only the checkpoints of the worker that continued the run are stored, and each step once."""
    name = values["name"]
    expected = [f"{name}/{number}" for number in range(STEPS)]
    assert values["log"] == expected
    stored = await sdk.runs.get(run["thread_id"], run["run_id"])
    assert stored["status"] == "success"
    assert cluster.query("SELECT attempt FROM runs WHERE run_id = %(run_id)s", run) == [(2,)]
    history = await sdk.threads.get_history(run["thread_id"], limit=100)
    # One checkpoint for the input, one before the first step, and one for each step: none of the frozen worker's.
    assert await stored_steps(sdk, run["thread_id"]) == [0, *range(STEPS + 1)]
    attempts = [state["metadata"]["run_attempt"] for state in reversed(history)]
    assert attempts == sorted(attempts)


async def check_events(parts: list[Any], values: Any) -> None:
    """Check that the second attempt's events follow the first one's, without any of the first in between."""
    attempts = [part.data["attempt"] for part in parts if part.event == "metadata"]
    assert attempts == [1, 2]
    second = max(index for index, part in enumerate(parts) if part.event == "metadata")
    ticks = [part.data["tick"] for part in parts[second:] if part.event == "custom"]
    first = int(ticks[0].split("/")[1])
    name = values["name"]
    assert ticks == [f"{name}/{step}/{number}" for step in range(first, STEPS) for number in range(10)]
    assert parts[-1].event == "values"
    assert parts[-1].data == values
