"""Runs execute, wait their turn, are cancelled and deleted; nothing is lost on the way."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

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


async def test_waiting_for_a_run_that_has_ended_gives_the_same_answer(shared_bench: Bench) -> None:
    for graph_id in ("counter", "failing", "asking"):
        started = await shared_bench.engine.start_run(shared_bench.run(graph_id))
        live = await bounded(shared_bench.engine.wait_for_run(started.run))
        for read_before_or_after in (started.run, await stored(shared_bench, started.run)):
            assert loads(await shared_bench.engine.wait_for_run(read_before_or_after)) == loads(live)


async def test_uncompiled_graphs_and_factories_are_served(shared_bench: Bench) -> None:
    for graph_id in ("uncompiled", "factory"):
        assert (await bounded(shared_bench.result(shared_bench.run(graph_id))))["n"] == 4


@pytest.mark.parametrize(
    ("graph_id", "fields", "error"), [("counter", {"input": None}, "EmptyInputError"), ("gone", {}, "NotFound")]
)
async def test_a_run_that_cannot_start_ends_with_an_error(
    shared_bench: Bench, graph_id: str, fields: dict[str, Any], error: str
) -> None:
    body = await bounded(shared_bench.result(shared_bench.run(graph_id, **fields)))
    assert body["__error__"]["error"] == error


async def test_a_temporary_thread_is_gone_with_its_checkpoints(shared_bench: Bench) -> None:
    new = shared_bench.run("counter", temporary=True)
    assert (await bounded(shared_bench.result(new)))["n"] == 4
    with pytest.raises(NotFound):
        await shared_bench.persistence.threads.get(new.thread_id)
    assert await shared_bench.checkpoints(new.thread_id) == 0


async def test_enqueued_runs_of_a_thread_execute_one_at_a_time_in_order(bench: Bench) -> None:
    thread_id, gate = str(uuid4()), bench.gates["gated"]
    runs = [
        (await bench.engine.start_run(bench.run("gated", thread_id, input={"text": str(number)}))).run
        for number in range(4)
    ]
    await bounded(gate.reached.wait())
    gate.opened.set()
    answers = [await bounded(bench.engine.wait_for_run(run)) for run in runs]
    assert gate.most_inside == 1
    waited = [f"waited:{number}".encode() for number in range(4)]
    assert [[mark in answer for mark in waited] for answer in answers] == [
        [position <= number for position in range(4)] for number in range(4)
    ]


async def test_runs_of_different_threads_execute_side_by_side(bench: Bench) -> None:
    slow = await bench.run_at_gate()
    assert (await bounded(bench.result(bench.run("counter"))))["n"] == 4
    bench.gates["gated"].opened.set()
    await bounded(bench.engine.wait_for_run(slow))


async def test_cancelling_keeps_the_state_up_to_the_last_checkpoint(bench: Bench) -> None:
    started = await bench.engine.start_run(bench.run("gated"), listen=True)
    await bounded(bench.gates["gated"].reached.wait())
    await bounded(bench.engine.cancel_run(started.run.thread_id, started.run.run_id, "interrupt", wait=True))
    thread = await bench.persistence.threads.get(started.run.thread_id)
    assert (thread.status, thread.values) == ("interrupted", {"n": 2, "log": ["first"]})
    assert (await stored(bench, started.run)).status == "interrupted"
    assert started.events is not None
    assert {event.event async for batch in started.events.batches() for event in batch} == {"metadata", "values"}
    with pytest.raises(NotFound):
        await bench.engine.cancel_run(started.run.thread_id, started.run.run_id, "interrupt", wait=True)


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


async def test_many_threads_at_once_all_end(shared_bench: Bench) -> None:
    results = await bounded(asyncio.gather(*[shared_bench.result(shared_bench.run("counter")) for _ in range(60)]))
    assert [result["n"] for result in results] == [4] * 60
    assert shared_bench.engine.live_runs == {}


async def test_deleting_a_thread_ends_its_queued_and_delayed_runs_for_those_who_wait(bench: Bench) -> None:
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


async def test_what_starts_on_a_thread_while_it_is_deleted_goes_with_it(bench: Bench) -> None:
    obstinate, following = bench.gates["gated"], bench.gates["gated2"]
    stopping = asyncio.Event()

    async def finish_first() -> None:
        obstinate.reached.set()
        try:
            await obstinate.opened.wait()
        except asyncio.CancelledError:
            stopping.set()
            await obstinate.opened.wait()
            raise

    obstinate.pass_through = finish_first  # type: ignore[method-assign]
    thread_id = (await bench.engine.start_run(bench.run("gated"))).run.thread_id
    await bounded(obstinate.reached.wait())
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


async def test_a_rollback_promised_while_the_run_finishes_is_kept(bench: Bench) -> None:
    started = await bench.engine.start_run(bench.run("gated"))
    await bounded(bench.gates["gated"].reached.wait())
    # As far as a cancellation gets whose turn comes when the graph is through already.
    await bench.persistence.runs.request_cancel(started.run.run_id, "rollback")
    bench.gates["gated"].opened.set()
    with pytest.raises(NotFound):
        await bounded(started.result())
    assert await bench.persistence.runs.find(started.run.run_id) is None
    thread = await bench.persistence.threads.get(started.run.thread_id)
    assert (thread.status, thread.values) == ("idle", None)
    assert await bench.checkpoints(started.run.thread_id) == 0


async def test_a_later_interrupt_does_not_take_a_rollback_back(bench: Bench) -> None:
    run = await bench.run_at_gate()
    cancels = [
        bench.engine.cancel_run(run.thread_id, run.run_id, action, wait=True) for action in ("rollback", "interrupt")
    ]
    await bounded(asyncio.gather(*cancels, return_exceptions=True))
    assert await bench.persistence.runs.find(run.run_id) is None


async def test_a_run_whose_end_could_not_be_written_is_taken_up_when_the_database_takes_writes_again(
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


async def test_a_run_that_could_not_be_started_starts_when_the_database_takes_writes_again(bench: Bench) -> None:
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
