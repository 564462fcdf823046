"""Events of runs are stored in batches and read back in order."""

import pytest

from tests.runtime.persistence.records import new_run
from toolweave.runtime.models import StreamEvent
from toolweave.runtime.persistence.data_folder import Persistence
from toolweave.runtime.persistence.events import append_events, read_events


def events(run_id: str, *numbers: int) -> list[StreamEvent]:
    return [StreamEvent(number, "values", f'{{"n":{number}}}'.encode(), run_id=run_id) for number in numbers]


async def test_events_of_a_deleted_run_do_not_hinder_those_of_others(persistence: Persistence) -> None:
    run = (await persistence.runs.create_run(new_run("t"))).run

    batch = [*events("deleted meanwhile", 1), *events(run.run_id, 1)]
    await persistence.app.write(lambda connection: append_events(connection, batch))

    stored = await persistence.app.read(lambda connection: read_events(connection, run.run_id, 0, 10))
    gone = await persistence.app.read(lambda connection: read_events(connection, "deleted meanwhile", 0, 10))
    assert (stored, gone) == (events(run.run_id, 1), [])


@pytest.mark.requirement("T-14")
@pytest.mark.parametrize("whole_thread", [True, False])
async def test_events_go_with_their_run_and_with_its_thread(persistence: Persistence, whole_thread: bool) -> None:
    run = (await persistence.runs.create_run(new_run("t"))).run
    await persistence.app.write(lambda connection: append_events(connection, events(run.run_id, 1)))

    if whole_thread:
        await persistence.threads.delete("t")
    else:
        await persistence.runs.delete("t", run.run_id)

    assert await persistence.app.read(lambda connection: read_events(connection, run.run_id, 0, 10)) == []
