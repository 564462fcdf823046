"""A todo server that is killed while it writes to a PostgreSQL loses no answered write and leaves nothing half done."""

import asyncio
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from mcp import McpError

from tests.fixtures.mcp_server import StdioMcpServer, stdio_mcp_server
from tests.fixtures.postgres import PostgresServer
from tests.servers.todo.in_memory import envelope, todo_client

pytestmark = pytest.mark.requirement("T-13")

BOUND_S = 60
WAITING = """
    SELECT pid FROM pg_stat_activity WHERE application_name = 'toolweave todo database'
    AND datname = current_database() AND wait_event_type = 'Lock' AND query LIKE 'DELETE FROM todo_idempotent_results%'
"""
NONE_OF_OURS = """
    SELECT count(*) FROM pg_stat_activity
    WHERE application_name = 'toolweave todo database' AND datname = current_database() HAVING count(*) = 0
"""


def todo_process(url: str) -> AbstractAsyncContextManager[StdioMcpServer]:
    return stdio_mcp_server("-m", "toolweave.servers.todo", env={"TOOLWEAVE_TODO_DATABASE_URL": url}, name="todo")


async def create(server: StdioMcpServer, title: str) -> dict[str, Any] | None:
    """Create a todo whose key is its title; None when the server ends before it answers."""
    try:
        answer = envelope(
            await server.session.call_tool("create_todo", {"title": title}, meta={"idempotency_key": title})
        )
    except McpError:
        return None
    todo: dict[str, Any] = answer["data"]
    return todo


async def test_a_write_that_was_half_done_when_its_process_was_killed_leaves_nothing(
    postgres: PostgresServer, url: str
) -> None:
    async with todo_process(url) as server:
        answered = await create(server, "answered")
        with postgres.connect(url) as other, other.transaction():
            other.execute("LOCK TABLE todo_idempotent_results IN EXCLUSIVE MODE")
            call = asyncio.create_task(create(server, "half done"))
            await asyncio.to_thread(postgres.wait_for, WAITING, url=url)
            server.kill()
            async with asyncio.timeout(BOUND_S):
                assert await call is None
    await asyncio.to_thread(postgres.wait_for, NONE_OF_OURS, url=url)
    async with todo_client(url) as client:
        assert await client.data("list_todos", {}) == [answered]
        again = await client.call("create_todo", {"title": "half done"}, idempotency_key="half done")
        assert "replayed" not in again["metadata"]
        assert [todo["title"] for todo in await client.data("list_todos", {})] == ["answered", "half done"]


@pytest.mark.slow
@pytest.mark.parametrize("answers", [1, 5, 20, 60])
async def test_acknowledged_calls_survive_a_kill_and_repeated_calls_double_nothing(
    postgres: PostgresServer, url: str, answers: int
) -> None:
    titles = [f"todo {number}" for number in range(100)]
    async with todo_process(url) as server:
        calls = [asyncio.create_task(create(server, title)) for title in titles]
        for finished in asyncio.as_completed(calls):
            await finished
            if sum(call.done() for call in calls) >= answers:
                break
        server.kill()
        async with asyncio.timeout(BOUND_S):
            answered = {todo["title"]: todo for todo in await asyncio.gather(*calls) if todo}
    assert len(answered) >= answers
    await asyncio.to_thread(postgres.wait_for, NONE_OF_OURS, url=url)
    async with todo_client(url) as client:
        for title in titles:
            again = await client.call("create_todo", {"title": title}, idempotency_key=title)
            assert title not in answered or (again["metadata"]["replayed"], again["data"]) == (True, answered[title])
        listed = await client.data("list_todos", {"limit": 100})
    assert sorted(todo["title"] for todo in listed) == sorted(titles)
