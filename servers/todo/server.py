"""Build the MCP server `todo` from its tools."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from fastmcp import FastMCP
from fastmcp.tools import Tool
from mcp.types import ToolAnnotations

from toolweave import __version__
from toolweave.servers.envelope_middleware import EnvelopeMiddleware
from toolweave.servers.todo.opening import open_todo_database
from toolweave.servers.todo.repository import TodoRepository
from toolweave.servers.todo.tools import TodoTools

_INSTRUCTIONS = (
    "A todo list that is kept in a database. Todos have integer ids: find the id with list_todos or search_todos "
    "before you update or delete one."
)
_READS = ToolAnnotations(readOnlyHint=True, destructiveHint=False, idempotentHint=True, openWorldHint=False)
_ADDS = ToolAnnotations(readOnlyHint=False, destructiveHint=False, idempotentHint=False, openWorldHint=False)
_OVERWRITES = ToolAnnotations(readOnlyHint=False, destructiveHint=True, idempotentHint=True, openWorldHint=False)


@asynccontextmanager
async def open_todo_server(database_url: str) -> AsyncIterator[FastMCP[None]]:
    """Open the database and build the server on it; the database closes with the context.

    Raises:
        ConfigError: the URL is none, or its driver is not installed.
        PersistenceError: the database cannot be opened, or a newer Toolweave wrote it.
    """
    async with open_todo_database(database_url) as database:
        yield build_todo_server(TodoRepository(database))


def build_todo_server(todos: TodoRepository, *, tool_timeout_s: float = 4.0) -> FastMCP[None]:
    """Build the server with its five tools; each call is cut after `tool_timeout_s` seconds (T-05, T-13)."""
    envelope = EnvelopeMiddleware(timeout_s=tool_timeout_s)
    server: FastMCP[None] = FastMCP(
        "todo",
        instructions=_INSTRUCTIONS,
        version=__version__,
        lifespan=envelope.lifespan,
        middleware=[envelope],
        mask_error_details=True,
        on_duplicate="error",
    )
    tools = TodoTools(todos)
    server.add_tool(_tool(tools.create_todo, "Create a todo", _ADDS))
    server.add_tool(_tool(tools.list_todos, "List todos", _READS))
    server.add_tool(_tool(tools.update_todo, "Update a todo", _OVERWRITES))
    server.add_tool(_tool(tools.search_todos, "Search todos", _READS))
    server.add_tool(_tool(tools.delete_todo, "Delete a todo", _OVERWRITES))
    return server


def _tool(function: Callable[..., Any], title: str, annotations: ToolAnnotations) -> Tool:
    # No output schema: clients check every answer against it, which takes them longer than the call.
    tool = Tool.from_function(function, title=title, annotations=annotations, output_schema=None)
    for parameter in tool.parameters["properties"].values():
        # "default": null would invite models to send null where the schema asks for a text.
        if parameter.get("default", ...) is None:
            del parameter["default"]
    return tool
