"""A worker that is stopped exits within its bound, whatever its runs do, and another one continues them."""

import asyncio
from pathlib import Path

import pytest

from tests.cli.processes import eventually
from tests.distributed.cluster import Cluster
from tests.fixtures.postgres import PostgresServer

pytestmark = [pytest.mark.requirement("S-06"), pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.mark.parametrize(
    "graph",
    [
        pytest.param("stubborn", id="an async node that ignores its cancellation"),
        pytest.param("stuck", id="a sync node that never returns"),
        pytest.param("blocking", id="an async node that blocks the event loop"),
    ],
)
async def test_a_worker_whose_run_does_not_stop_exits_and_another_one_continues_the_run(
    graph: str, postgres: PostgresServer, tmp_path: Path
) -> None:
    with Cluster(postgres, tmp_path, replicas=1, workers=2) as cluster:
        stopping, staying = cluster.workers
        await asyncio.to_thread(staying.stop)
        async with cluster.client() as sdk:
            thread_id = (await sdk.threads.create())["thread_id"]
            run = await sdk.runs.create(thread_id, graph, input={"name": "n"})
            await asyncio.to_thread(eventually, lambda: cluster.steps() != [], "a step")
            assert await asyncio.to_thread(stopping.stop) == 1
            assert "some work did not stop in time" in stopping.logs()
            # A process whose event loop is blocked cannot return its runs; its lease ends.
            assert graph == "blocking" or f"run {run['run_id']} needs longer than the drain timeout" in stopping.logs()
            await asyncio.to_thread(staying.start)
            values = await sdk.runs.join(thread_id, run["run_id"])
            assert values == {"name": "n", "log": ["done"]}
            assert {step.attempt for step in cluster.steps()} == {1, 2}
