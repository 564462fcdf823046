"""Crons are kept, found, and fired in the transaction that creates their run (langgraph_api.md 2.5)."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from tests.runtime.persistence.records import MOMENT, new_run
from toolweave.errors import Conflict, NotFound
from toolweave.runtime.models import Cron
from toolweave.runtime.persistence.crons import FiringTakenError, firing_claim
from toolweave.runtime.persistence.data_folder import Persistence

FOLLOWING = MOMENT + timedelta(hours=1)


@pytest.fixture
async def made(persistence: Persistence) -> Callable[..., Cron]:
    await persistence.assistants.sync_system({"graph": None})
    (assistant,) = await persistence.assistants.search()

    def make(**fields: Any) -> Cron:
        described: dict[str, Any] = {
            "cron_id": str(uuid4()),
            "assistant_id": assistant.assistant_id,
            "thread_id": None,
            "user_id": "",
            "schedule": "0 * * * *",
            "timezone": None,
            "end_time": None,
            "payload": {"input": {"n": 1}},
            "metadata": {},
            "on_run_completed": "delete",
            "enabled": True,
            "next_run_at": MOMENT,
            "created_at": MOMENT,
            "updated_at": MOMENT,
        }
        return Cron(**{**described, **fields})

    return make


async def test_a_cron_comes_back_as_it_was_given(persistence: Persistence, made: Callable[..., Cron]) -> None:
    await persistence.threads.create("a")
    whole = made(
        thread_id="a",
        timezone="Europe/Berlin",
        end_time=FOLLOWING,
        metadata={"k": [1, None]},
        on_run_completed=None,
        user_id="ada",
        user={"identity": "ada", "team": 7},
    )
    for cron in (whole, made(enabled=False, next_run_at=None)):
        assert await persistence.crons.create(cron) == cron
        assert await persistence.crons.get(cron.cron_id) == cron


async def test_crons_go_with_their_assistant_and_their_thread(
    persistence: Persistence, made: Callable[..., Cron]
) -> None:
    await persistence.threads.create("a")
    on_thread, own = await persistence.crons.create(made(thread_id="a")), await persistence.crons.create(made())
    await persistence.threads.delete("a")
    with pytest.raises(NotFound):
        await persistence.crons.get(on_thread.cron_id)
    await persistence.assistants.delete(own.assistant_id)
    with pytest.raises(NotFound):
        await persistence.crons.get(own.cron_id)


async def test_only_enabled_crons_with_a_next_firing_are_due(
    persistence: Persistence, made: Callable[..., Cron]
) -> None:
    for fields in ({"enabled": False}, {"next_run_at": None}):
        await persistence.crons.create(made(**fields))
    due = await persistence.crons.create(made(next_run_at=FOLLOWING))
    assert (await persistence.crons.next_due(), await persistence.crons.list_due(MOMENT)) == (FOLLOWING, [])
    assert await persistence.crons.list_due(FOLLOWING) == [due]


async def next_of(persistence: Persistence, cron: Cron) -> datetime | None:
    return (await persistence.crons.get(cron.cron_id)).next_run_at


async def test_a_firing_and_its_run_are_stored_together(persistence: Persistence, made: Callable[..., Cron]) -> None:
    cron = await persistence.crons.create(made())
    await persistence.runs.create_run(new_run("a"), firing_claim(cron, FOLLOWING))
    assert await next_of(persistence, cron) == FOLLOWING


async def test_a_firing_whose_run_is_refused_is_not_taken(persistence: Persistence, made: Callable[..., Cron]) -> None:
    cron = await persistence.crons.create(made())
    await persistence.runs.create_run(new_run("a"))
    with pytest.raises(Conflict):
        await persistence.runs.create_run(new_run("a", multitask_strategy="reject"), firing_claim(cron, FOLLOWING))
    assert await next_of(persistence, cron) == MOMENT


@pytest.mark.parametrize("change", ["fired", "edited", "switched off", "deleted"])
async def test_a_firing_that_is_not_there_any_more_starts_no_run(
    persistence: Persistence, made: Callable[..., Cron], change: str
) -> None:
    cron = await persistence.crons.create(made())
    claim = firing_claim(cron, FOLLOWING)
    if change == "fired":
        await persistence.crons.skip_firing(claim)
    elif change == "edited":
        await persistence.crons.update(cron.cron_id, lambda kept: replace(kept, updated_at=FOLLOWING))
    elif change == "switched off":
        await persistence.crons.update(cron.cron_id, lambda kept: replace(kept, enabled=False))
    else:
        await persistence.crons.delete(cron.cron_id)
    with pytest.raises(FiringTakenError):
        await persistence.runs.create_run(new_run("a"), claim)
    with pytest.raises(NotFound):
        await persistence.threads.get("a")
    await persistence.crons.skip_firing(claim)


async def test_every_change_wakes_who_waits(persistence: Persistence, made: Callable[..., Cron]) -> None:
    changed = persistence.crons.changed
    cron = made()
    for change in (
        lambda: persistence.crons.create(cron),
        lambda: persistence.crons.update(cron.cron_id, lambda kept: kept),
        lambda: persistence.crons.delete(cron.cron_id),
    ):
        assert not changed.is_set()
        await change()
        assert changed.is_set()
        changed.clear()
    for missing in (persistence.crons.get, persistence.crons.delete):
        with pytest.raises(NotFound):
            await missing(cron.cron_id)
    with pytest.raises(NotFound):
        await persistence.crons.update(cron.cron_id, lambda kept: kept)
