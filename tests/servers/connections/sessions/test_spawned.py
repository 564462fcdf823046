"""A server with `spawn: true` is started by us, reached by its URL, and ends with its connection (T-07, T-09)."""

import asyncio
import json
import os
import signal
import sys
from dataclasses import replace
from typing import Any

import pytest

from tests.fixtures.forked_python import REAL_PYTHON
from tests.fixtures.mcp_server import child_pids, free_port
from tests.servers.connections.peers import (
    BOUND_S,
    MISBEHAVING,
    QUICK,
    call,
    failure_kind,
    is_running,
    log_records,
    misbehaving_http,
    pid_of,
    plane_of,
    text_of,
    until,
)
from tests.servers.connections.test_termination import GUARDED, ends_with_its_host, moment, nothing_left
from toolweave.config.mcp import McpServerConfig
from toolweave.config.mcp_entry import Transport
from toolweave.servers.connections.plane import open_tool_plane

over_both = pytest.mark.parametrize("transport", ["http", "sse"])
PATHS = {"http": "/mcp", "sse": "/sse"}


def spawned(transport: Transport, *behave: str, port: int | None = None, **config: Any) -> McpServerConfig:
    """Configure a misbehaving server that the plane starts."""
    port = port or free_port()
    given: dict[str, Any] = {
        "command": sys.executable,
        "args": (MISBEHAVING, "--transport", transport, "--port", str(port), "--behave", *behave),
        **config,
    }
    url = f"http://127.0.0.1:{port}{PATHS[transport]}"
    return McpServerConfig(name="peer", transport=transport, url=url, spawn=True, **given)


@over_both
@pytest.mark.requirement("T-07")
async def test_a_server_is_started_used_and_ended_with_the_plane(transport: Transport) -> None:
    async with plane_of(spawned(transport, command=REAL_PYTHON)) as plane:
        [pid] = child_pids(MISBEHAVING)
        assert await pid_of(plane) == pid
    assert not is_running(pid)


@over_both
async def test_a_server_that_dies_fails_its_calls_at_once_and_is_started_again(transport: Transport) -> None:
    async with open_tool_plane([spawned(transport, timeout_s=600)], timing=QUICK) as plane:
        pid = await pid_of(plane)
        waiting = asyncio.create_task(call(plane, "wait"))
        await call(plane, "entered", calls=1)
        os.kill(pid, signal.SIGKILL)
        assert failure_kind(await waiting) == "transport"
        await until(plane, "down")
        assert plane.health()["peer"]["last_error"]
        await until(plane, "ready")
        assert await pid_of(plane) != pid


async def test_a_reconnect_that_is_asked_for_starts_the_server_anew() -> None:
    async with open_tool_plane([spawned("http")], timing=QUICK) as plane:
        pid = await pid_of(plane)
        await plane.reconnect("peer")
        assert await pid_of(plane) != pid
        assert not is_running(pid)


@over_both
async def test_a_server_that_ends_at_once_is_down_with_its_reason_and_rests(transport: Transport) -> None:
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


async def test_a_program_that_does_not_exist_is_named() -> None:
    async with open_tool_plane([spawned("http", command="no-such-program")], timing=QUICK) as plane:
        await until(plane, "down")
        assert plane.health()["peer"]["last_error"] == "no-such-program was not found"


async def test_a_program_that_never_serves_is_given_up_and_ended() -> None:
    idle = spawned("http", args=("-c", "import time; time.sleep(600)"))
    async with open_tool_plane([idle], timing=replace(QUICK, connect_timeout_s=0.3)) as plane:
        await until(plane, "down")
        assert plane.health()["peer"]["last_error"] == "it was not ready within 0.3 s"


async def test_a_port_that_somebody_else_serves_is_not_taken_for_our_server() -> None:
    async with misbehaving_http(name="other") as other:
        config = spawned("http", port=other.port)
        async with open_tool_plane([config], timing=QUICK) as plane:
            await until(plane, "down")
            assert "another process already listens on 127.0.0.1:" in str(plane.health()["peer"]["last_error"])
            assert child_pids(MISBEHAVING) == [other.pid]
            await other.kill()
            await until(plane, "ready")


@over_both
async def test_what_it_writes_is_in_our_log_and_its_environment_is_the_configured_one(transport: Transport) -> None:
    config = spawned(transport, env={"KEY": "hunter2hunter2", "COLOUR": "ultramarine"})
    with log_records() as records:
        async with open_tool_plane([config], timing=QUICK) as plane:
            await call(plane, "say", text="the key is hunter2hunter2")
            await call(plane, "print", text="to stdout")
            env = json.loads(text_of(await call(plane, "env")))
    said = [record["message"] for record in records if record["extra"].get("server") == "peer"]
    assert "peer: the key is ***" in said
    assert "peer: to stdout" in said
    assert (env["KEY"], env["COLOUR"]) == ("***", "ultramarine")
    assert "PYTEST_CURRENT_TEST" not in env


@over_both
async def test_a_stubborn_server_is_killed(transport: Transport) -> None:
    stubborn = spawned(transport, "stubborn", command=REAL_PYTHON)
    async with open_tool_plane([stubborn], timing=replace(QUICK, close_timeout_s=0.3)) as plane:
        pid = await pid_of(plane)
    assert not is_running(pid)


@pytest.mark.parametrize(("processes", "rounds"), [(0, 0), (0, 10), (1, 0), (1, 100)])
async def test_a_plane_that_closes_while_its_server_starts_leaves_nothing_behind(processes: int, rounds: int) -> None:
    async with plane_of(spawned("http")):
        pass
    async with nothing_left(), open_tool_plane([spawned("http"), spawned("sse")], timing=QUICK):
        await moment(processes, rounds)
    assert child_pids(MISBEHAVING) == []


async def test_a_plane_that_loses_its_server_again_and_again_leaves_nothing_behind() -> None:
    async def lose() -> None:
        async with open_tool_plane([spawned("sse")], timing=QUICK) as plane:
            for _ in range(3):
                os.kill(await pid_of(plane), signal.SIGKILL)
                await until(plane, "down")
                await until(plane, "ready")

    await lose()
    async with nothing_left():
        await lose()
    assert child_pids(MISBEHAVING) == []


@pytest.mark.parametrize(
    ("number", "behave"), [pytest.param(signal.SIGKILL, ("stubborn",), marks=GUARDED), (signal.SIGINT, ())]
)
@pytest.mark.requirement("T-09")
async def test_no_spawned_server_outlives_the_process_that_started_it(
    number: signal.Signals, behave: tuple[str, ...]
) -> None:
    await ends_with_its_host(spawned("http", *behave), number, "uvloop")
