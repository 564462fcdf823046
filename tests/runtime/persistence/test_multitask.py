"""A run that comes while its thread is busy waits, is refused, or takes over (langgraph_api.md 5.7, 5.8, 5.9)."""

from datetime import timedelta
from typing import Any

import pytest

from tests.runtime.persistence.records import MOMENT, SUCCESS, new_run
from toolweave.errors import Conflict, NotFound
from toolweave.runtime.models import CancelAction, CreatedRun, Outcome
from toolweave.runtime.persistence.data_folder import Persistence
from toolweave.runtime.persistence.runs import RunRepository

ROLLED_BACK = Outcome("interrupted", "idle", b"null", rolled_back=True)


@pytest.fixture
def runs(persistence: Persistence) -> RunRepository:
    return persistence.runs


async def created(runs: RunRepository, **fields: Any) -> CreatedRun:
    return await runs.create_run(new_run("t", **fields))


async def statuses(runs: RunRepository) -> list[str]:
    """The statuses of the thread's runs, oldest first."""
    return [run.status for run in reversed(await runs.list("t"))]


@pytest.mark.parametrize("claimed", [True, False])
async def test_reject_refuses_a_run_on_a_busy_thread_and_changes_nothing(
    persistence: Persistence, claimed: bool
) -> None:
    first = await created(persistence.runs)
    if claimed:
        await persistence.runs.claim(first.run.run_id)
    before = await persistence.threads.get("t")

    text = r"^Thread is already running a task\. Wait for it to finish or choose a different multitask strategy\.$"
    with pytest.raises(Conflict, match=text):
        await created(persistence.runs, multitask_strategy="reject", graph_id="other")

    assert await persistence.threads.get("t") == before
    assert len(await persistence.runs.list("t")) == 1


async def test_reject_takes_a_run_on_a_free_thread(runs: RunRepository) -> None:
    first = await created(runs, multitask_strategy="reject")
    await runs.claim(first.run.run_id)
    await runs.finalise(first.run.run_id, 1, SUCCESS)

    assert (await created(runs, multitask_strategy="reject")).is_due


async def test_a_delayed_run_counts_as_busy(runs: RunRepository) -> None:
    await created(runs, not_before=MOMENT + timedelta(days=36500))

    with pytest.raises(Conflict):
        await created(runs, multitask_strategy="reject")


async def test_interrupt_ends_pending_runs_at_once_and_marks_the_running_one(runs: RunRepository) -> None:
    first, second = await created(runs), await created(runs)
    await runs.claim(first.run.run_id)

    third = await created(runs, multitask_strategy="interrupt")

    assert third.superseded_runs == ((first.run.run_id, "interrupt"), (second.run.run_id, "interrupt"))
    assert not third.is_due
    assert await statuses(runs) == ["running", "interrupted", "pending"]
    assert (await runs.get("t", first.run.run_id)).cancel == "interrupt"
    assert await runs.claim(third.run.run_id) is None

    assert await runs.finalise(first.run.run_id, 1, Outcome("interrupted", "interrupted")) == third.run.run_id
    assert await runs.claim(third.run.run_id) is not None


async def test_rollback_deletes_pending_runs_at_once_and_the_running_one_when_it_stopped(runs: RunRepository) -> None:
    first, second = await created(runs), await created(runs)
    await runs.claim(first.run.run_id)

    third = await created(runs, multitask_strategy="rollback")

    assert third.superseded_runs == ((first.run.run_id, "rollback"), (second.run.run_id, "rollback"))
    assert await statuses(runs) == ["running", "pending"]
    assert await runs.finalise(first.run.run_id, 1, ROLLED_BACK) == third.run.run_id
    assert await runs.find(first.run.run_id) is None
    assert await statuses(runs) == ["pending"]


@pytest.mark.parametrize("strategy", ["interrupt", "rollback"])
async def test_a_run_that_supersedes_only_pending_ones_is_due_at_once(runs: RunRepository, strategy: str) -> None:
    await created(runs)
    await created(runs, not_before=MOMENT + timedelta(days=36500))

    assert (await created(runs, multitask_strategy=strategy)).is_due


