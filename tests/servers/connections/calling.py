"""Set up what the tests of callers share: who calls, as whom, and what the server saw."""

import asyncio
from collections.abc import Callable
from typing import Any

from mcp.types import CallToolResult

from tests.fixtures.caller_recorder import seen_in
from tests.servers.connections.peers import BOUND_S, text_of
from toolweave.servers.connections.callers import CallerSessions
from toolweave.servers.connections.context import CallContext
from toolweave.servers.connections.plane import ToolPlane

TOKEN = {"Authorization": "Bearer {user:github_token}"}


def user(name: str, **members: Any) -> dict[str, Any]:
    known = {"identity": name, "github_token": f"token-of-{name}", **members}
    return {"langgraph_auth_user": known, "langgraph_auth_user_id": name}


async def call_as(
    plane: ToolPlane, configurable: dict[str, Any], tool: str = "whoami", server: str = "peer"
) -> CallToolResult:
    async with asyncio.timeout(BOUND_S):
        return await plane.call(server, tool, {}, CallContext.from_configurable(configurable, None))


async def seen_as(plane: ToolPlane, configurable: dict[str, Any], tool: str = "whoami") -> dict[str, Any]:
    result = await call_as(plane, configurable, tool)
    assert not result.isError, text_of(result)
    return seen_in(text_of(result))


def sessions(plane: ToolPlane, name: str = "peer") -> CallerSessions:
    return plane._callers.sessions[name]


async def eventually(condition: Callable[[], bool]) -> None:
    """Wait, bounded, for what a server in a thread has seen: it tells nobody."""
    async with asyncio.timeout(BOUND_S):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
