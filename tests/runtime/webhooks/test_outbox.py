"""A run's end and its webhook are written together or not at all."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import Connection

from tests.runtime.persistence.records import SUCCESS, new_run
from toolweave.errors import Conflict
from toolweave.runtime.codec import loads, utc_now
from toolweave.runtime.models import Run
from toolweave.runtime.persistence.opening import Persistence, open_persistence
from toolweave.runtime.webhooks import telling

URL = "https://a.example/hook"


@pytest.fixture
async def persistence(tmp_path: Path) -> AsyncIterator[Persistence]:
    async with open_persistence(tmp_path) as opened:
        yield opened


async def running(persistence: Persistence, **fields: Any) -> Run:
    kwargs = {"input": {"n": 1}, "webhook": URL, "temporary": fields.get("temporary", False)}
    new = new_run(str(uuid4()), kwargs=kwargs, **fields)
    await persistence.runs.create_run(new)
    claimed = await persistence.runs.claim(new.run_id)
    assert claimed is not None
    return claimed


async def waiting(persistence: Persistence) -> list[tuple[str, str]]:
    return await persistence.webhooks.due(utc_now() + timedelta(seconds=1))


async def test_the_end_of_a_run_and_its_webhook_are_one_write(persistence: Persistence) -> None:
    run = await running(persistence)
    await persistence.runs.finalise(run.run_id, run.attempt, SUCCESS, telling(run, SUCCESS))
    ((delivery_id, url),) = await waiting(persistence)
    delivery = await persistence.webhooks.begin(delivery_id, utc_now())
    assert delivery is not None
    assert (url, delivery.run_id) == (URL, run.run_id)
    told = loads(delivery.body)
    assert (told["status"], told["values"]) == ("success", {"n": 1})


async def test_an_end_that_cannot_be_written_tells_nobody(persistence: Persistence) -> None:
    run = await running(persistence)
    write = telling(run, SUCCESS)
    assert write is not None

    def failing(connection: Connection) -> None:
        write(connection)
        raise RuntimeError("the transaction ends here")

    with pytest.raises(RuntimeError):
        await persistence.runs.finalise(run.run_id, run.attempt, SUCCESS, failing)
    assert (await persistence.runs.get(run.thread_id, run.run_id)).status == "running"
    assert await waiting(persistence) == []


async def test_an_attempt_that_was_taken_over_tells_nobody(persistence: Persistence) -> None:
    run = await running(persistence)
    await persistence.runs.put_back(run.run_id)
    again = await persistence.runs.claim(run.run_id)
    assert again is not None
    with pytest.raises(Conflict):
        await persistence.runs.finalise(run.run_id, run.attempt, SUCCESS, telling(run, SUCCESS))
    assert await waiting(persistence) == []
    await persistence.runs.finalise(run.run_id, again.attempt, SUCCESS, telling(again, SUCCESS))
    assert len(await waiting(persistence)) == 1


async def test_a_webhook_outlives_the_thread_that_goes_with_its_run(persistence: Persistence) -> None:
    run = await running(persistence, temporary=True)
    await persistence.runs.finalise(run.run_id, run.attempt, SUCCESS, telling(run, SUCCESS))
    assert await persistence.runs.find(run.run_id) is None
    assert len(await waiting(persistence)) == 1
