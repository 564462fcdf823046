"""What is left when a plane closes, or when its process dies: nothing (T-09)."""

import asyncio
import gc
import json
import os
import signal
import sys
import textwrap
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.fixtures.mcp_server import HttpMcpServer, child_pids
from tests.servers.connections.peers import (
    BOUND_S,
    MISBEHAVING,
    QUICK,
    call,
    ended,
    is_running,
    misbehaving,
    misbehaving_http,
    open_files,
    pid_of,
    until,
)
from toolweave.config.mcp import McpServerConfig
from toolweave.servers.connections.plane import open_tool_plane
from toolweave.servers.connections.sessions.stdio import parent_death_prefix


async def use_and_lose(http: HttpMcpServer) -> None:
    """Open a plane, use it, lose servers in several ways, and close it with calls open."""
    servers = [
        misbehaving(timeout_s=600),
        misbehaving("exit-at-once", name="exits"),
        misbehaving("hang-initialize", name="hangs"),
        http.config,
    ]
    async with open_tool_plane(servers, timing=QUICK) as plane:
        await until(plane, "ready")
        await until(plane, "ready", name="http")
        os.kill(await pid_of(plane), signal.SIGKILL)
        await until(plane, "down")
        await until(plane, "ready")
        await call(plane, "status", server="http", code=503)
        open_calls = [asyncio.create_task(call(plane, "sleep", server=name, seconds=600)) for name in ("peer", "http")]
        await call(plane, "echo")
    await asyncio.gather(*open_calls)


@asynccontextmanager
async def nothing_left() -> AsyncIterator[None]:
    """Check that the block leaves no task, child or file behind."""
    gc.collect()
    tasks, files = asyncio.all_tasks(), open_files()
    yield
    gc.collect()
    async with asyncio.timeout(BOUND_S):
        # A closed transport lets go of its file in the loop's next rounds, and no event tells of it.
        while open_files() > files or asyncio.all_tasks() != tasks:  # noqa: ASYNC110
            await asyncio.sleep(0)


@pytest.mark.requirement("T-09")
async def test_a_plane_leaves_no_process_no_task_and_no_open_file_behind() -> None:
    async with misbehaving_http(name="http") as http:
        await use_and_lose(http)
        async with nothing_left():
            await use_and_lose(http)
    assert child_pids(MISBEHAVING) == []


@pytest.mark.requirement("T-09")
async def test_an_error_in_the_block_closes_the_plane_and_is_raised() -> None:
    pids = []

    async def fail() -> None:
        async with open_tool_plane([misbehaving()], timing=QUICK) as plane:
            pids.append(await pid_of(plane))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    assert [is_running(pid) for pid in pids] == [False]


@pytest.mark.requirement("T-09")
@pytest.mark.parametrize(
    ("processes", "rounds"), [(0, 0), (0, 1), (0, 10), (0, 100), (1, 0), (2, 0), (2, 10), (2, 100)]
)
async def test_a_plane_that_closes_while_its_servers_connect_leaves_nothing_behind(processes: int, rounds: int) -> None:
    async with misbehaving_http(name="http") as http:
        servers = [misbehaving(), misbehaving("hang-initialize", name="hangs"), http.config]
        async with nothing_left(), open_tool_plane(servers, timing=QUICK):
            await moment(processes + 1, rounds)
        assert child_pids(MISBEHAVING) == [http.pid]


async def moment(processes: int, rounds: int) -> None:
    """Wait until so many servers have been started, and for so many rounds of the loop: a moment in connecting."""
    async with asyncio.timeout(BOUND_S):
        while len(child_pids(MISBEHAVING)) < processes:  # noqa: ASYNC110
            await asyncio.sleep(0)
    for _ in range(rounds):
        await asyncio.sleep(0)


GUARDED = pytest.mark.skipif(
    not parent_death_prefix() and "CI" not in os.environ, reason="needs util-linux's setpriv with --pdeathsig"
)
HOST = """
    import asyncio, json, sys, {loop}
    from toolweave.config.mcp import McpServerConfig
    from toolweave.servers.connections.context import CallContext
    from toolweave.servers.connections.plane import open_tool_plane

    async def main():
        server = McpServerConfig(name="peer", command=sys.executable, **json.loads(sys.argv[1]))
        async with open_tool_plane([server]) as plane:
            await plane.wait_for_servers(timeout_s=60)
            print((await plane.call("peer", "pid", {{}}, CallContext())).content[0].text, flush=True)
            await asyncio.Event().wait()

    asyncio.Runner(loop_factory={loop}.new_event_loop).run(main())
"""


async def ends_with_its_host(server: McpServerConfig, number: signal.Signals, loop: str) -> None:
    """Start a process that connects to the server, end that process by the signal, and wait for the server's end."""
    given = {"transport": server.transport, "args": server.args, "url": server.url, "spawn": server.spawn}
    code = textwrap.dedent(HOST.format(loop=loop))
    host = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        code,
        json.dumps(given),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert host.stdout is not None
    async with asyncio.timeout(BOUND_S):
        pid = int(await host.stdout.readline())
        assert is_running(pid)
        host.send_signal(number)
        await host.wait()
        await ended(pid)


@pytest.mark.requirement("T-09")
@pytest.mark.parametrize(
    ("number", "loop", "behave"),
    [
        (signal.SIGKILL, "asyncio", ()),
        pytest.param(signal.SIGKILL, "asyncio", ("stubborn",), marks=GUARDED),
        pytest.param(signal.SIGKILL, "uvloop", ("stubborn",), marks=[GUARDED, pytest.mark.slow]),
        pytest.param(signal.SIGTERM, "asyncio", (), marks=pytest.mark.slow),
        (signal.SIGINT, "uvloop", ("stubborn",)),
    ],
)
async def test_no_server_outlives_the_process_that_started_it(
    number: signal.Signals, loop: str, behave: tuple[str, ...]
) -> None:
    await ends_with_its_host(misbehaving(*behave), number, loop)
