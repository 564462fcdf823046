"""Runs are stored with their threads, and recovered after a crash (langgraph_api.md 5.1, run_engine.md 5).

`test_run_queue.py` tests the order of runs, their cancellation and deletion.
"""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.persistence.records import MOMENT, SUCCESS, new_run
from toolweave.encryption import data_folder_cipher
from toolweave.errors import Conflict, NotFound
from toolweave.runtime.models import Outcome, Run
from toolweave.runtime.persistence.data_folder import Persistence, open_persistence
from toolweave.runtime.persistence.runs import RunEnd, RunRepository

IN_A_CENTURY = MOMENT + timedelta(days=36500)


@pytest.fixture
def runs(persistence: Persistence) -> RunRepository:
    return persistence.runs


async def created(runs: RunRepository, thread_id: str, **fields: Any) -> Run:
    return (await runs.create_run(new_run(thread_id, **fields))).run


async def running(runs: RunRepository, thread_id: str, **fields: Any) -> Run:
    run = await runs.claim((await created(runs, thread_id, **fields)).run_id)
    assert run is not None
    return run


async def test_a_created_run_is_stored_as_it_was_described(runs: RunRepository) -> None:
    huge = {"n": 10**40, "text": "\ud800é", "nested": [{"": None}]}
    run = await created(runs, "t", metadata=huge, kwargs={"input": huge}, not_before=IN_A_CENTURY)
    assert (run.metadata, run.kwargs, run.not_before) == (huge, {"input": huge}, IN_A_CENTURY)
    assert await runs.get("t", run.run_id) == await runs.find(run.run_id) == run


async def test_a_run_stores_its_graph_and_assistant_in_its_thread(persistence: Persistence) -> None:
    await persistence.threads.create("existing", {"user": "u", "graph_id": "other"})
    await created(persistence.runs, "existing")
    await created(persistence.runs, "new", thread_metadata={"x": 1})
    existing, new = [await persistence.threads.get(thread_id) for thread_id in ("existing", "new")]
    assert existing.metadata == {"user": "u", "graph_id": "graph", "assistant_id": "assistant"}
    assert new.metadata == {"x": 1, "graph_id": "graph", "assistant_id": "assistant"}


async def test_a_second_run_of_the_same_id_is_refused_and_creates_no_thread(persistence: Persistence) -> None:
    first = await created(persistence.runs, "t")
    with pytest.raises(Conflict, match="already exists"):
        await created(persistence.runs, "elsewhere", run_id=first.run_id)
    with pytest.raises(NotFound):
        await persistence.threads.get("elsewhere")


async def test_a_failed_run_leaves_its_error_and_the_old_values(persistence: Persistence) -> None:
    first = await running(persistence.runs, "t")
    await persistence.runs.finalise(RunEnd(first.run_id, 1, SUCCESS))
    second = await running(persistence.runs, "t")
    error = {"error": "ValueError", "message": "kaboom"}
    await persistence.runs.finalise(RunEnd(second.run_id, 1, Outcome("error", "error", error=error)))
    thread = await persistence.threads.get("t")
    assert (thread.status, thread.values, thread.interrupts, thread.error) == ("error", {"n": 1}, {}, error)


async def test_the_end_of_a_run_whose_thread_was_deleted_changes_nothing(persistence: Persistence) -> None:
    run = await running(persistence.runs, "t")
    await persistence.threads.delete("t")

    assert await persistence.runs.finalise(RunEnd(run.run_id, 1, SUCCESS)) is None
    with pytest.raises(NotFound):
        await persistence.threads.get("t")


async def test_cancelling_a_pending_temporary_run_deletes_its_thread(persistence: Persistence) -> None:
    run = await created(persistence.runs, "t", temporary=True)
    await persistence.runs.request_cancel(run.run_id, "interrupt")
    with pytest.raises(NotFound):
        await persistence.threads.get("t")


async def test_an_interrupted_thread_is_interrupted_again_after_its_pending_run_was_cancelled(
    persistence: Persistence,
) -> None:
    first = await running(persistence.runs, "t")
    interrupts = {"task": [{"id": "i", "value": "ok?"}]}
    await persistence.runs.finalise(RunEnd(first.run_id, 1, Outcome("success", "interrupted", b"{}", interrupts)))
    second = await created(persistence.runs, "t")

    await persistence.runs.request_cancel(second.run_id, "interrupt")

    thread = await persistence.threads.get("t")
    assert (thread.status, thread.interrupts) == ("interrupted", interrupts)


async def test_a_requested_rollback_is_not_weakened_to_an_interrupt(runs: RunRepository) -> None:
    run = await running(runs, "t")
    await runs.request_cancel(run.run_id, "rollback")

    await created(runs, "t", multitask_strategy="interrupt")
    await runs.request_cancel(run.run_id, "interrupt")

    assert (await runs.get("t", run.run_id)).cancel == "rollback"


async def test_an_older_run_that_becomes_due_starts_only_after_the_running_one(tmp_path: Path) -> None:
    now = [MOMENT]
    async with open_persistence(tmp_path) as persistence:
        runs = RunRepository(persistence.app, lambda: now[0], cipher=data_folder_cipher(tmp_path, None))
        delayed = await created(runs, "t", not_before=MOMENT + timedelta(seconds=5))
        prompt = await running(runs, "t")

        now[0] += timedelta(seconds=6)

        assert await runs.claim(delayed.run_id) is None
        assert await runs.finalise(RunEnd(prompt.run_id, 1, SUCCESS)) == delayed.run_id
        assert await runs.claim(delayed.run_id) is not None


@pytest.mark.requirement("S-05")
async def test_runs_of_a_process_that_is_gone_are_pending_again_with_their_attempt_and_cancellation(
    tmp_path: Path,
) -> None:
    async with open_persistence(tmp_path) as persistence:
        interrupted = await running(persistence.runs, "a")
        behind = await created(persistence.runs, "a")
        waiting = await created(persistence.runs, "b")
        later = await created(persistence.runs, "c", not_before=IN_A_CENTURY)
        cancelled = await running(persistence.runs, "d")
        await persistence.runs.request_cancel(cancelled.run_id, "rollback")

    async with open_persistence(tmp_path) as persistence:
        runs = persistence.runs
        assert await runs.recover() == [interrupted.run_id, waiting.run_id, cancelled.run_id]
        assert await runs.list_delayed() == [(later.run_id, IN_A_CENTURY)]
        assert (await persistence.threads.get("a")).status == "busy"
        assert await runs.claim(behind.run_id) is None
        again, to_cancel = await runs.claim(interrupted.run_id), await runs.claim(cancelled.run_id)
        assert again is not None
        assert to_cancel is not None
        assert (again.attempt, to_cancel.cancel) == (2, "rollback")
        with pytest.raises(Conflict, match=f"Attempt 1 of run {again.run_id} is over: it is running, attempt 2"):
            await runs.finalise(RunEnd(interrupted.run_id, 1, SUCCESS))
        assert await runs.finalise(RunEnd(interrupted.run_id, 2, SUCCESS)) == behind.run_id
