"""Streams of threads whose replica learns late of a run: they miss nothing of what starts after their response."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.api.langgraph.protocol.listening import Event, ends_run, on
from tests.distributed.cluster import Cluster
from tests.fixtures.event_frames import frames
from tests.fixtures.postgres import PostgresServer

BOUND_S, LOGS = 60.0, [[], ["n/0"], ["n/0", "n/1"]]
HAS_ENDED = "SELECT 1 FROM runs WHERE run_id = %(run_id)s AND status = 'success'"
HAS_EVENTS = "SELECT 1 FROM run_events WHERE run_id = %(run_id)s HAVING count(*) > 2"
LISTENING = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND query = 'LISTEN \"toolweave\"'"
WAITS_FOR_LOCK = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
pytestmark = [pytest.mark.requirement("S-06"), pytest.mark.slow, pytest.mark.timeout(300)]


def values(name: str) -> Any:
    return {"name": name, "steps": 2, "pause": 0.01}


async def new_thread(cluster: Cluster, thread_id: str | None = None) -> str:
    """Create a thread through the second replica."""
    async with cluster.client(1) as sdk:
        return str((await sdk.threads.create(thread_id=thread_id))["thread_id"])


@asynccontextmanager
async def opened(cluster: Cluster, method: str, path: str, **arguments: Any) -> AsyncIterator[httpx.Response]:
    """Open a stream of the first replica; its response has started."""
    async with (
        httpx.AsyncClient(base_url=cluster.replicas[0].url, timeout=BOUND_S) as http,
        http.stream(method, path, **arguments) as response,
    ):
        assert response.status_code == 200
        yield response


async def run_while_frozen(cluster: Cluster, thread_id: str, name: str = "n") -> str:
    """Execute a run, created through the second replica, from its creation to its end while the first is frozen."""
    streaming = cluster.replicas[0]
    streaming.freeze()
    try:
        async with cluster.client(1) as sdk:
            run = await sdk.runs.create(thread_id, "steps", input=values(name), if_not_exists="create")
        await asyncio.to_thread(cluster.wait_for, HAS_ENDED, {"run_id": run["run_id"]})
    finally:
        streaming.thaw()
    return str(run["run_id"])


async def test_a_thread_stream_has_all_events_of_runs_that_ended_before_its_replica_read_of_them(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    with Cluster(postgres, tmp_path, replicas=2, workers=1) as cluster:
        thread_id = await new_thread(cluster)
        async with opened(cluster, "GET", f"/threads/{thread_id}/stream") as response, asyncio.timeout(BOUND_S):
            events = frames(response)
            run_ids = [await run_while_frozen(cluster, thread_id, "first")]
            async with cluster.client(0) as sdk:
                # The replica follows this run from its creation.
                await sdk.runs.wait(thread_id, "steps", input=values("second"))
            run_ids.append(await run_while_frozen(cluster, thread_id, "third"))
            runs = [[await anext(events) for _ in range(5)] for _ in range(3)]
            for run in runs:
                assert [event.event for event in run] == ["metadata", "values", "values", "values", "metadata"]
                run_id = run[0].data["run_id"]
                assert run[4].data == {"status": "run_done", "run_id": run_id}
                assert [len(event.data["log"]) for event in run[1:4]] == [runs.index(run) * 2 + n for n in range(3)]
            assert [runs[0][0].data["run_id"], runs[2][0].data["run_id"]] == run_ids


async def test_a_thread_stream_has_all_events_of_a_run_that_its_replica_joins_before_it_reads_of_it(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    with Cluster(postgres, tmp_path, replicas=1, workers=1) as cluster:
        thread_id = await new_thread(cluster)
        async with opened(cluster, "GET", f"/threads/{thread_id}/stream") as response, asyncio.timeout(BOUND_S):
            with without_notifications(cluster):
                async with cluster.client(0) as sdk:
                    run = await sdk.runs.create(thread_id, "steps", input={**values("n"), "steps": 20, "pause": 0.1})
                await asyncio.to_thread(cluster.wait_for, HAS_EVENTS, {"run_id": run["run_id"]})
                async with opened(cluster, "GET", f"/threads/{thread_id}/runs/{run['run_id']}/stream"):
                    pass
            events = frames(response)
            shown = [await anext(events) for _ in range(23)]
            assert [len(event.data["log"]) for event in shown[1:-1]] == list(range(21))
            assert shown[-1].data == {"status": "run_done", "run_id": run["run_id"]}


@contextmanager
def without_notifications(cluster: Cluster) -> Iterator[None]:
    """Stop the backends of PostgreSQL that send the processes their notifications; they send them afterwards."""
    pids = [pid for (pid,) in cluster.wait_for(LISTENING)]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


async def test_streams_have_all_events_of_a_run_that_was_created_after_the_mark_of_its_thread_had_expired(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    with Cluster(postgres, tmp_path, replicas=2, workers=1) as cluster:
        thread_id = await new_thread(cluster)
        async with opened(cluster, "GET", f"/threads/{thread_id}/stream") as response, asyncio.timeout(BOUND_S):
            postgres.execute("UPDATE threads SET followed_until = 1", url=cluster.database)
            cluster.workers[0].freeze()
            async with cluster.client(1) as sdk:
                run = await sdk.runs.create(thread_id, "steps", input=values("n"))
            async with cluster.client(0) as sdk:
                # The notification of the run precedes this read.
                await sdk.runs.list(thread_id)
            async with opened(cluster, "GET", f"/threads/{thread_id}/runs/{run['run_id']}/stream") as joined:
                cluster.workers[0].thaw()
                names = [event.event async for event in frames(joined)]
            assert names.count("values") == 3
            events = frames(response)
            assert [(await anext(events)).event for _ in range(5)] == ["metadata", *names[-3:], "metadata"]


async def test_a_protocol_stream_of_a_thread_that_does_not_exist_yet_misses_nothing_of_its_first_run(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    with Cluster(postgres, tmp_path, replicas=2, workers=1) as cluster:
        for is_created_before in (False, True):
            thread_id = str(uuid4())
            async with protocol_stream(cluster, thread_id) as response, asyncio.timeout(BOUND_S):
                if is_created_before:
                    await new_thread(cluster, thread_id)
                run_id = await run_while_frozen(cluster, thread_id)
                events = await until_ended(response)
                assert ends_run(events[-1], run_id)
                assert logs(events) == LOGS


async def test_the_response_of_a_protocol_stream_starts_when_new_runs_publish_to_it(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    with Cluster(postgres, tmp_path, replicas=2, workers=1) as cluster:
        thread_id = await new_thread(cluster)
        started = asyncio.Event()

        async def stream() -> list[Event]:
            async with protocol_stream(cluster, thread_id) as response:
                started.set()
                return await until_ended(response)

        with postgres.connect(cluster.database) as connection, connection.transaction():
            connection.execute("SELECT 1 FROM threads FOR UPDATE")
            streaming = asyncio.create_task(stream())
            await asyncio.to_thread(cluster.wait_for, WAITS_FOR_LOCK)
            assert not started.is_set()
        async with asyncio.timeout(BOUND_S):
            await started.wait()
            await run_while_frozen(cluster, thread_id)
            assert logs(await streaming) == LOGS


def protocol_stream(cluster: Cluster, thread_id: str) -> Any:
    channels = {"channels": ["values", "lifecycle"]}
    return opened(cluster, "POST", f"/threads/{thread_id}/stream/events", json=channels)


def logs(events: list[Event]) -> list[list[str]]:
    return [state["log"] for state in on(events, "values")]


async def until_ended(response: httpx.Response) -> list[Event]:
    """Return the events until the run ends."""
    events: list[Event] = []
    async for frame in frames(response):
        events.append(frame.data)
        if ends_run(frame.data):
            break
    return events
