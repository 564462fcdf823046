"""The same server over stdio, SSE and streamable HTTP: only the configuration differs."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

import pytest

from tests.fixtures.mcp_server import HttpMcpServer, todo_environment, todo_over
from tests.servers.connections.peers import BOUND_S, QUICK, call, failure_kind, text_of, until
from toolweave.config.mcp import McpServerConfig
from toolweave.servers.connections.plane import ToolPlane, open_tool_plane

TODO_TOOLS = ["todo_create_todo", "todo_delete_todo", "todo_list_todos", "todo_search_todos", "todo_update_todo"]


@asynccontextmanager
async def todo_plane(transport: Literal["http", "sse"], folder: Path) -> AsyncIterator[tuple[ToolPlane, HttpMcpServer]]:
    async with todo_over(transport, folder) as server, open_tool_plane([server.config], pace=QUICK) as plane:
        await plane.settle()
        yield plane, server


@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_a_remote_server_serves_tools_and_is_used_again_after_it_died_and_came_back(
    transport: Literal["http", "sse"], tmp_path: Path
) -> None:
    async with todo_plane(transport, tmp_path) as (plane, server):
        tools = {tool.name: tool for tool in await plane.tools()}
        assert list(tools) == TODO_TOOLS
        created = json.loads(await tools["todo_create_todo"].ainvoke({"title": "Buy milk"}))
        assert created["data"]["title"] == "Buy milk"

        open_calls = [asyncio.create_task(call(plane, "list_todos", server="todo")) for _ in range(20)]
        await asyncio.sleep(0)
        await server.kill()
        async with asyncio.timeout(BOUND_S):
            results = await asyncio.gather(*open_calls)
        assert {failure_kind(result) for result in results if result.isError} <= {"transport"}
        await until(plane, "down", name="todo")
        assert failure_kind(await call(plane, "list_todos", server="todo")) == "transport"
        await server.start()
        await until(plane, "ready", name="todo")
        # The tools of before are valid still.
        assert "Buy milk" in await tools["todo_list_todos"].ainvoke({})


async def test_a_stdio_server_of_ours_serves_the_same_tools(tmp_path: Path) -> None:
    config = McpServerConfig(
        name="todo",
        transport="stdio",
        command=sys.executable,
        args=("-m", "toolweave.servers.todo"),
        env=todo_environment(tmp_path),
    )
    async with open_tool_plane([config], pace=QUICK) as plane:
        assert [tool.name for tool in await plane.tools()] == TODO_TOOLS
        assert "Buy milk" in text_of(await call(plane, "create_todo", server="todo", title="Buy milk"))
