"""Runs are cancelled and deleted at any moment, and end although the database cannot be written for a while."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import text

from tests.runtime.runs.conftest import Bench, ignore_cancellation
from toolweave.errors import NotFound, PersistenceError
from toolweave.runtime.codec import loads
from toolweave.runtime.models import Run


async def bounded(awaitable: Any) -> Any:
    async with asyncio.timeout(60):
        return await awaitable


async def stored(bench: Bench, run: Run) -> Run:
    return await bench.persistence.runs.get(run.thread_id, run.run_id)


@pytest.mark.parametrize("action", ["interrupt", "rollback"])
async def test_cancelling_a_pending_run_lets_the_ones_after_it_run(bench: Bench, action: Any) -> None:
    first = await bench.engine.start_run(bench.run("gated"))
    second = await bench.engine.start_run(bench.run("gated2", first.run.thread_id), listen=True)
    third = await bench.engine.start_run(bench.run("counter", first.run.thread_id))
    await bounded(bench.gates["gated"].reached.wait())
    await bench.engine.cancel_run(second.run.thread_id, second.run.run_id, action, wait=True)
    assert second.events is not None
    assert [event async for batch in second.events.batches() for event in batch] == []
    bench.gates["gated"].opened.set()
    assert b"second" in await bounded(bench.engine.wait_for_run(third.run))
    assert not bench.gates["gated2"].reached.is_set()


async def test_deleting_the_last_run_shows_the_state_before_it(shared_bench: Bench) -> None:
    bench = shared_bench
    first = bench.run("asking", input={"text": "ok?"})
    await bounded(bench.result(first))
    second = bench.run("asking", first.thread_id, input=None, command={"resume": "yes"})
    await bounded(bench.result(second))
    await bench.engine.delete_run(first.thread_id, second.run_id)
    thread = await bench.persistence.threads.get(first.thread_id)
    assert (thread.status, thread.values) == ("interrupted", {"text": "ok?", "log": []})
    assert len(thread.interrupts or {}) == 1


async def test_deleting_a_thread_ends_its_queued_and_delayed_runs_for_their_waiters(bench: Bench) -> None:
    running = await bench.run_at_gate()
    queued = await bench.engine.start_run(bench.run("counter", running.thread_id))
    later = bench.run("counter", running.thread_id, not_before=datetime.now(UTC) + timedelta(hours=1))
    delayed = await bench.engine.start_run(later)
    async with asyncio.timeout(60):
        await bench.engine.delete_thread(running.thread_id)
        for started in (queued, delayed):
            with pytest.raises(NotFound):
                await started.result()
    assert (bench.gates["gated"].inside, bench.engine.live_runs) == (0, {})


async def test_a_run_that_starts_while_its_thread_is_deleted_is_deleted_too(bench: Bench) -> None:
    obstinate, following = bench.gates["gated"], bench.gates["gated2"]
    stopping = ignore_cancellation(obstinate)
    thread_id = (await bench.run_at_gate()).thread_id
    deleting = asyncio.create_task(bench.engine.delete_thread(thread_id))
    await bounded(stopping.wait())
    second = await bench.engine.start_run(bench.run("gated2", thread_id))
    obstinate.opened.set()
    await bounded(deleting)
    with pytest.raises(NotFound):
        await second.result()
    await bounded(asyncio.gather(*bench.engine.tasks, return_exceptions=True))
    assert (following.inside, bench.engine.live_runs) == (0, {})
    assert await bench.checkpoints(thread_id) == 0


async def test_a_graph_that_outlasts_its_deleted_thread_leaves_nothing(bench: Bench) -> None:
    gate = bench.gates["gated"]
    cancelled = ignore_cancellation(gate)
    thread_id = (await bench.run_at_gate()).thread_id
    await bounded(bench.engine.delete_thread(thread_id))
    assert cancelled.is_set()
    gate.opened.set()
    await bounded(asyncio.gather(*bench.engine.tasks, return_exceptions=True))
    assert await bench.checkpoints(thread_id) == 0


async def test_a_rollback_that_is_requested_while_the_run_finishes_is_executed(bench: Bench) -> None:
    started = await bench.engine.start_run(bench.run("gated"))
    await bounded(bench.gates["gated"].reached.wait())
    # The part of a cancellation that is executed when the graph has finished already.
    await bench.persistence.runs.request_cancel(started.run.run_id, "rollback")
    bench.gates["gated"].opened.set()
    with pytest.raises(NotFound):
        await bounded(started.result())
    assert await bench.persistence.runs.find(started.run.run_id) is None
    thread = await bench.persistence.threads.get(started.run.thread_id)
    assert (thread.status, thread.values) == ("idle", None)
    assert await bench.checkpoints(started.run.thread_id) == 0


async def test_a_later_interrupt_does_not_weaken_a_rollback(bench: Bench) -> None:
    run = await bench.run_at_gate()
    cancels = [
        bench.engine.cancel_run(run.thread_id, run.run_id, action, wait=True) for action in ("rollback", "interrupt")
    ]
    await bounded(asyncio.gather(*cancels, return_exceptions=True))
    assert await bench.persistence.runs.find(run.run_id) is None


async def test_a_run_whose_end_could_not_be_stored_is_executed_when_the_database_can_be_written_again(
    bench: Bench,
) -> None:
    bench.engine.retry_delay_s = 0.01
    started = await bench.engine.start_run(bench.run("gated"))
    await bounded(bench.gates["gated"].reached.wait())
    await execute(
        bench,
        "CREATE TRIGGER refuse BEFORE UPDATE ON runs WHEN NEW.status = 'success' BEGIN SELECT RAISE(ABORT, 'no'); END",
    )
    bench.gates["gated"].opened.set()
    with pytest.raises(PersistenceError):
        await bounded(started.result())
    joined = asyncio.create_task(bench.engine.wait_for_run(started.run))
    await execute(bench, "DROP TRIGGER refuse")
    assert loads(await bounded(joined))["log"] == ["first", "waited:", "second"]
    assert (await stored(bench, started.run)).status == "success"
    assert (await bench.persistence.threads.get(started.run.thread_id)).status == "idle"


async def test_a_run_that_could_not_be_started_starts_when_the_database_can_be_written_again(bench: Bench) -> None:
    bench.engine.retry_delay_s = 0.01
    await execute(
        bench,
        "CREATE TRIGGER refuse BEFORE UPDATE ON runs WHEN NEW.status = 'running' BEGIN "
        "INSERT INTO no_such_table VALUES (1); END",
    )
    started = await bench.engine.start_run(bench.run("counter"))
    with pytest.raises(PersistenceError):
        await bench.persistence.runs.claim(started.run.run_id)
    await execute(bench, "DROP TRIGGER refuse")
    assert loads(await bounded(started.result()))["log"] == ["first", "second"]


async def execute(bench: Bench, statement: str) -> None:
    await bench.persistence.app.write(lambda connection: connection.execute(text(statement)))
