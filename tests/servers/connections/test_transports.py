"""The same server over stdio, SSE and streamable HTTP: only the configuration differs."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import ToolCall

from tests.fixtures.mcp_server import free_port, todo_environment
from tests.servers.connections.faulty import TRANSPORTS
from tests.servers.connections.peers import QUICK, call
from toolweave.config.mcp import McpServerConfig
from toolweave.config.mcp_entry import Transport
from toolweave.servers.connections.plane import open_tool_plane

TODO_TOOLS = ["todo_create_todo", "todo_delete_todo", "todo_list_todos", "todo_search_todos", "todo_update_todo"]


def todo_config(transport: Transport, folder: Path) -> McpServerConfig:
    """Configure the todo server; over HTTP and SSE the plane starts it, too."""
    started: dict[str, Any] = {
        "name": "todo",
        "transport": transport,
        "command": sys.executable,
        "args": ("-m", "toolweave.servers.todo"),
        "env": todo_environment(folder),
    }
    if transport != "stdio":
        port = free_port()
        started["args"] += ("--transport", transport, "--port", str(port))
        started |= {"url": f"http://127.0.0.1:{port}/{'sse' if transport == 'sse' else 'mcp'}", "spawn": True}
    return McpServerConfig(**started)


async def everything_seen(transport: Transport, folder: Path) -> list[Any]:
    """Use the todo server in every way a caller can; return what is to be seen of it."""
    async with open_tool_plane([todo_config(transport, folder)], timing=QUICK) as plane:
        tools = {tool.name: tool for tool in await plane.tools()}
        seen: list[Any] = [(tool.name, tool.description, tool.args_schema, tool.metadata) for tool in tools.values()]
        calls: list[tuple[str, dict[str, Any]]] = [
            ("create_todo", {"title": "Buy milk", "due_date": "2030-01-02", "tags": ["shop", "müsli 🥣"]}),
            ("list_todos", {}),
            ("update_todo", {"id": 1, "status": "completed"}),
            ("search_todos", {"query": "milk"}),
            ("delete_todo", {"id": 1}),
            ("delete_todo", {"id": 1}),
            ("create_todo", {"title": ""}),
            ("create_todo", {}),
            ("list_todos", {"limit": "many"}),
            ("no_such_tool", {}),
        ]
        for tool, arguments in calls:
            result = await call(plane, tool, server="todo", **arguments)
            seen.append((tool, result.isError, without_times(result.model_dump(mode="json"))))
        message = await tools["todo_list_todos"].ainvoke(
            ToolCall(name="todo_list_todos", args={}, id="1", type="tool_call")
        )
        return [*seen, without_times(message.model_dump())]


def without_times(value: Any) -> Any:
    """Blank out what differs from one run to the next."""
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+(?:Z|\+00:00)?", "then", json.dumps(value))
    return json.loads(re.sub(r"(duration_ms\\*\": ?)[\d.]+", r"\g<1>0", text))


@pytest.mark.requirement("T-07")
async def test_the_same_server_is_the_same_over_each_transport(tmp_path: Path) -> None:
    seen = []
    for transport in TRANSPORTS:
        folder = tmp_path / transport
        folder.mkdir()
        seen.append(await everything_seen(transport, folder))
    stdio, http, sse = seen
    assert [tool[0] for tool in stdio[:5]] == TODO_TOOLS
    assert http == stdio
    assert sse == stdio
