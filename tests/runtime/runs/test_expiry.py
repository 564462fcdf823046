"""Expired threads, or their histories, are deleted, never under a run (langgraph_api.md 2.2)."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from tests.fixtures.logged import logged
from tests.runtime.runs.conftest import Bench
from toolweave.errors import Conflict, NotFound, PersistenceError
from toolweave.runtime.models import Thread, ThreadTtl
from toolweave.runtime.runs.cleanup import SweepOptions, prune_to_latest, run_expiry_sweep, sweep_expired

BOUND_S = 60.0
LIMIT = 100


def later(minutes: float) -> datetime:
    return datetime.now(UTC) + timedelta(minutes=minutes)


async def used_thread(bench: Bench, ttl: ThreadTtl | None = None) -> str:
    thread_id = str(uuid4())
    await bench.persistence.threads.create(thread_id, ttl=ttl)
    await bench.result(bench.run("counter", thread_id))
    return thread_id


async def thread(bench: Bench, thread_id: str) -> Thread | None:
    try:
        return await bench.persistence.threads.get(thread_id)
    except NotFound:
        return None


async def test_an_expired_thread_is_deleted_with_its_checkpoints_and_tool_results(shared_bench: Bench) -> None:
    doomed = await used_thread(shared_bench, ThreadTtl(10))
    staying = [await used_thread(shared_bench, ThreadTtl(30)), await used_thread(shared_bench)]
    store = shared_bench.persistence.store
    for thread_id in (doomed, staying[0]):
        await store.aput(("threads", thread_id, "tool_results"), "call", {"text": "long"})
    assert await sweep_expired(shared_bench.engine, later(9), LIMIT) == 0
    assert await sweep_expired(shared_bench.engine, later(11), LIMIT) == 1
    assert await thread(shared_bench, doomed) is None
    assert [item.namespace[1] for item in await store.asearch(("threads",))] == [staying[0]]
    assert await shared_bench.checkpoints(doomed) == 0
    assert [await shared_bench.checkpoints(thread_id) for thread_id in staying] == [4, 4]


async def test_keep_latest_deletes_only_the_history_and_once(shared_bench: Bench) -> None:
    thread_id = await used_thread(shared_bench, ThreadTtl(10, "keep_latest"))
    before = await thread(shared_bench, thread_id)
    assert before is not None
    assert before.expires_at == before.state_updated_at + timedelta(minutes=10)

    assert await sweep_expired(shared_bench.engine, later(11), LIMIT) == 1

    after = await thread(shared_bench, thread_id)
    assert after is not None
    assert (after.values, after.ttl, after.expires_at) == (before.values, ThreadTtl(10, "keep_latest"), None)
    assert await shared_bench.checkpoints(thread_id) == 1
    assert await sweep_expired(shared_bench.engine, later(20), LIMIT) == 0
    assert (await shared_bench.result(shared_bench.run("counter", thread_id)))["log"][:2] == ["first", "second"]
    assert await shared_bench.checkpoints(thread_id) > 1
    assert await sweep_expired(shared_bench.engine, later(11), LIMIT) == 1


async def test_the_end_of_a_run_and_a_written_state_restart_the_time_to_live(shared_bench: Bench) -> None:
    thread_id = str(uuid4())
    made = await shared_bench.persistence.threads.create(thread_id, ttl=ThreadTtl(10))
    await shared_bench.result(shared_bench.run("failing", thread_id))
    failed = await thread(shared_bench, thread_id)
    await shared_bench.persistence.threads.set_state(thread_id, b"{}", "idle", {})
    written = await thread(shared_bench, thread_id)
    assert failed is not None
    assert written is not None
    expiries = [str(thread.expires_at) for thread in (made, failed, written)]
    assert expiries == sorted(set(expiries))
    assert written.expires_at == written.state_updated_at + timedelta(minutes=10)
    assert (await shared_bench.persistence.threads.patch(thread_id, {"a": 1})).expires_at == written.expires_at


async def test_a_thread_in_use_stays_however_long_that_takes(bench: Bench) -> None:
    busy, queued = str(uuid4()), str(uuid4())
    for thread_id, strategy in ((busy, "delete"), (queued, "keep_latest")):
        await bench.persistence.threads.create(thread_id, ttl=ThreadTtl(0, strategy))  # type: ignore[arg-type]
    started = await bench.engine.start_run(bench.run("gated", busy))
    await bench.engine.start_run(bench.run("counter", queued, not_before=later(60)))
    await bench.gates["gated"].reached.wait()
    assert await sweep_expired(bench.engine, later(99), LIMIT) == 0
    bench.gates["gated"].opened.set()
    assert b"waited" in await started.result()
    assert await sweep_expired(bench.engine, later(99), LIMIT) == 1
    assert await thread(bench, queued) is not None


async def test_a_thread_that_is_used_before_the_sweep_claims_it_stays(bench: Bench) -> None:
    thread_id = await used_thread(bench, ThreadTtl(0))
    threads = bench.persistence.threads
    assert [found.thread_id for found in await threads.list_expired(later(1), LIMIT)] == [thread_id]
    await bench.engine.start_run(bench.run("gated", thread_id))
    with pytest.raises(Conflict, match="has in-flight runs"):
        async with bench.engine.claim_thread(thread_id, expired_by=later(1)):
            pytest.fail("claimed")
    assert not await prune_to_latest(bench.engine, thread_id)


async def test_a_thread_that_expires_later_is_not_claimed_as_expired(bench: Bench) -> None:
    thread_id = await used_thread(bench, ThreadTtl(5))
    with pytest.raises(Conflict, match="Try again"):
        async with bench.engine.claim_thread(thread_id, expired_by=later(4)):
            pytest.fail("claimed")
    async with bench.engine.claim_thread(thread_id, expired_by=later(6)):
        pass


async def test_a_sweep_stops_at_its_limit(bench: Bench) -> None:
    for _ in range(5):
        await bench.persistence.threads.create(str(uuid4()), ttl=ThreadTtl(0))
    assert [await sweep_expired(bench.engine, later(1), 2) for _ in range(4)] == [2, 2, 1, 0]


async def test_the_sweeper_continues_after_a_failure_and_ends_the_streams_of_deleted_threads(bench: Bench) -> None:
    thread_id = str(uuid4())
    await bench.persistence.threads.create(thread_id, ttl=ThreadTtl(0))
    moments: Iterator[PersistenceError | datetime] = iter([PersistenceError("the disk is full"), later(-1), later(1)])

    def clock() -> datetime:
        moment = next(moments, later(1))
        if isinstance(moment, PersistenceError):
            raise moment
        return moment

    with logged("INFO") as lines:
        newer_log = bench.engine.runtime.publishers.log
        async with newer_log.listen(thread_id, lambda _event: True) as newer:
            follower = bench.engine.follow_thread(thread_id, frozenset({"run_modes"}))
            async with asyncio.timeout(BOUND_S), run_expiry_sweep(bench.engine, SweepOptions(timedelta(0)), clock):
                assert [batch async for batch in follower.batches()] == []
                assert [batch async for batch in newer.batches()] == []
    assert "expired threads could not be cleared: the disk is full" in lines
    assert await thread(bench, thread_id) is None
