"""Build the MCP server `core` from its tools (C-01, C-02)."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastmcp import FastMCP
from fastmcp.server.auth import AuthProvider

from toolweave.config.settings import Settings
from toolweave.servers.core.files.tools import FileTools
from toolweave.servers.core.jobs import JobTools
from toolweave.servers.core.query.tools import open_query_tools
from toolweave.servers.tool_server import MAX_BYTES, READ_EXTERNAL, READ_ONLY, WRITE_EXTERNAL, declare_tool, tool_server

_INSTRUCTIONS = (
    "Tools for common work: query the tables of a database, run jobs and check their status, read and search files. "
    "The operator limits what each tool may access; an error says what to do instead."
)


@asynccontextmanager
async def open_core_server(settings: Settings, *, auth: AuthProvider | None = None) -> AsyncIterator[FastMCP[None]]:
    """Open the tools' resources and build the server; the context closes the resources.

    `auth` authenticates callers over HTTP. The server connects to the database with the first call that needs it.

    Raises:
        ConfigError: a setting that a tool needs is invalid.
    """
    # The largest readable file has to fit, written as JSON.
    max_bytes = max(MAX_BYTES, settings.file_max_bytes * 5 // 4)
    server = tool_server("core", _INSTRUCTIONS, max_bytes=max_bytes, auth=auth)
    jobs, files = JobTools(settings), FileTools(settings)
    async with open_query_tools(settings) as queries:
        server.add_tool(declare_tool(queries.query_database, "Query a database", READ_ONLY))
        server.add_tool(declare_tool(jobs.execute_job, "Run a job", WRITE_EXTERNAL))
        server.add_tool(declare_tool(jobs.check_job_status, "Check a job", READ_EXTERNAL))
        server.add_tool(declare_tool(files.read_file, "Read a file", READ_ONLY))
        server.add_tool(declare_tool(files.search_files, "Search files", READ_ONLY))
        yield server
