"""With one worker that executes one run at a time, the most urgent waiting run starts next (S-08)."""

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

from tests.distributed.cluster import Cluster
from tests.fixtures.postgres import PostgresServer

pytestmark = [pytest.mark.requirement("S-08"), pytest.mark.slow]
RUNNING = "SELECT 1 FROM runs WHERE status = 'running'"


async def test_the_most_urgent_waiting_run_starts_next(postgres: PostgresServer, tmp_path: Path) -> None:
    priorities = [-5, -5, -2, 0, 0, 3, 5]
    shuffled = random.Random(20261124).sample(list(enumerate(priorities)), len(priorities))
    with Cluster(postgres, tmp_path, replicas=2, workers=1, concurrency=1) as cluster:
        clients = [cluster.client(0), cluster.client(1)]

        async def create(priority: int, pause: float) -> Any:
            sdk = random.choice(clients)
            thread_id = (await sdk.threads.create())["thread_id"]
            values: Any = {"name": "n", "steps": 1, "pause": pause}
            return await sdk.runs.create(
                thread_id, "steps", input=values, metadata={"settings": {"priority": priority}}
            )

        first = await create(5, 600.0)
        await asyncio.to_thread(cluster.wait_for, RUNNING)
        waiting = [(priority, await create(priority, 0.01)) for _, priority in shuffled]
        assert cluster.query("SELECT count(*) FROM runs WHERE status = 'pending'") == [(len(priorities),)]
        await clients[0].runs.cancel(first["thread_id"], first["run_id"])
        for _, run in waiting:
            await clients[0].runs.join(run["thread_id"], run["run_id"])
        for sdk in clients:
            await sdk.aclose()
        begun = [step.run_id for step in cluster.steps() if step.kind == "begin"]
        # Runs of equal priority start in the order of their creation.
        expected = [run["run_id"] for _, run in sorted(waiting, key=lambda each: each[0])]
        assert begun == [first["run_id"], *expected]
