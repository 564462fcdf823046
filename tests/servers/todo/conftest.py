"""Give each test a todo server of its own, in this process."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from tests.fixtures.mcp_server import held
from tests.servers.todo.in_memory import TodoClient, todo_client


@pytest_asyncio.fixture(loop_scope="module")
async def todos(tmp_path: Path) -> AsyncIterator[TodoClient]:
    async with held(todo_client(tmp_path)) as client:
        yield client
