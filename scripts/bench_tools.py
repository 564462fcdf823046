"""Compare a tool call through the whole tool plane with one over a raw held session and with the adapter's default.

Everything on: checked arguments, breaker, deadline, `_meta`, call log, figures. All three call the same server program;
raw and plane take turns in short rounds, so that both see the same machine. Trust the ratios before single figures.
"""

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import uvloop
from langchain_core.tools import BaseTool
from langchain_mcp_adapters.client import MultiServerMCPClient
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.fixtures.mcp_server import http_mcp_server
from toolweave.config.logs import configure_logging
from toolweave.config.mcp import McpServerConfig
from toolweave.config.settings import Settings
from toolweave.servers.connections.observability import open_call_log
from toolweave.servers.connections.plane import ToolPlane, open_tool_plane

SERVER = str(Path(__file__).parent / "bench_tools_server.py")
ROUNDS, PER_ROUND, AT_ONCE, DEFAULT_CALLS = 40, 25, 100, 8
GOALS = {"stdio": 1.5, "http": 1.3}

Call = Callable[[], Awaitable[object]]


def through(tool: BaseTool) -> Call:
    """Call a tool as the tool node does: with the ids of a run."""

    async def call() -> None:
        request = {"type": "tool_call", "name": tool.name, "args": {"text": "hello"}, "id": uuid4().hex}
        ids = {"configurable": {"thread_id": "bench", "run_id": "bench"}}
        message = await tool.ainvoke(request, ids)
        assert message.content == "hello", message

    return call


def over(session: ClientSession) -> Call:
    async def call() -> None:
        result = await session.call_tool("echo", {"text": "hello"})
        assert not result.isError

    return call


async def each(call: Call, times: int) -> list[float]:
    taken = []
    for _ in range(times):
        started = time.perf_counter()
        await call()
        taken.append((time.perf_counter() - started) * 1000)
    return taken


async def together(call: Call) -> float:
    started = time.perf_counter()
    await asyncio.gather(*(call() for _ in range(AT_ONCE)))
    return (time.perf_counter() - started) * 1000


async def compare(transport: str, raw: Call, plane: Call, default: Call) -> None:
    """Print one transport's table."""
    for warm_up in (raw, plane):
        await each(warm_up, 50)
    raw_ms: list[float] = []
    plane_ms: list[float] = []
    ratios, burst_ratios, raw_bursts, plane_bursts = [], [], [], []
    for number in range(ROUNDS):
        order = [(raw, raw_ms), (plane, plane_ms)]
        taken = {id(figures): await each(call, PER_ROUND) for call, figures in order[:: 1 if number % 2 else -1]}
        ratios.append(statistics.median(taken[id(plane_ms)]) / statistics.median(taken[id(raw_ms)]))
        raw_ms += taken[id(raw_ms)]
        plane_ms += taken[id(plane_ms)]
    for _ in range(7):
        raw_bursts.append(await together(raw))
        plane_bursts.append(await together(plane))
        burst_ratios.append(plane_bursts[-1] / raw_bursts[-1])
    default_ms = await each(default, DEFAULT_CALLS)
    show(f"{transport}: raw held session", raw_ms)
    show(f"{transport}: the whole plane", plane_ms)
    show_ratio("  to the raw session", statistics.median(ratios), f"goal <= {GOALS[transport]}")
    show(f"{transport}: the adapter's default, a session per call", default_ms)
    goal = "goal >= 100" if transport == "stdio" else ""
    show_ratio("  the plane is faster by", statistics.median(default_ms) / statistics.median(plane_ms), goal)
    show(f"{transport}: {AT_ONCE} calls at once, raw", raw_bursts)
    show(f"{transport}: {AT_ONCE} calls at once, the plane", plane_bursts)
    show_ratio("  to the raw session", statistics.median(burst_ratios), "goal <= 1.5")


def show(label: str, figures: Sequence[float]) -> None:
    ordered = sorted(figures)
    p99 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
    print(f"{label:<52} {statistics.median(ordered):8.2f} ms   (p99 {p99:.2f}, {len(ordered)} taken)")


def show_ratio(label: str, ratio: float, goal: str) -> None:
    print(f"{label:<52} {ratio:8.2f} x    {goal}")


@asynccontextmanager
async def raw_stdio() -> AsyncIterator[ClientSession]:
    parameters = StdioServerParameters(command=sys.executable, args=[SERVER])
    async with stdio_client(parameters) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        yield session


@asynccontextmanager
async def raw_http(url: str) -> AsyncIterator[ClientSession]:
    async with streamable_http_client(url) as (read, write, _), ClientSession(read, write) as session:
        await session.initialize()
        yield session


async def adapters_default(connection: dict[str, Any]) -> Call:
    client = MultiServerMCPClient({"bench": connection})  # type: ignore[dict-item]
    tool = next(each for each in await client.get_tools() if each.name == "echo")

    async def call() -> None:
        await tool.ainvoke({"text": "hello"})

    return call


async def echo_of(plane: ToolPlane) -> BaseTool:
    await plane.wait_for_servers(timeout_s=20)
    return next(tool for tool in await plane.tools() if tool.name == "bench_echo")


async def over_stdio(folder: Path) -> None:
    server = McpServerConfig(name="bench", transport="stdio", command=sys.executable, args=(SERVER,))
    async with (
        open_call_log(folder, "full") as observers,
        open_tool_plane([server], observers=observers) as plane,
        raw_stdio() as session,
    ):
        default = await adapters_default({"transport": "stdio", "command": sys.executable, "args": [SERVER]})
        await compare("stdio", over(session), through(await echo_of(plane)), default)


async def over_http(folder: Path) -> None:
    async with (
        http_mcp_server(SERVER, "{port}", name="bench") as server,
        open_call_log(folder, "full") as observers,
        open_tool_plane([server.config], observers=observers) as plane,
        raw_http(server.url) as session,
    ):
        default = await adapters_default({"transport": "streamable_http", "url": server.url})
        await compare("http", over(session), through(await echo_of(plane)), default)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, Path(folder, "log").open("w", encoding="utf-8") as log:
        configure_logging(Settings(data_dir=Path(folder)), stream=log)
        uvloop.run(over_stdio(Path(folder)))
        uvloop.run(over_http(Path(folder)))


if __name__ == "__main__":
    main()
