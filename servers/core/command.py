"""The program `python -m toolweave.servers.core` (C-01)."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager

from fastmcp import FastMCP

from toolweave.config.settings import Settings
from toolweave.servers.core.auth import core_auth
from toolweave.servers.core.server import open_core_server
from toolweave.servers.program import ServerProgram


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until stdin ends or a signal comes; return the exit code."""
    return ServerProgram(
        module="toolweave.servers.core",
        description="Serve tools for common work over MCP: query a database, run jobs, read and search files. "
        "What they may do is set by TOOLWEAVE_QUERY_…, TOOLWEAVE_JOB_… and TOOLWEAVE_FILE_… variables.",
        default_port=8001,
        open_server=_open_guarded,
    ).run(arguments)


def _open_guarded(settings: Settings) -> AbstractAsyncContextManager[FastMCP[None]]:
    """Open it with the callers' credentials that are set; over stdio nobody is asked for them."""
    return open_core_server(settings, auth=core_auth(settings))
