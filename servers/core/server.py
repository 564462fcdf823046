"""Build the MCP server `core` from its tools (C-01, C-02)."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastmcp import FastMCP
from fastmcp.server.auth import AuthProvider

from toolweave.config.settings import Settings
from toolweave.servers.core.files.tools import FileTools
from toolweave.servers.core.jobs import JobTools
from toolweave.servers.core.query.tools import open_query_tools
from toolweave.servers.tool_server import ACTS_ABROAD, ASKS_ABROAD, MOST_BYTES, READS, declared_tool, tool_server

_INSTRUCTIONS = (
    "Tools for common work: query the tables of a database, run jobs and see how they are, read and search files. "
    "Each is limited to what the operator allows; an error says what to do instead."
)


@asynccontextmanager
async def open_core_server(settings: Settings, *, auth: AuthProvider | None = None) -> AsyncIterator[FastMCP[None]]:
    """Open what the tools need and build the server on it; all is closed with the context.

    `auth` guards the server where it is reached over HTTP. Nothing is connected before a tool needs it.

    Raises:
        ConfigError: a setting that a tool needs cannot be used.
    """
    # The largest file that may be read, written as JSON.
    most_bytes = max(MOST_BYTES, settings.file_max_bytes * 5 // 4)
    server = tool_server("core", _INSTRUCTIONS, most_bytes=most_bytes, auth=auth)
    jobs, files = JobTools(settings), FileTools(settings)
    async with open_query_tools(settings) as queries:
        server.add_tool(declared_tool(queries.query_database, "Query a database", READS))
        server.add_tool(declared_tool(jobs.execute_job, "Run a job", ACTS_ABROAD))
        server.add_tool(declared_tool(jobs.check_job_status, "Check a job", ASKS_ABROAD))
        server.add_tool(declared_tool(files.read_file, "Read a file", READS))
        server.add_tool(declared_tool(files.search_files, "Search files", READS))
        yield server
