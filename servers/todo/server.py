"""Build the MCP server `todo` from its tools."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastmcp import FastMCP

from toolweave import __version__
from toolweave.servers.envelope_middleware import EnvelopeMiddleware
from toolweave.servers.todo.opening import open_todo_database
from toolweave.servers.todo.repository import TodoRepository
from toolweave.servers.todo.tools import TodoTools
from toolweave.servers.tool_declaration import ADDS, OVERWRITES, READS, declared_tool

_INSTRUCTIONS = (
    "A todo list that is kept in a database. Todos have integer ids: find the id with list_todos or search_todos "
    "before you update or delete one."
)


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
    server.add_tool(declared_tool(tools.create_todo, "Create a todo", ADDS))
    server.add_tool(declared_tool(tools.list_todos, "List todos", READS))
    server.add_tool(declared_tool(tools.update_todo, "Update a todo", OVERWRITES))
    server.add_tool(declared_tool(tools.search_todos, "Search todos", READS))
    server.add_tool(declared_tool(tools.delete_todo, "Delete a todo", OVERWRITES))
    return server
