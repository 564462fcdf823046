"""Give each test a registry of its own, its database a real file."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from tests.servers.registry.tools import opened
from toolweave.servers.registry.repository import RegisteredTools


@pytest_asyncio.fixture(loop_scope="module")
async def registry(tmp_path: Path) -> AsyncIterator[RegisteredTools]:
    async with opened(tmp_path) as tools:
        yield tools
