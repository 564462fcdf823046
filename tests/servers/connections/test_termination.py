"""A plane starts and ends its servers: none outlives the plane or its process (T-07, T-09)."""

import asyncio
import gc
import json
import os
import signal
import sys
import textwrap
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from tests.fixtures.forked_python import REAL_PYTHON
from tests.fixtures.mcp_server import HttpMcpServer, child_pids, free_port
from tests.servers.connections.faulty import TRANSPORTS
from tests.servers.connections.peers import (
    BOUND_S,
    MISBEHAVING,
    QUICK,
    call,
    ended,
    failure_kind,
    is_running,
    log_records,
    misbehaving,
    misbehaving_http,
    open_files,
    pid_of,
    plane_of,
    text_of,
    until,
)
from toolweave.config.mcp import McpServerConfig
from toolweave.config.mcp_entry import Transport
from toolweave.servers.connections.plane import open_tool_plane
from toolweave.servers.connections.sessions.stdio import parent_death_prefix

over_both = pytest.mark.parametrize("transport", ["http", "sse"])


def spawned(
    transport: Transport, *behave: str, name: str = "peer", port: int | None = None, **config: Any
) -> McpServerConfig:
    """Configure a misbehaving server that the plane starts."""
    port = port or free_port()
    given: dict[str, Any] = {
        "command": sys.executable,
        "args": (MISBEHAVING, "--transport", transport, "--port", str(port), "--behave", *behave),
        **config,
    }
    url = f"http://127.0.0.1:{port}/{'sse' if transport == 'sse' else 'mcp'}"
    return McpServerConfig(name=name, transport=transport, url=url, spawn=True, **given)


async def use_and_lose(http: HttpMcpServer) -> None:
    """Open a plane, use it, lose servers in several ways, and close it with calls open."""
    servers = [
        misbehaving(timeout_s=600),
        misbehaving("exit-at-once", name="exits"),
        misbehaving("hang-initialize", name="hangs"),
        http.config,
        spawned("sse", name="spawned"),
    ]
    async with open_tool_plane(servers, timing=QUICK) as plane:
        await until(plane, "ready")
        await until(plane, "ready", name="http")
        for name in ("peer", "spawned", "spawned"):
            os.kill(await pid_of(plane, name), signal.SIGKILL)
            await until(plane, "down", name=name)
            await until(plane, "ready", name=name)
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
        # A closed transport closes its file in the next rounds of the loop, without an event.
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
    ("processes", "rounds"), [(0, 0), (0, 1), (0, 10), (0, 100), (1, 0), (2, 0), (3, 0), (3, 10), (3, 100)]
)
async def test_a_plane_that_closes_while_its_servers_connect_leaves_nothing_behind(processes: int, rounds: int) -> None:
    async with misbehaving_http(name="http") as http:
        servers = [
            misbehaving(),
            spawned("http", name="spawned"),
            misbehaving("hang-initialize", name="hangs"),
            http.config,
        ]
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


@pytest.mark.requirement("T-09")
@pytest.mark.parametrize(
    ("transport", "number", "loop", "behave"),
    [
        ("stdio", signal.SIGKILL, "asyncio", ()),
        pytest.param("stdio", signal.SIGKILL, "asyncio", ("stubborn",), marks=GUARDED),
        pytest.param("stdio", signal.SIGKILL, "uvloop", ("stubborn",), marks=[GUARDED, pytest.mark.slow]),
        pytest.param("stdio", signal.SIGTERM, "asyncio", (), marks=pytest.mark.slow),
        ("stdio", signal.SIGINT, "uvloop", ("stubborn",)),
        pytest.param("http", signal.SIGKILL, "uvloop", ("stubborn",), marks=GUARDED),
        ("http", signal.SIGINT, "uvloop", ()),
    ],
)
async def test_no_server_outlives_the_process_that_started_it(
    transport: Transport, number: signal.Signals, loop: str, behave: tuple[str, ...]
) -> None:
    server = misbehaving(*behave) if transport == "stdio" else spawned(transport, *behave)
    given = {"transport": server.transport, "args": server.args, "url": server.url, "spawn": server.spawn}
    code = textwrap.dedent(HOST.format(loop=loop))
    host = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, json.dumps(given), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    assert host.stdout is not None
    async with asyncio.timeout(BOUND_S):
        pid = int(await host.stdout.readline())
        assert is_running(pid)
        host.send_signal(number)
        await host.wait()
        await ended(pid)


