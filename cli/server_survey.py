"""Start every configured MCP server for a moment and see what it offers."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from toolweave.config.mcp import McpServerConfig
from toolweave.config.settings import Settings
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


@contextmanager
def trial_settings(settings: Settings) -> Iterator[Settings]:
    """Give the settings to start servers with only to look at them: our todo server gets a database for the moment.

    The data folder stays the real one, where the programs of ready-made servers are, and is not made for this.
    """
    with tempfile.TemporaryDirectory(prefix="toolweave-", ignore_cleanup_errors=True) as folder:
        database = settings.todo_database_url or f"sqlite+aiosqlite:///{Path(folder, 'todo.db')}"
        yield settings.model_copy(update={"todo_database_url": database})


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