async def test_a_rollback_that_was_asked_for_is_not_weakened_to_an_interrupt(runs: RunRepository) -> None:
    first = await created(runs)
    await runs.claim(first.run.run_id)

    await created(runs, multitask_strategy="rollback")
    await created(runs, multitask_strategy="interrupt")
    assert (await runs.get("t", first.run.run_id)).cancel == "rollback"

    await runs.request_cancel(first.run.run_id, "interrupt")
    assert (await runs.get("t", first.run.run_id)).cancel == "rollback"


async def test_cancelling_a_running_run_marks_it_and_leaves_its_end_to_the_one_who_executes_it(
    runs: RunRepository,
) -> None:
    run = (await created(runs)).run
    await runs.claim(run.run_id)

    await runs.request_cancel(run.run_id, "interrupt")

    cancelled = await runs.get("t", run.run_id)
    assert (cancelled.status, cancelled.cancel) == ("running", "interrupt")
    await runs.finalise(run.run_id, 1, Outcome("interrupted", "interrupted", b"{}"))
    with pytest.raises(NotFound, match="No runs found to cancel"):
        await runs.request_cancel(run.run_id, "interrupt")


@pytest.mark.parametrize(("action", "kept"), [("interrupt", True), ("rollback", False)])
async def test_cancelling_a_pending_run_ends_it_and_frees_its_thread(
    persistence: Persistence, action: CancelAction, kept: bool
) -> None:
    run = (await created(persistence.runs)).run

    await persistence.runs.request_cancel(run.run_id, action)

    cancelled = await persistence.runs.find(run.run_id)
    assert (cancelled and (cancelled.status, cancelled.cancel)) == (("interrupted", action) if kept else None)
    thread = await persistence.threads.get("t")
    assert (thread.status, thread.interrupts, thread.error) == ("idle", None, None)


async def test_cancelling_the_first_of_two_pending_runs_lets_the_second_start(persistence: Persistence) -> None:
    runs = persistence.runs
    first, second = await created(runs), await created(runs)
    assert await runs.find_startable("t") == first.run.run_id

    await runs.request_cancel(first.run.run_id, "interrupt")

    assert await runs.find_startable("t") == second.run.run_id
    assert (await persistence.threads.get("t")).status == "busy"


async def test_a_thread_that_waits_for_a_human_does_so_again_after_its_pending_run_was_cancelled(
    persistence: Persistence,
) -> None:
    runs = persistence.runs
    first = (await created(runs)).run
    await runs.claim(first.run_id)
    waiting = {"task": [{"id": "i", "value": "ok?"}]}
    await runs.finalise(first.run_id, 1, Outcome("success", "interrupted", b"{}", waiting))

    second = (await created(runs)).run
    assert (await persistence.threads.get("t")).status == "busy"
    await runs.request_cancel(second.run_id, "interrupt")

    thread = await persistence.threads.get("t")
    assert (thread.status, thread.interrupts) == ("interrupted", waiting)


async def test_cancelling_a_pending_temporary_run_takes_its_thread_along(persistence: Persistence) -> None:
    run = (await created(persistence.runs, temporary=True)).run

    await persistence.runs.request_cancel(run.run_id, "interrupt")

    with pytest.raises(NotFound):
        await persistence.threads.get("t")


@pytest.mark.parametrize("claimed", [True, False])
async def test_deleting_the_only_active_run_frees_its_thread(persistence: Persistence, claimed: bool) -> None:
    runs = persistence.runs
    run = (await created(runs)).run
    if claimed:
        await runs.claim(run.run_id)

    await runs.delete("t", run.run_id)

    assert (await persistence.threads.get("t")).status == "idle"
    assert await runs.find(run.run_id) is None
    assert await runs.find_startable("t") is None


async def test_deleting_a_running_run_lets_the_next_one_start(runs: RunRepository) -> None:
    first, second = await created(runs), await created(runs)
    await runs.claim(first.run.run_id)

    await runs.delete("t", first.run.run_id)

    assert await runs.find_startable("t") == second.run.run_id
    assert await runs.finalise(first.run.run_id, 1, SUCCESS) is None


async def test_deleting_an_ended_run_leaves_the_thread_as_it_is(persistence: Persistence) -> None:
    run = (await created(persistence.runs)).run
    await persistence.runs.claim(run.run_id)
    await persistence.runs.finalise(run.run_id, 1, Outcome("error", "error", error={"error": "E", "message": "m"}))
    before = await persistence.threads.get("t")

    await persistence.runs.delete("t", run.run_id)

    assert await persistence.threads.get("t") == before
