"""Runs go from pending over running to their end, one at a time per thread (langgraph_api.md 5.1, run_engine.md 5)."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.persistence.records import MOMENT, SUCCESS, new_run
from toolweave.encryption import data_folder_cipher
from toolweave.errors import Conflict, InvalidRequest, NotFound
from toolweave.runtime.models import Outcome, Run
from toolweave.runtime.persistence.data_folder import Persistence, open_persistence
from toolweave.runtime.persistence.runs import RunRepository

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
    new = new_run("t", metadata=huge, kwargs={"input": huge}, not_before=IN_A_CENTURY)

    made = await runs.create_run(new)

    assert made.run == Run(
        run_id=new.run_id,
        thread_id="t",
        assistant_id="assistant",
        graph_id="graph",
        status="pending",
        metadata=huge,
        kwargs={"input": huge},
        multitask_strategy="enqueue",
        created_at=MOMENT,
        updated_at=MOMENT,
        not_before=IN_A_CENTURY,
        attempt=0,
        cancel=None,
    )
    assert await runs.get("t", new.run_id) == made.run
    assert await runs.find(new.run_id) == made.run


async def test_creating_a_run_makes_its_thread_busy_and_names_graph_and_assistant(persistence: Persistence) -> None:
    await persistence.threads.create("t", {"user": "u", "graph_id": "other"})

    await created(persistence.runs, "t", thread_config={"recursion_limit": 3})

    thread = await persistence.threads.get("t")
    assert thread.status == "busy"
    assert thread.metadata == {"user": "u", "graph_id": "graph", "assistant_id": "assistant"}
    assert thread.config == {"recursion_limit": 3, "configurable": {}}
    assert thread.values is None


async def test_a_run_creates_its_thread_with_the_metadata_it_was_given(persistence: Persistence) -> None:
    await created(persistence.runs, "t", thread_metadata={"x": 1})

    thread = await persistence.threads.get("t")
    assert thread.metadata == {"graph_id": "graph", "assistant_id": "assistant", "x": 1}
    assert (thread.status, thread.created_at) == ("busy", MOMENT)


async def test_a_run_on_an_unknown_thread_is_refused_unless_it_may_create_it(runs: RunRepository) -> None:
    with pytest.raises(NotFound, match=r"^Thread or assistant not found\.$"):
        await created(runs, "t", if_not_exists="reject")


async def test_a_second_run_of_the_same_id_is_refused_and_changes_nothing(persistence: Persistence) -> None:
    first = await created(persistence.runs, "t")

    with pytest.raises(Conflict, match="already exists"):
        await created(persistence.runs, "elsewhere", run_id=first.run_id)

    with pytest.raises(NotFound):
        await persistence.threads.get("elsewhere")


async def test_what_is_not_json_is_refused_and_creates_no_thread(persistence: Persistence) -> None:
    with pytest.raises(InvalidRequest):
        await created(persistence.runs, "t", kwargs={"input": object()})
    with pytest.raises(NotFound):
        await persistence.threads.get("t")


async def test_claiming_counts_the_attempt_and_happens_once(runs: RunRepository) -> None:
    run = await created(runs, "t")

    claimed = await runs.claim(run.run_id)

    assert claimed is not None
    assert (claimed.status, claimed.attempt) == ("running", 1)
    assert await runs.claim(run.run_id) is None
    assert await runs.claim("nobody") is None


async def test_runs_of_a_thread_start_one_after_the_other_in_their_order(runs: RunRepository) -> None:
    first, second, third = [await created(runs, "t") for _ in range(3)]

    assert await runs.claim(second.run_id) is None
    assert await runs.claim(first.run_id) is not None
    assert await runs.claim(second.run_id) is None
    assert await runs.finalise(first.run_id, 1, SUCCESS) == second.run_id
    assert await runs.claim(third.run_id) is None
    assert await runs.claim(second.run_id) is not None
    assert await runs.finalise(second.run_id, 1, SUCCESS) == third.run_id


async def test_only_the_first_run_of_a_free_thread_is_due_at_once(runs: RunRepository) -> None:
    assert [(await runs.create_run(new_run("t"))).is_due for _ in range(2)] == [True, False]
    assert (await runs.create_run(new_run("other"))).is_due


async def test_finalising_settles_run_and_thread(persistence: Persistence) -> None:
    run = await running(persistence.runs, "t")
    waiting = {"task": [{"id": "i", "value": {"question": "ok?"}}]}
    outcome = Outcome("success", "interrupted", b'{"n":2}', waiting)

    assert await persistence.runs.finalise(run.run_id, 1, outcome) is None

    thread = await persistence.threads.get("t")
    assert (thread.status, thread.values, thread.interrupts, thread.error) == ("interrupted", {"n": 2}, waiting, None)
    assert thread.state_updated_at == thread.updated_at > thread.created_at
    ended = await persistence.runs.get("t", run.run_id)
    assert (ended.status, ended.attempt) == ("success", 1)


async def test_a_failed_run_leaves_its_error_and_the_old_values(persistence: Persistence) -> None:
    first = await running(persistence.runs, "t")
    await persistence.runs.finalise(first.run_id, 1, SUCCESS)
    second = await running(persistence.runs, "t")
    error = {"error": "ValueError", "message": "kaboom"}

    await persistence.runs.finalise(second.run_id, 1, Outcome("error", "error", error=error))

    thread = await persistence.threads.get("t")
    assert (thread.status, thread.values, thread.interrupts, thread.error) == ("error", {"n": 1}, {}, error)


async def test_null_values_empty_the_thread(persistence: Persistence) -> None:
    run = await running(persistence.runs, "t")
    await persistence.runs.finalise(run.run_id, 1, SUCCESS)
    run = await running(persistence.runs, "t")

    await persistence.runs.finalise(run.run_id, 1, Outcome("interrupted", "idle", b"null", rolled_back=True))

    assert (await persistence.threads.get("t")).values is None
    assert await persistence.threads.search(values={"n": 1}) == []
    with pytest.raises(NotFound, match=r"^Not Found$"):
        await persistence.runs.get("t", run.run_id)


async def test_a_thread_stays_busy_while_another_run_is_pending(persistence: Persistence) -> None:
    first = await running(persistence.runs, "t")
    second = await created(persistence.runs, "t")

    await persistence.runs.finalise(first.run_id, 1, SUCCESS)
    assert (await persistence.threads.get("t")).status == "busy"

    await persistence.runs.claim(second.run_id)
    await persistence.runs.finalise(second.run_id, 1, SUCCESS)
    assert (await persistence.threads.get("t")).status == "idle"


@pytest.mark.parametrize("attempt", [0, 2])
async def test_only_the_attempt_that_executes_a_run_may_finalise_it(runs: RunRepository, attempt: int) -> None:
    run = await running(runs, "t")

    with pytest.raises(Conflict, match=f"Attempt {attempt} of run {run.run_id} is over: it is running, attempt 1"):
        await runs.finalise(run.run_id, attempt, SUCCESS)

    assert (await runs.get("t", run.run_id)).status == "running"


async def test_a_run_is_finalised_once(runs: RunRepository) -> None:
    run = await running(runs, "t")
    await runs.finalise(run.run_id, 1, SUCCESS)

    with pytest.raises(Conflict, match="it is success"):
        await runs.finalise(run.run_id, 1, Outcome("error", "error"))


async def test_finalising_a_run_whose_thread_was_deleted_is_quiet(persistence: Persistence) -> None:
    run = await running(persistence.runs, "t")
    await persistence.threads.delete("t")

    assert await persistence.runs.finalise(run.run_id, 1, SUCCESS) is None

    with pytest.raises(NotFound):
        await persistence.threads.get("t")


async def test_a_temporary_run_takes_its_thread_along_when_it_ends(persistence: Persistence) -> None:
    run = await running(persistence.runs, "t", temporary=True)
    assert (await persistence.threads.get("t")).status == "busy"

    assert await persistence.runs.finalise(run.run_id, 1, SUCCESS) is None

    assert await persistence.runs.find(run.run_id) is None
    with pytest.raises(NotFound):
        await persistence.threads.get("t")


async def test_a_delayed_run_holds_nobody_up_and_starts_when_it_is_due(tmp_path: Path) -> None:
    now = [MOMENT]
    async with open_persistence(tmp_path) as persistence:
        runs = RunRepository(persistence.app, lambda: now[0], cipher=data_folder_cipher(tmp_path, None))
        due_at = MOMENT + timedelta(seconds=5)
        delayed = await runs.create_run(new_run("t", not_before=due_at))
        prompt = await runs.create_run(new_run("t"))

        assert (delayed.is_due, prompt.is_due) == (False, True)
        assert (await persistence.threads.get("t")).status == "busy"
        assert await runs.list_delayed() == [(delayed.run.run_id, due_at)]
        assert await runs.claim(delayed.run.run_id) is None
        assert await runs.claim(prompt.run.run_id) is not None
        assert await runs.finalise(prompt.run.run_id, 1, SUCCESS) is None
        assert await runs.find_startable("t") is None

        now[0] = due_at
        assert await runs.list_delayed() == []
        assert await runs.find_startable("t") == delayed.run.run_id
        assert await runs.claim(delayed.run.run_id) is not None


async def test_an_older_run_that_becomes_due_does_not_start_beside_a_running_one(tmp_path: Path) -> None:
    now = [MOMENT]
    async with open_persistence(tmp_path) as persistence:
        runs = RunRepository(persistence.app, lambda: now[0], cipher=data_folder_cipher(tmp_path, None))
        delayed = await created(runs, "t", not_before=MOMENT + timedelta(seconds=5))
        await running(runs, "t")

        now[0] += timedelta(seconds=6)

        assert await runs.claim(delayed.run_id) is None


async def test_a_run_that_became_due_meanwhile_is_next(tmp_path: Path) -> None:
    now = [MOMENT]
    async with open_persistence(tmp_path) as persistence:
        runs = RunRepository(persistence.app, lambda: now[0], cipher=data_folder_cipher(tmp_path, None))
        first = await running(runs, "t")
        delayed = await created(runs, "t", not_before=MOMENT + timedelta(seconds=5))

        now[0] += timedelta(seconds=6)

        assert await runs.finalise(first.run_id, 1, SUCCESS) == delayed.run_id


async def test_runs_are_listed_newest_first_by_status_and_page(runs: RunRepository) -> None:
    made = [await created(runs, "t") for _ in range(4)]
    await runs.claim(made[0].run_id)

    async def listed(**query: Any) -> list[int]:
        ids = [run.run_id for run in made]
        return [ids.index(run.run_id) for run in await runs.list("t", **query)]

    assert await listed() == [3, 2, 1, 0]
    assert await listed(limit=2, offset=1) == [2, 1]
    assert await listed(status="running") == [0]
    assert await listed(status="success") == []


async def test_unknown_runs_and_threads_have_their_own_texts(runs: RunRepository) -> None:
    await created(runs, "t")

    assert await runs.find("nobody") is None
    with pytest.raises(NotFound, match=r"^Not Found$"):
        await runs.get("t", "nobody")
    for call in (runs.get("nowhere", "nobody"), runs.list("nowhere")):
        with pytest.raises(NotFound, match=r"^Thread with ID nowhere not found$"):
            await call
    with pytest.raises(NotFound, match=r"^Run not found$"):
        await runs.delete("t", "nobody")
    with pytest.raises(NotFound, match=r"^No runs found to cancel\.$"):
        await runs.request_cancel("nobody", "interrupt")


async def test_a_run_of_another_thread_is_not_found_there(runs: RunRepository) -> None:
    run = await created(runs, "t")
    await created(runs, "other")

    with pytest.raises(NotFound):
        await runs.get("other", run.run_id)
    with pytest.raises(NotFound):
        await runs.delete("other", run.run_id)


@pytest.mark.requirement("S-05")
async def test_runs_of_a_process_that_is_gone_are_pending_again_and_keep_their_attempt(tmp_path: Path) -> None:
    async with open_persistence(tmp_path) as persistence:
        interrupted = await running(persistence.runs, "a")
        behind = await created(persistence.runs, "a")
        waiting = await created(persistence.runs, "b")
        later = await created(persistence.runs, "c", not_before=IN_A_CENTURY)
        done = await running(persistence.runs, "d")
        await persistence.runs.finalise(done.run_id, 1, SUCCESS)

    async with open_persistence(tmp_path) as persistence:
        runs = persistence.runs
        assert await runs.recover() == [interrupted.run_id, waiting.run_id]
        assert await runs.list_delayed() == [(later.run_id, IN_A_CENTURY)]
        assert (await persistence.threads.get("a")).status == "busy"
        assert await runs.claim(behind.run_id) is None
        again = await runs.claim(interrupted.run_id)
        assert again is not None
        assert again.attempt == 2
        with pytest.raises(Conflict, match="Attempt 1"):
            await runs.finalise(interrupted.run_id, 1, SUCCESS)
        assert await runs.finalise(interrupted.run_id, 2, SUCCESS) == behind.run_id


async def test_a_cancellation_that_a_crash_cut_short_is_known_when_the_run_is_claimed_again(tmp_path: Path) -> None:
    async with open_persistence(tmp_path) as persistence:
        run = await running(persistence.runs, "t")
        await persistence.runs.request_cancel(run.run_id, "rollback")

    async with open_persistence(tmp_path) as persistence:
        assert await persistence.runs.recover() == [run.run_id]
        again = await persistence.runs.claim(run.run_id)
        assert again is not None
        assert again.cancel == "rollback"


async def test_the_clock_is_read_in_utc(runs: RunRepository) -> None:
    before = datetime.now(UTC)
    run = await running(runs, "t")

    assert before <= run.updated_at <= datetime.now(UTC)
