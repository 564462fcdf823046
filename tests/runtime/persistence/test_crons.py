"""A firing of a cron is claimed in the transaction that creates its run (langgraph_api.md 2.5)."""

from dataclasses import replace
from datetime import timedelta

import pytest

from tests.runtime.persistence.records import MOMENT, new_run, store_cron
from toolweave.errors import Conflict, NotFound
from toolweave.runtime.models import Cron
from toolweave.runtime.persistence.crons import FiringTakenError, firing_claim
from toolweave.runtime.persistence.data_folder import Persistence

FOLLOWING = MOMENT + timedelta(hours=1)


@pytest.fixture
async def cron(persistence: Persistence) -> Cron:
    """Store a cron that is due."""
    await persistence.assistants.sync_system({"graph": None})
    return await store_cron(persistence)


async def test_only_enabled_crons_with_a_next_firing_are_due(persistence: Persistence, cron: Cron) -> None:
    await store_cron(persistence, enabled=False)
    await store_cron(persistence, next_run_at=None)
    assert await persistence.crons.list_due(MOMENT - timedelta(seconds=1)) == []
    assert await persistence.crons.list_due(MOMENT) == [cron]


async def test_every_change_wakes_the_scheduler(persistence: Persistence, cron: Cron) -> None:
    crons = persistence.crons
    changes = (store_cron(persistence), crons.update(cron.cron_id, lambda stored: stored), crons.delete(cron.cron_id))
    for change in changes:
        crons.changed.clear()
        await change
        assert crons.changed.is_set()


async def test_a_firing_whose_run_is_refused_is_not_taken(persistence: Persistence, cron: Cron) -> None:
    await persistence.runs.create_run(new_run("a"))
    with pytest.raises(Conflict):
        await persistence.runs.create_run(new_run("a", multitask_strategy="reject"), firing_claim(cron, FOLLOWING))
    assert (await persistence.crons.get(cron.cron_id)).next_run_at == MOMENT


@pytest.mark.parametrize("change", ["fired", "edited", "switched off", "deleted"])
async def test_a_firing_that_is_not_there_any_more_starts_no_run(
    persistence: Persistence, cron: Cron, change: str
) -> None:
    claim = firing_claim(cron, FOLLOWING)
    if change == "fired":
        await persistence.crons.skip_firing(claim)
    elif change == "edited":
        await persistence.crons.update(cron.cron_id, lambda stored: replace(stored, updated_at=FOLLOWING))
    elif change == "switched off":
        await persistence.crons.update(cron.cron_id, lambda stored: replace(stored, enabled=False))
    else:
        await persistence.crons.delete(cron.cron_id)
    with pytest.raises(FiringTakenError):
        await persistence.runs.create_run(new_run("a"), claim)
    with pytest.raises(NotFound):
        await persistence.threads.get("a")
    await persistence.crons.skip_firing(claim)
