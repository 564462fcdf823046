"""A server that stops or dies with MCP sessions open: it stops in good order, and clients of ours find the next one."""

import asyncio
from pathlib import Path
from typing import Any

from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult

from tests.fixtures.app_server import AppProcess
from tests.servers.connections.peers import QUICK, call, until
from toolweave.config.mcp import McpServerConfig
from toolweave.servers.connections.plane import open_tool_plane

HERE = Path(__file__)
SERVER_ENV = {"TOOLWEAVE_MODEL": "offline", "TOOLWEAVE_FILE_ROOTS": str(HERE.parent)}
BOUND_S = 60.0


async def test_after_a_crash_our_plane_opens_a_new_session_and_open_sessions_do_not_delay_the_end(
    app_process: AppProcess,
) -> None:
    def read() -> Any:
        return call(plane, "read_file", server="core", path=str(HERE))

    def is_right(result: CallToolResult) -> bool:
        return result.structuredContent is not None and result.structuredContent["status"] == "success"

    await asyncio.to_thread(app_process.start)
    url = f"{app_process.url}/ai/mcp"
    served = McpServerConfig(name="core", transport="http", url=url, timeout_s=BOUND_S)
    async with open_tool_plane([served], timing=QUICK) as plane:
        await until(plane, "ready", name="core")
        assert is_right(await read())
        app_process.kill()
        await until(plane, "down", name="core")
        await asyncio.to_thread(app_process.start)
        await until(plane, "ready", name="core")
        assert is_right(await read())
        async with streamable_http_client(url) as (receive, send, _), ClientSession(receive, send) as session:
            await session.initialize()
            await session.list_tools()
            assert await asyncio.to_thread(app_process.stop) == 0
    log = app_process.logs()
    assert "Traceback" not in log
    assert " ERROR " not in log
    # uvicorn writes this line about connections that it had to wait for.
    assert "timeout graceful shutdown exceeded" not in log
