"""Measure calls of the core server: over HTTP at /ai/mcp in a running server, and in-process through the tool plane.

The tool reads a file of a kilobyte. Beside each stands the least there is: a bare FastMCP server with such a tool over
HTTP, and FastMCP's own client in memory. They take turns in short rounds; trust the ratios before single figures.
"""

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import uvloop
from fastmcp import Client
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.fixtures.app_server import OURS, AppProcess
from tests.fixtures.mcp_server import http_mcp_server
from toolweave.config.logs import configure_logging
from toolweave.config.mcp import McpServerConfig
from toolweave.config.settings import Settings
from toolweave.servers.connections.context import CallContext
from toolweave.servers.connections.observability import open_call_log
from toolweave.servers.connections.plane import open_tool_plane
from toolweave.servers.core.server import open_core_server

BARE = str(Path(__file__).parent / "bench_core_server.py")
ROUNDS, PER_ROUND = 30, 20
OVER_HTTP_MS, IN_PROCESS_MS = 4.0, 2.0
TEXT = "".join(f"line {number:04} of the file that is read\n" for number in range(26))

Call = Callable[[], Awaitable[object]]


async def each(call: Call, times: int) -> list[float]:
    taken = []
    for _ in range(times):
        started = time.perf_counter()
        await call()
        taken.append((time.perf_counter() - started) * 1000)
    return taken


async def compare(calls: dict[str, Call], least: str, goals: dict[str, float]) -> None:
    """Print the figures of calls that take turns, and how they stand to the least one."""
    figures: dict[str, list[float]] = {name: [] for name in calls}
    ratios: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        await each(call, 50)
    names = list(calls)
    for number in range(ROUNDS):
        taken = {name: await each(calls[name], PER_ROUND) for name in names[:: 1 if number % 2 else -1]}
        for name in names:
            figures[name] += taken[name]
            ratios[name].append(statistics.median(taken[name]) / statistics.median(taken[least]))
    for name in names:
        goal = f"goal <= {goals[name]:g} ms" if name in goals else ""
        show(name, figures[name], statistics.median(ratios[name]), goal)


def show(label: str, figures: Sequence[float], ratio: float, goal: str) -> None:
    ordered = sorted(figures)
    p99 = ordered[int(len(ordered) * 0.99)]
    print(f"{label:<44} {statistics.median(ordered):6.2f} ms   p99 {p99:6.2f}   {ratio:5.2f} x   {goal}", flush=True)


def over(session: ClientSession, path: str) -> Call:
    async def call() -> None:
        result = await session.call_tool("read_file", {"path": path})
        assert not result.isError, result

    return call


@asynccontextmanager
async def held(url: str) -> AsyncIterator[ClientSession]:
    async with streamable_http_client(url) as (read, write, _), ClientSession(read, write) as session:
        await session.initialize()
        await session.list_tools()
        yield session


async def over_http(folder: Path, path: str) -> None:
    env = {"TOOLWEAVE_MODEL": "offline", "TOOLWEAVE_FILE_ROOTS": str(folder)}
    async with AsyncExitStack() as stack:
        served = AppProcess(OURS, folder / "data", env)
        stack.callback(served.close)
        await asyncio.to_thread(served.start)
        bare = await stack.enter_async_context(http_mcp_server(BARE, "{port}", name="bare"))
        core = await stack.enter_async_context(held(f"{served.url}/ai/mcp"))
        least = await stack.enter_async_context(held(bare.url))
        label = "HTTP: /ai/mcp beside the whole API"
        calls = {label: over(core, path), "HTTP: a bare FastMCP server": over(least, path)}
        await compare(calls, "HTTP: a bare FastMCP server", {label: OVER_HTTP_MS})


async def in_process(folder: Path, path: str) -> None:
    settings = Settings(file_roots=(str(folder),), data_dir=folder / "data")
    builtin = McpServerConfig(name="core", transport="in_process", builtin="core", settings=settings)
    async with (
        open_call_log(folder, "full") as observers,
        open_tool_plane([builtin], observers=observers) as plane,
        open_core_server(settings) as server,
        Client(server) as client,
    ):
        await plane.wait_for_servers(timeout_s=20)

        async def through_the_plane() -> None:
            result = await plane.call("core", "read_file", {"path": path}, CallContext())
            assert not result.isError, result

        label = "in-process: through the tool plane"
        calls = {label: through_the_plane, "in memory: fastmcp.Client": over(client.session, path)}
        await compare(calls, "in memory: fastmcp.Client", {label: IN_PROCESS_MS})


def main() -> None:
    with tempfile.TemporaryDirectory() as name, Path(name, "log").open("w", encoding="utf-8") as log:
        folder = Path(name)
        configure_logging(Settings(data_dir=folder), stream=log)
        file = folder / "file.txt"
        file.write_text(TEXT, encoding="utf-8")
        uvloop.run(over_http(folder, str(file)))
        uvloop.run(in_process(folder, str(file)))


if __name__ == "__main__":
    main()
