"""Run one misbehaving server over any transport in a plane, beside a server that it must not affect."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from mcp.types import CallToolResult

from tests.fixtures.forked_python import REAL_PYTHON
from tests.fixtures.mcp_server import HttpMcpServer
from tests.servers.connections.peers import BOUND_S, QUICK, call, misbehaving, misbehaving_http, pid_of, until
from toolweave.config.mcp_entry import BreakerRules, Transport
from toolweave.servers.connections.context import CallContext
from toolweave.servers.connections.plane import ToolPlane, open_tool_plane
from toolweave.servers.connections.status import Timing

TRANSPORTS: tuple[Transport, ...] = ("stdio", "http", "sse")
OBLIGING = BreakerRules(failures=1_000, recovery_s=0.001)
"""A breaker that delays no test."""

TIMING = replace(QUICK, retry_delays_s=(0.01, 0.01, 0.01), max_quick_exits=1_000)
NEVER_S = 600.0
"""A deadline that passes in no test."""


@dataclass
class Faulty:
    """The plane, and the control of the server that misbehaves in it."""

    plane: ToolPlane
    transport: Transport
    remote: HttpMcpServer | None

    async def call(self, tool: str, **arguments: Any) -> CallToolResult:
        return await call(self.plane, tool, **arguments)

    async def kill(self) -> None:
        if self.remote is not None:
            await self.remote.kill()
        else:
            os.kill(await pid_of(self.plane), signal.SIGKILL)

    async def bring_back(self) -> None:
        """Start a remote server again, and wait until the plane uses it."""
        if self.remote is not None:
            await self.remote.start()
        await self.recovered()

    async def recovered(self) -> None:
        """Wait, bounded, until the plane serves calls of this server by itself."""
        async with asyncio.timeout(BOUND_S):
            while (await self.call("echo")).isError:
                await until(self.plane, "ready")


@asynccontextmanager
async def faulty(
    transport: Transport, *behave: str, timeout_s: float = NEVER_S, timing: Timing = TIMING, settled: bool = True
) -> AsyncIterator[Faulty]:
    """Open a plane with the server and a bystander, whose process and open call the block must not touch."""
    async with AsyncExitStack() as stack:
        remote = None
        # What a server started ends with the group of its process.
        config = misbehaving(*behave, command=REAL_PYTHON if "leaves-a-child" in behave else sys.executable)
        if transport == "http" or transport == "sse":
            remote = await stack.enter_async_context(misbehaving_http("listens", *behave, transport=transport))
            config = remote.config
        config = replace(config, timeout_s=timeout_s, breaker=OBLIGING)
        bystander = misbehaving(name="bystander", timeout_s=NEVER_S)
        plane = await stack.enter_async_context(open_tool_plane([config, bystander], timing=timing))
        await plane.wait_for_servers(["peer", "bystander"] if settled else ["bystander"])
        await until(plane, "ready", name="bystander")
        pid = await pid_of(plane, "bystander")
        # Without the bound of other calls: many a block lasts longer.
        open_call = asyncio.create_task(plane.call("bystander", "wait", {}, CallContext()))
        yield Faulty(plane, transport, remote)
        assert not open_call.done()
        await call(plane, "release", server="bystander")
        assert not (await open_call).isError
        assert await pid_of(plane, "bystander") == pid
