"""Workers are killed under load: every run ends once, and no step is repeated whose checkpoint is stored."""

import asyncio
import random
import statistics
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.distributed.cluster import LEASE_S, Cluster, Step
from tests.fixtures.postgres import PostgresServer

# As many clients as two workers have slots: a run that continues finds a free one.
STEPS, CLIENTS, SEED, BOUND_S = 5, 16, 20261124, 120.0
ENDED = "SELECT status, count(*) FROM runs GROUP BY status"
RUNNING_THERE = """
SELECT r.run_id, r.attempt FROM runs AS r JOIN processes AS p USING (process_id)
WHERE r.status = 'running' AND p.pid = %(pid)s
"""
CONTINUED = """
SELECT 1 FROM runs WHERE run_id = %(run_id)s AND (attempt > %(attempt)s OR status = 'success')
"""
pytestmark = [pytest.mark.requirement("S-06"), pytest.mark.timeout(900)]


@dataclass
class Load:
    """Clients that create runs and wait for them, until `enough` and all kills are done."""

    cluster: Cluster
    enough: int
    killing: bool = True
    results: dict[str, Any] = field(default_factory=dict)
    created: int = 0

    async def client(self, number: int) -> None:
        async with self.cluster.client(number) as sdk:
            while self.killing or self.created < self.enough:
                self.created += 1
                name = str(uuid4())
                values: Any = {"name": name, "steps": STEPS, "pause": 0.25}
                thread_id = (await sdk.threads.create())["thread_id"]
                fields: Any = {"input": values, "durability": "sync", "multitask_strategy": "enqueue"}
                if number % 3 == 0:
                    self.results[name] = await sdk.runs.wait(thread_id, "steps", **fields)
                elif number % 3 == 1:
                    run = await sdk.runs.create(thread_id, "steps", **fields)
                    self.results[name] = await sdk.runs.join(thread_id, run["run_id"])
                else:
                    parts = [part async for part in sdk.runs.stream(thread_id, "steps", **fields)]
                    assert parts[-1].event == "values", parts
                    self.results[name] = parts[-1].data


async def kill_often(cluster: Cluster, kills: int) -> list[float]:
    """Kill a random worker again and again; return how long its runs took to continue elsewhere."""
    dice = random.Random(SEED)
    killed: list[tuple[float, int, list[tuple[str, int]]]] = []
    for _ in range(kills):
        await asyncio.sleep(dice.uniform(0.2, 1.5))
        worker = dice.choice(cluster.workers)
        pid = worker.pid
        at = time.time()
        await asyncio.to_thread(worker.kill)
        found: Any = await asyncio.to_thread(cluster.query, RUNNING_THERE, {"pid": pid})
        killed.append((at, pid, found))
        await asyncio.to_thread(worker.start)
    for _, _, runs in killed:
        for run_id, attempt in runs:
            await asyncio.to_thread(cluster.wait_for, CONTINUED, {"run_id": run_id, "attempt": attempt})
    return recoveries(cluster.steps(), killed)


def recoveries(steps: list[Step], killed: list[tuple[float, int, list[tuple[str, int]]]]) -> list[float]:
    found: list[float] = []
    for at, _, runs in killed:
        for run_id, attempt in runs:
            # A run whose last step was stored has none left; one that is killed again at once is counted then.
            later = [step.at - at for step in steps if step.run_id == run_id and step.attempt == attempt + 1]
            found += [min(later)] if later else []
    return found


def check_steps(steps: list[Step]) -> int:
    """Check that each run executed its steps in order; return how many steps were begun again after a kill."""
    repeated = 0
    by_run: dict[str, list[Step]] = {}
    for step in steps:
        by_run.setdefault(step.run_id, []).append(step)
    for of_run in by_run.values():
        begun = [int(step.step.rpartition("/")[2]) for step in of_run if step.kind == "begin"]
        # With durability "sync", a step begins when the checkpoint of the one before is stored.
        assert begun == sorted(begun), of_run
        assert set(begun) == set(range(STEPS)), of_run
        repeated += len(begun) - STEPS
    return repeated


@pytest.mark.parametrize(
    ("kills", "runs"),
    [
        pytest.param(3, 40, marks=pytest.mark.slow, id="3 kills"),
        pytest.param(30, 500, marks=pytest.mark.slow, id="30 kills"),
    ],
)
async def test_every_run_ends_once_however_often_workers_are_killed(
    kills: int, runs: int, postgres: PostgresServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Cluster(postgres, tmp_path) as cluster:
        load = Load(cluster, runs)
        clients = [asyncio.create_task(load.client(number)) for number in range(CLIENTS)]
        took = await kill_often(cluster, kills)
        load.killing = False
        async with asyncio.timeout(BOUND_S):
            await asyncio.gather(*clients)
        assert cluster.query(ENDED) == [("success", load.created)]
        assert len(load.results) == load.created >= runs
        for name, values in load.results.items():
            assert values["log"] == [f"{name}/{number}" for number in range(STEPS)]
        repeated = check_steps(cluster.steps())
        assert repeated <= sum(1 for _ in took) + kills
    with capsys.disabled():
        sys.stdout.write(
            f"\n{kills} kills, {load.created} runs, {len(took)} of them continued, {repeated} steps begun again; "
            f"continued after p50 {statistics.median(took):.2f} s, max {max(took):.2f} s (lease {LEASE_S:g} s)\n"
        )
    # A busy machine delays single runs, so no bound on `max`: the figure above is for the reader.
    assert took
