"""Give a log of threads on a real database, with a thread and a run for what is told."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest_asyncio

from toolweave.runtime.events.log import ThreadLog
from toolweave.runtime.models import NewRun, Run
from toolweave.runtime.persistence.data_folder import Persistence, open_persistence

THREAD = "0f0c5eee-0000-4000-8000-000000000001"


@pytest_asyncio.fixture(loop_scope="module")
async def persistence(tmp_path: Path) -> AsyncIterator[Persistence]:
    async with open_persistence(tmp_path / "data") as opened:
        yield opened


@pytest_asyncio.fixture(loop_scope="module")
async def run(persistence: Persistence) -> Run:
    """Create a run and take it for execution."""
    new = NewRun(
        run_id="0f0c5eee-0000-4000-8000-000000000002",
        thread_id=THREAD,
        assistant_id="a",
        graph_id="g",
        metadata={},
        kwargs={"stream_mode": ["lifecycle"]},
        multitask_strategy="enqueue",
        if_not_exists="create",
        created_at=datetime.now(UTC),
    )
    await persistence.runs.create_run(new)
    claimed = await persistence.runs.claim(new.run_id)
    assert claimed is not None
    return claimed


@pytest_asyncio.fixture(loop_scope="module")
async def log(persistence: Persistence, run: Run) -> ThreadLog:
    return ThreadLog(persistence.app)
