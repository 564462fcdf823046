"""Provide the log of threads, with a thread and a running run whose events it has."""

import pytest

from tests.runtime.persistence.records import new_run
from toolweave.runtime.events.log import ThreadLog
from toolweave.runtime.models import Run
from toolweave.runtime.persistence.data_folder import Persistence

THREAD = "0f0c5eee-0000-4000-8000-000000000001"


@pytest.fixture
async def run(persistence: Persistence) -> Run:
    """Create a run and take it for execution."""
    new = new_run(THREAD, kwargs={"stream_mode": ["lifecycle"]})
    await persistence.runs.create_run(new)
    claimed = await persistence.runs.claim(new.run_id)
    assert claimed is not None
    return claimed


@pytest.fixture
def log(persistence: Persistence, run: Run) -> ThreadLog:
    return ThreadLog(persistence.app)
