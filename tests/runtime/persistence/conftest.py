"""Open the checkpointer of the database for which a module asks: `pytestmark = ON_BOTH`."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.runtime.persistence.checkpoints import postgres_saver
from toolweave.runtime.persistence.data_folder import Persistence, open_persistence

ON_BOTH = pytest.mark.parametrize("persistence", ["sqlite", "postgres"], indirect=True)


@pytest.fixture
async def persistence(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Persistence]:
    """Everything open in an empty data folder, or the checkpoints in PostgreSQL."""
    async with open_persistence(tmp_path) as opened:
        if getattr(request, "param", "sqlite") == "sqlite":
            yield opened
        else:
            async with postgres_saver(request.getfixturevalue("emptied_url")) as saver:
                yield replace(opened, checkpointer=saver)
