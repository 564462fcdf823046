"""What several processes could do twice: crons, webhooks, sweeps; and what a worker returns when it is told to stop."""

import asyncio
import json
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.distributed.cluster import Cluster
from tests.fixtures.postgres import PostgresServer
from tests.outbound.peers import Received, serving, text

CRONS, RUNS, THREADS, BOUND_S = 20, 40, 40, 60.0
YEARLY = "0 0 1 1 *"
# As a clock that all processes read reaches the due time of all crons.
DUE_NOW = "UPDATE crons SET next_run_at = (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
CRON_RUNS = "SELECT count(*) FROM runs WHERE metadata LIKE '%cron_id%'"
ALL_FIRED = "SELECT 1 WHERE (SELECT count(*) FROM runs WHERE metadata LIKE '%%cron_id%%') >= %(crons)s"
ALL_SENT = """
SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM webhook_deliveries)
AND NOT EXISTS (SELECT 1 FROM runs WHERE status IN ('pending', 'running'))
"""
pytestmark = [pytest.mark.requirement("S-06"), pytest.mark.slow, pytest.mark.timeout(400)]


async def test_crons_fire_once_and_webhooks_are_sent_once(postgres: PostgresServer, tmp_path: Path) -> None:
    received: list[tuple[str, str]] = []

    async def receive(request: Received, writer: asyncio.StreamWriter) -> None:
        received.append((str(request.header("webhook-id")), json.loads(request.body)["run_id"]))
        writer.write(text("204 No Content"))

    with Cluster(postgres, tmp_path, replicas=2, workers=2) as cluster:
        async with serving(receive) as peer, cluster.client(0) as sdk, cluster.client(1) as other:
            url = f"http://127.0.0.1:{peer.port}/"
            values: Any = {"name": "n", "steps": 1, "pause": 0.01}
            threads = [(await sdk.threads.create())["thread_id"] for _ in range(CRONS)]
            for thread_id in threads:
                await other.crons.create_for_thread(thread_id, "steps", schedule=YEARLY, input=values, webhook=url)
            cluster.query(DUE_NOW)
            # Its creation lets every process look for due crons.
            last: Any = await sdk.crons.create_for_thread(threads[0], "steps", schedule=YEARLY, input=values)
            await asyncio.to_thread(cluster.wait_for, ALL_FIRED, {"crons": CRONS})
            await sdk.crons.delete(last["cron_id"])
            made = await asyncio.gather(
                *(
                    (sdk, other)[number % 2].runs.wait(None, "steps", input=values, webhook=url)
                    for number in range(RUNS)
                )
            )
            assert len(made) == RUNS
            await asyncio.to_thread(cluster.wait_for, ALL_SENT)
            assert cluster.query(CRON_RUNS) == [(CRONS,)]
            per_thread = "SELECT DISTINCT count(*) FROM runs WHERE metadata LIKE '%cron_id%' GROUP BY thread_id"
            assert cluster.query(per_thread) == [(1,)]
            assert len(received) == len({delivery for delivery, _ in received}) == CRONS + RUNS
            assert len({run_id for _, run_id in received}) == CRONS + RUNS


async def test_expired_threads_are_swept_by_several_processes_without_an_error(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    with Cluster(postgres, tmp_path, replicas=2, workers=2) as cluster:
        async with cluster.client() as sdk:
            kept = (await sdk.threads.create())["thread_id"]
            for number in range(THREADS):
                strategy = "delete" if number % 2 else "keep_latest"
                thread = await sdk.threads.create(ttl={"ttl": 60, "strategy": strategy})
                await sdk.runs.wait(thread["thread_id"], "steps", input={"name": "n", "steps": 2, "pause": 0.01})
            cluster.query("UPDATE threads SET expires_at = 1 WHERE expires_at IS NOT NULL")
            swept = "SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM threads WHERE expires_at = 1 OR claim IS NOT NULL)"
            await asyncio.to_thread(cluster.wait_for, swept)
            assert cluster.query("SELECT count(*) FROM threads") == [(1 + THREADS // 2,)]
            left = "SELECT count(*) FROM checkpoints GROUP BY thread_id"
            assert cluster.query(left) == [(1,)] * (THREADS // 2)
            assert await sdk.threads.get(kept)
        assert "ERROR" not in cluster.logs()


async def test_a_worker_that_stops_finishes_short_runs_and_returns_long_ones(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    # With a long lease nobody waits for the reaper: the worker returns its runs itself.
    env = {"TOOLWEAVE_WORKER_LEASE_S": "60", "TOOLWEAVE_DRAIN_TIMEOUT_S": "1.5"}
    with Cluster(postgres, tmp_path, replicas=1, workers=2, concurrency=4, env=env) as cluster:
        stopping, staying = cluster.workers
        await asyncio.to_thread(staying.stop)
        async with cluster.client() as sdk:

            async def start(steps: int, pause: float) -> tuple[str, str]:
                thread_id = (await sdk.threads.create())["thread_id"]
                values: Any = {"name": str(uuid4()), "steps": steps, "pause": pause}
                run = await sdk.runs.create(thread_id, "steps", input=values, durability="sync")
                return thread_id, run["run_id"]

            long = [await start(8, 0.4) for _ in range(2)]
            short = [await start(1, 0.6) for _ in range(2)]
            running = "SELECT 1 WHERE (SELECT count(*) FROM runs WHERE status = 'running') = 4"
            await asyncio.to_thread(cluster.wait_for, running)
            await asyncio.to_thread(cluster.wait_for, "SELECT 1 FROM checkpoints WHERE metadata ->> 'step' = '1'")
            begun = time.monotonic()
            ending = asyncio.create_task(asyncio.to_thread(stopping.stop))
            late = await start(1, 0.01)
            assert await ending == 0
            took = time.monotonic() - begun
            # The short runs have ended there; the long ones wait for another worker, as the new one does.
            statuses = cluster.query("SELECT run_id, status, attempt FROM runs")
            assert {run_id: status for run_id, status, _ in statuses} == {
                **{run_id: "pending" for _, run_id in (*long, late)},
                **{run_id: "success" for _, run_id in short},
            }
            await asyncio.to_thread(staying.start)
            for thread_id, run_id in (*long, *short, late):
                await sdk.runs.join(thread_id, run_id)
            assert {status for (status,) in cluster.query("SELECT status FROM runs")} == {"success"}
            for _, run_id in long:
                begun_steps = [step.step for step in cluster.steps() if step.run_id == run_id and step.kind == "begin"]
                numbers = [int(step.rpartition("/")[2]) for step in begun_steps]
                # Only the step that was interrupted begins again.
                assert (numbers, len(numbers)) == (sorted(numbers), 9)
                assert set(numbers) == set(range(8))
            assert took < 30