@pytest.mark.requirement("T-09")
@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_server_that_ignores_every_request_to_end_is_killed(transport: Transport) -> None:
    stubborn = misbehaving("stubborn", command=REAL_PYTHON)
    if transport != "stdio":
        stubborn = spawned(transport, "stubborn", command=REAL_PYTHON)
    async with plane_of(stubborn, timing=replace(QUICK, close_timeout_s=0.3)) as plane:
        pid = await pid_of(plane)
    assert not is_running(pid)


@over_both
async def test_a_spawned_server_is_replaced_when_it_dies_or_the_operator_reconnects(transport: Transport) -> None:
    async with open_tool_plane([spawned(transport, timeout_s=600)], timing=QUICK) as plane:
        pid = await pid_of(plane)
        waiting = asyncio.create_task(call(plane, "wait"))
        await call(plane, "entered", calls=1)
        os.kill(pid, signal.SIGKILL)
        assert failure_kind(await waiting) == "transport"
        await until(plane, "down")
        assert plane.health()["peer"]["last_error"]
        await until(plane, "ready")
        second = await pid_of(plane)
        await plane.reconnect("peer")
        assert len({pid, second, await pid_of(plane)}) == 3
        assert not is_running(second)


@over_both
async def test_a_spawned_server_that_exits_at_once_is_down_with_its_reason_and_rests(transport: Transport) -> None:
    timing = replace(QUICK, max_quick_exits=2, long_delay_s=600, stable_s=1.0)
    async with open_tool_plane([spawned(transport, "exit-at-once")], timing=timing) as plane:
        with log_records() as records:
            await until(plane, "down")
        error = str(plane.health()["peer"]["last_error"])
        assert error == "its process exited with code 1; its last output: no key: set MISBEHAVING_KEY"
        assert [r for r in records if r["message"] == "peer: no key: set MISBEHAVING_KEY"]
        connection = plane._connections["peer"]
        async with asyncio.timeout(BOUND_S):
            while not connection._backoff.is_crash_looping:
                await connection.status.wait_for_change()
        assert failure_kind(await call(plane, "echo")) == "transport"
        assert child_pids(MISBEHAVING) == []


async def test_a_program_that_is_missing_or_never_serves_is_down_with_the_reason() -> None:
    missing = spawned("http", command="no-such-program")
    idle = spawned("http", name="idle", args=("-c", "import time; time.sleep(600)"))
    async with open_tool_plane([missing, idle], timing=replace(QUICK, connect_timeout_s=0.3)) as plane:
        for name in ("peer", "idle"):
            await until(plane, "down", name=name)
        errors = [health["last_error"] for health in plane.health().values()]
    assert errors == ["no-such-program was not found", "it was not ready within 0.3 s"]


async def test_a_port_that_another_process_serves_is_not_mistaken_for_our_server() -> None:
    async with misbehaving_http(name="other") as other:
        config = spawned("http", port=other.port)
        async with open_tool_plane([config], timing=QUICK) as plane:
            await until(plane, "down")
            assert "another process already listens on 127.0.0.1:" in str(plane.health()["peer"]["last_error"])
            assert child_pids(MISBEHAVING) == [other.pid]
            await other.kill()
            await until(plane, "ready")


@over_both
async def test_a_spawned_server_has_the_configured_environment_and_its_output_is_logged(transport: Transport) -> None:
    config = spawned(transport, env={"KEY": "hunter2hunter2", "COLOUR": "ultramarine"})
    with log_records() as records:
        async with open_tool_plane([config], timing=QUICK) as plane:
            await call(plane, "say", text="the key is hunter2hunter2")
            await call(plane, "print", text="to stdout")
            env = json.loads(text_of(await call(plane, "env")))
    messages = [record["message"] for record in records if record["extra"].get("server") == "peer"]
    assert "peer: the key is ***" in messages
    assert "peer: to stdout" in messages
    assert (env["KEY"], env["COLOUR"]) == ("***", "ultramarine")
    assert "PYTEST_CURRENT_TEST" not in env
