"""Set up what the tests of the tool plane share: a peer that misbehaves, a quick pace, bounded waits."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Literal, TypeVar

from loguru import logger
from mcp.types import CallToolResult, TextContent

from tests.fixtures.loop_clock import pass_time
from tests.fixtures.mcp_server import HttpMcpServer, http_mcp_server
from toolweave.config.mcp import McpServerConfig
from toolweave.servers.connections.connection import ServerConnection
from toolweave.servers.connections.context import CallContext
from toolweave.servers.connections.observability import CallRecord, Outcome
from toolweave.servers.connections.plane import ToolPlane, open_tool_plane
from toolweave.servers.connections.redaction import Redaction
from toolweave.servers.connections.status import ServerState, Timing

T = TypeVar("T")
BOUND_S = 60.0
LIMIT_S = 30.0
"""A limit of calls that passes only where a test says so; no wait of the tests ends with it."""
MISBEHAVING = str(Path(__file__).parents[2] / "fixtures" / "misbehaving_server.py")
TALKATIVE = str(Path(__file__).parents[2] / "fixtures" / "talkative_server.py")

# A loaded test machine is slow, so waits for something that will come are long and everything else is short. A test of
# a server that is frozen sets the limit of pings.
QUICK = Timing(
    connect_timeout_s=BOUND_S,
    list_timeout_s=BOUND_S,
    connect_wait_s=BOUND_S,
    local_ping_interval_s=0.3,
    remote_ping_interval_s=0.3,
    ping_timeout_s=600.0,
    relist_delay_s=0.02,
    reconnect_delays_s=(0.05,),
    stable_s=0.0,
    retry_delays_s=(0.01, 0.01, 0.01),
    retry_connect_timeout_s=BOUND_S,
)


def misbehaving(*behave: str, name: str = "peer", command: str = sys.executable, **config: Any) -> McpServerConfig:
    """Configure a stdio peer."""
    args = (MISBEHAVING, *(["--behave", *behave] if behave else []))
    return McpServerConfig(name=name, transport="stdio", command=command, args=args, **config)


def talkative(*options: str, name: str = "talk", **config: Any) -> McpServerConfig:
    """Configure a peer that uses notifications, progress and unusual results."""
    return McpServerConfig(
        name=name, transport="stdio", command=sys.executable, args=(TALKATIVE, *options), timeout_s=BOUND_S, **config
    )


@asynccontextmanager
async def misbehaving_http(
    *behave: str, name: str = "peer", transport: Literal["http", "sse"] = "http"
) -> AsyncIterator[HttpMcpServer]:
    """Run a peer over streamable HTTP or SSE."""
    args = (MISBEHAVING, "--transport", transport, "--port", "{port}", *(["--behave", *behave] if behave else []))
    async with http_mcp_server(*args, name=name, transport=transport) as server:
        yield server


@asynccontextmanager
async def plane_of(*configs: McpServerConfig, timing: Timing = QUICK, **options: Any) -> AsyncIterator[ToolPlane]:
    """Open a plane, and wait until each of its servers is ready or has failed to connect."""
    async with open_tool_plane(configs, timing=timing, **options) as plane:
        await plane.wait_for_servers()
        yield plane


def connection(plane: ToolPlane, name: str = "peer") -> ServerConnection:
    return plane._connections[name]


async def until(plane: ToolPlane, *states: ServerState, name: str = "peer") -> None:
    """Wait, bounded, until a server is in one of `states`."""
    async with asyncio.timeout(BOUND_S):
        await connection(plane, name).status.wait_for_state(*states)


async def call(plane: ToolPlane, tool: str, *, server: str = "peer", **arguments: Any) -> CallToolResult:
    """Call a tool, with a bound of our own beside the plane's."""
    async with asyncio.timeout(BOUND_S):
        return await plane.call(server, tool, arguments, CallContext())


async def compile_checks(plane: ToolPlane) -> None:
    """Compile the checks of all arguments, which a first call does on a thread before its limit begins."""
    await plane.wait_for_servers()
    for each in plane._connections.values():
        await asyncio.gather(*(spec.validation_errors("arguments", {}) for spec in each.tools))


async def overdue(plane: ToolPlane, *calls: Coroutine[Any, Any, T]) -> list[T]:
    """Begin calls that get no response, and let their limit pass when the servers have them."""
    await compile_checks(plane)
    begun = [asyncio.create_task(each) for each in calls]
    # Now a call leaves within a few turns of the loop.
    for _ in range(100):
        await asyncio.sleep(0)
    pass_time(LIMIT_S)
    return await asyncio.gather(*begun)


def text_of(result: CallToolResult) -> str:
    assert isinstance(result.content[0], TextContent)
    return result.content[0].text


async def pid_of(plane: ToolPlane, server: str = "peer") -> int:
    return int(text_of(await call(plane, "pid", server=server)))


def failure_kind(result: CallToolResult) -> str | None:
    assert result.isError
    return (result.meta or {}).get("toolweave/failure")


def is_running(pid: int) -> bool:
    """Return whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def ended(pid: int) -> None:
    """Return when a process has ended, also one of another parent."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    gone = asyncio.Event()
    asyncio.get_running_loop().add_reader(process, gone.set)
    try:
        await gone.wait()
    finally:
        asyncio.get_running_loop().remove_reader(process)
        os.close(process)


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208  one call sees one moment


def call_record(
    tool: str = "echo", outcome: Outcome = "ok", *, content: Sequence[dict[str, Any]] = (), **facts: Any
) -> CallRecord:
    """Build the record that an observer gets for a call whose result has this content."""
    result = CallToolResult.model_validate({"content": content})
    given: dict[str, Any] = {"arguments": {}, "context": CallContext(), "redaction": Redaction(misbehaving()), **facts}
    return CallRecord(server="peer", tool=tool, outcome=outcome, result=result, **given)


@contextmanager
def log_records() -> Iterator[list[dict[str, Any]]]:
    """Collect what is logged, as loguru's serialized records."""
    records: list[dict[str, Any]] = []
    sink = logger.add(lambda line: records.append(json.loads(line)["record"]), serialize=True, level="DEBUG")
    try:
        yield records
    finally:
        logger.remove(sink)
