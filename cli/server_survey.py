"""Start every configured MCP server for a moment and see what it offers."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from toolweave.config.mcp import McpServerConfig
from toolweave.servers.connections.health import ServerState
from toolweave.servers.connections.oauth.place import TokenPlace
from toolweave.servers.connections.plane import ToolPlane, open_tool_plane

# Each round waits as long as a run would for a server that is still connecting.
ROUNDS = 5


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool as a graph sees it."""

    name: str
    description: str


@dataclass(frozen=True, slots=True)
class Surveyed:
    """What one server is and offers; `ready_ms` is the time from its start to its list of tools."""

    name: str
    state: ServerState
    reason: str | None
    tools: tuple[OfferedTool, ...] = ()
    ready_ms: int | None = None


async def survey(servers: Sequence[McpServerConfig], tokens: TokenPlace) -> list[Surveyed]:
    """Connect to all servers, wait a bounded time for those that are slow, and close them again."""
    started = datetime.now(UTC)
    async with open_tool_plane(servers, token_place=tokens) as plane:
        for _ in range(ROUNDS):
            await plane.tools()
            if all(server["state"] != "connecting" for server in plane.health().values()):
                break
        return [await _surveyed(plane, server.name, started) for server in servers]


async def _surveyed(plane: ToolPlane, name: str, started: datetime) -> Surveyed:
    health = plane.health()[name]
    if health["state"] != "ready":
        return Surveyed(name, health["state"], health["last_error"])
    tools = tuple(OfferedTool(tool.name, tool.description) for tool in await plane.tools([name]))
    ready_ms = round((datetime.fromisoformat(health["since"]) - started).total_seconds() * 1000)
    return Surveyed(name, "ready", None, tools, ready_ms)
