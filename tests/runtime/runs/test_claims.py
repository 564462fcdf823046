"""Requests that write a thread's checkpoints claim it; its runs wait, and each claim ends (R-01)."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from sqlalchemy import text

from tests.runtime.runs.conftest import Bench, ignore_cancellation, open_bench
from toolweave.errors import Conflict, NotFound, PersistenceError
from toolweave.runtime.codec import loads
from toolweave.runtime.models import ThreadTtl
from toolweave.runtime.persistence.checkpoints.sqlite_saver import SqliteRunSaver
from toolweave.runtime.persistence.database import SqliteDatabase
from toolweave.runtime.persistence.threads import ThreadClaim
from toolweave.runtime.runs.cleanup import prune_threads, sweep_expired

pytestmark = pytest.mark.requirement("R-01")
BOUND_S = 30


async def idle_thread(bench: Bench, ttl: ThreadTtl | None = None) -> str:
    thread_id = str(uuid4())
    await bench.persistence.threads.create(thread_id, ttl=ttl)
    return thread_id


def later(minutes: float) -> datetime:
    return datetime.now(UTC) + timedelta(minutes=minutes)


async def test_a_run_that_is_created_while_its_thread_is_claimed_starts_afterwards(bench: Bench) -> None:
    thread_id = await idle_thread(bench)
    async with bench.engine.claim_thread(thread_id):
        started = await bench.engine.start_run(bench.run("counter", thread_id))
        assert await bench.persistence.runs.claim(started.run.run_id) is None
        assert (await bench.persistence.runs.get(thread_id, started.run.run_id)).status == "pending"
    async with asyncio.timeout(BOUND_S):
        assert loads(await bench.engine.wait_for_run(started.run))["n"] == 4


async def test_a_request_that_is_cancelled_at_any_moment_releases_its_thread(bench: Bench) -> None:
    thread_id = await idle_thread(bench)

    async def hold() -> None:
        async with bench.engine.claim_thread(thread_id):
            await asyncio.sleep(0)

    for turns in range(30):
        holding = asyncio.ensure_future(hold())
        for _ in range(turns):
            await asyncio.sleep(0)
        holding.cancel()
        await asyncio.gather(holding, return_exceptions=True)
    async with asyncio.timeout(BOUND_S):
        run = bench.run("counter", thread_id)
        assert (await bench.result(run))["n"] == 4


async def test_a_claim_ends_with_its_process(tmp_path: Path) -> None:
    async with open_bench(tmp_path) as bench:
        thread_id = await idle_thread(bench)
        await bench.persistence.claims.acquire(ThreadClaim.new(thread_id))
        with pytest.raises(Conflict, match="is being changed by another request"):
            await bench.persistence.claims.acquire(ThreadClaim.new(thread_id))
    async with open_bench(tmp_path) as bench, bench.engine.claim_thread(thread_id):
        pass


async def test_deleting_a_thread_ends_a_claim_and_leaves_nothing(bench: Bench) -> None:
    thread_id = await idle_thread(bench)
    await bench.result(bench.run("counter", thread_id))
    async with bench.engine.claim_thread(thread_id) as claim:
        await bench.engine.delete_thread(thread_id)
        with pytest.raises(Conflict, match="changed or deleted by another request"):
            await bench.persistence.delete_history(claim)
    with pytest.raises(NotFound):
        await bench.persistence.threads.get(thread_id)
    assert await bench.checkpoints(thread_id) == 0


async def test_a_run_on_a_thread_that_expires_is_refused_until_the_thread_is_deleted(bench: Bench) -> None:
    thread_id = await idle_thread(bench, ThreadTtl(10))
    async with bench.engine.claim_thread(thread_id, expired_by=later(11), deleting=True) as claim:
        with pytest.raises(Conflict, match="is being deleted, so no run was created"):
            await bench.engine.start_run(bench.run("counter", thread_id))
        with pytest.raises(NotFound):
            await bench.persistence.threads.patch(thread_id, {}, ThreadTtl(500))
        await bench.engine.delete_claimed_thread(claim)
    assert (await bench.result(bench.run("counter", thread_id)))["log"] == ["first", "second"]


async def test_a_thread_that_a_request_holds_does_not_delay_the_expiry_of_others(bench: Bench) -> None:
    held, other = await idle_thread(bench, ThreadTtl(1)), await idle_thread(bench, ThreadTtl(2))
    async with bench.engine.claim_thread(held), asyncio.timeout(BOUND_S):
        assert await sweep_expired(bench.engine, later(10), 100) == 1
    with pytest.raises(NotFound):
        await bench.persistence.threads.get(other)
    assert await sweep_expired(bench.engine, later(10), 100) == 1


async def test_a_time_to_live_that_is_set_while_the_history_is_deleted_stays(bench: Bench) -> None:
    thread_id = await idle_thread(bench, ThreadTtl(10, "keep_latest"))
    async with bench.engine.claim_thread(thread_id, expired_by=later(11)):
        patched = await bench.persistence.threads.patch(thread_id, {}, ThreadTtl(500, "keep_latest"))
        await bench.persistence.threads.clear_expiry(thread_id, later(11))
    assert (await bench.persistence.threads.get(thread_id)).expires_at == patched.expires_at


async def test_of_several_deletions_of_a_thread_one_deletes_it_and_none_stops_the_others(bench: Bench) -> None:
    ids = [await idle_thread(bench) for _ in range(3)]
    deletions = [
        *(prune_threads(bench.engine, ids, "delete") for _ in range(3)),
        *(bench.engine.delete_thread(thread_id) for thread_id in ids),
    ]
    results = await asyncio.gather(*deletions, return_exceptions=True)
    assert [result for result in results if not isinstance(result, int | NotFound | None)] == []
    for thread_id in ids:
        with pytest.raises(NotFound):
            await bench.persistence.threads.get(thread_id)


async def test_a_run_that_could_not_be_stopped_is_ended_when_the_deletion_of_its_thread_fails(bench: Bench) -> None:
    bench.engine.retry_delay_s = 0.01
    gate = bench.gates["gated"]
    cancelled = ignore_cancellation(gate)
    thread_id = (started := await bench.engine.start_run(bench.run("gated"))).run.thread_id
    assert isinstance(bench.persistence.checkpointer, SqliteRunSaver)
    checkpoints = bench.persistence.checkpointer._database
    async with asyncio.timeout(BOUND_S):
        await gate.reached.wait()
        await execute(
            checkpoints,
            "CREATE TRIGGER refuse BEFORE DELETE ON checkpoints BEGIN INSERT INTO no_such_table VALUES (1); END",
        )
        with pytest.raises(PersistenceError):
            await bench.engine.delete_thread(thread_id)
        assert cancelled.is_set()
        gate.opened.set()
        await execute(checkpoints, "DROP TRIGGER refuse")
        with pytest.raises(NotFound):
            await started.result()
    async with bench.engine.claim_thread(thread_id):
        assert await bench.checkpoints(thread_id) == 0


async def test_no_run_starts_when_a_claim_ends_while_the_server_stops(tmp_path: Path) -> None:
    async with open_bench(tmp_path) as bench:
        thread_id = await idle_thread(bench)
        holding = bench.engine.claim_thread(thread_id)
        await holding.__aenter__()
        waiting = (await bench.engine.start_run(bench.run("counter", thread_id))).run
        await bench.engine.stop()
        await holding.__aexit__(None, None, None)
        await asyncio.gather(*bench.engine.tasks)
        assert (await bench.persistence.runs.get(thread_id, waiting.run_id)).attempt == 0
    async with open_bench(tmp_path) as bench, asyncio.timeout(BOUND_S):
        assert loads(await bench.engine.wait_for_run(waiting))["n"] == 4


async def execute(database: SqliteDatabase, statement: str) -> None:
    await database.write(lambda connection: connection.execute(text(statement)))
