"""Start every configured MCP server for a moment and see what it offers."""

import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from toolweave.config.mcp import McpServerConfig
from toolweave.config.settings import Settings
from toolweave.errors import ServerUnavailable
from toolweave.servers.connections.oauth.place import TokenPlace
from toolweave.servers.connections.plane import ToolPlane, open_tool_plane
from toolweave.servers.connections.status import ServerState

PATIENCE_S = 10.0
PINGS = 5


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool as a graph sees it; `input_schema` is the JSON Schema of its parameters."""

    name: str
    description: str
    input_schema: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Surveyed:
    """What one server is and offers.

    `ready_ms` is the time from its start to its list of tools, `ping_ms` the median of some pings, if it was asked.
    """

    name: str
    state: ServerState
    reason: str | None
    tools: tuple[OfferedTool, ...] = ()
    ready_ms: int | None = None
    ping_ms: float | None = None


@contextmanager
def trial_settings(settings: Settings) -> Iterator[Settings]:
    """Give the settings to start servers with only to look at them: our todo server gets a database for the moment.

    The data folder stays the real one, where the programs of ready-made servers are, and is not made for this.
    """
    with tempfile.TemporaryDirectory(prefix="toolweave-", ignore_cleanup_errors=True) as folder:
        database = settings.todo_database_url or f"sqlite+aiosqlite:///{Path(folder, 'todo.db')}"
        yield settings.model_copy(update={"todo_database_url": database})


async def survey(
    servers: Sequence[McpServerConfig], tokens: TokenPlace, *, patience_s: float = PATIENCE_S, pinged: bool = False
) -> list[Surveyed]:
    """Connect to all servers, wait a bounded time for those that are slow, and close them again."""
    started = datetime.now(UTC)
    async with open_tool_plane(servers, token_place=tokens) as plane:
        await plane.settle(timeout_s=patience_s)
        return [await _surveyed(plane, server.name, started, pinged=pinged) for server in servers]


async def _surveyed(plane: ToolPlane, name: str, started: datetime, *, pinged: bool) -> Surveyed:
    health, details = plane.health()[name], plane.details(name)
    if health["state"] != "ready" or details is None:
        return Surveyed(name, health["state"], health["last_error"])
    tools = tuple(
        OfferedTool(tool["name"], tool["description"] or "", tool["input_schema"]) for tool in details["offers"]
    )
    ready_ms = round((datetime.fromisoformat(health["since"]) - started).total_seconds() * 1000)
    return Surveyed(name, "ready", None, tools, ready_ms, await _ping_ms(plane, name) if pinged else None)


async def _ping_ms(plane: ToolPlane, name: str) -> float | None:
    """Measure some pings; None where the server does not answer them, which it need not be ready for tools for."""
    taken = []
    try:
        for _ in range(PINGS):
            began = time.perf_counter()
            await plane.ping(name)
            taken.append((time.perf_counter() - began) * 1000)
    except (ServerUnavailable, TimeoutError):
        return None
    return round(statistics.median(taken), 2)
