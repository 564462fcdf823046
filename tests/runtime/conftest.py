"""Open real files for every test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from toolweave.runtime.persistence.data_folder import Persistence, open_persistence


@pytest.fixture
async def persistence(tmp_path: Path) -> AsyncIterator[Persistence]:
    """Everything open in an empty data folder."""
    async with open_persistence(tmp_path) as opened:
        yield opened
