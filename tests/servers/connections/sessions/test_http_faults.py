"""What a caller gets when an HTTP server fails; without help of ours it would wait for its deadline (mcp.md 3.1)."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from tests.fixtures.mcp_server import HttpMcpServer, free_port
from tests.fixtures.misbehaving_tools import TOGETHER
from tests.servers.connections.peers import (
    BOUND_S,
    QUICK,
    call,
    connection,
    failure_kind,
    misbehaving_http,
    pid_of,
    text_of,
    until,
)
from toolweave.config.mcp import McpServerConfig
from toolweave.servers.connections.plane import ToolPlane, open_tool_plane
from toolweave.servers.connections.status import Timing


@pytest_asyncio.fixture
async def peer() -> AsyncIterator[HttpMcpServer]:
    async with misbehaving_http() as server:
        yield server


@pytest_asyncio.fixture
async def gathering() -> AsyncIterator[HttpMcpServer]:
    async with misbehaving_http("gathers") as server:
        yield server


@pytest_asyncio.fixture
async def plane(peer: HttpMcpServer) -> AsyncIterator[ToolPlane]:
    # No call in these tests may be answered by its deadline.
    async with open_tool_plane([replace(peer.config, timeout_s=600)], timing=QUICK) as plane:
        await plane.wait_for_servers()
        yield plane


@pytest.mark.parametrize("code", [400, 429, 500, 503])
async def test_an_error_status_fails_its_own_call_at_once_and_no_other(
    plane: ToolPlane, code: int, tmp_path: Path
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    other = asyncio.create_task(call(plane, "fifo", path=str(pipe)))
    await call(plane, "echo")
    result = await call(plane, "status", code=code)
    assert failure_kind(result) == "transport"
    assert not other.done()
    await asyncio.to_thread(pipe.write_text, "at last", "utf-8")
    assert text_of(await other) == "at last"
    assert plane.health()["peer"]["state"] == "ready"


async def test_a_body_that_is_not_mcp_is_a_protocol_failure_at_once(plane: ToolPlane) -> None:
    assert failure_kind(await call(plane, "html")) == "protocol"
    assert text_of(await call(plane, "echo")) == "{}"


async def test_an_event_stream_that_is_cut_before_the_answer_fails_the_call_at_once(plane: ToolPlane) -> None:
    assert failure_kind(await call(plane, "cut")) == "transport"
    assert text_of(await call(plane, "echo")) == "{}"


async def test_a_server_that_dies_in_a_call_fails_the_open_calls_at_once(plane: ToolPlane, peer: HttpMcpServer) -> None:
    waiting = [asyncio.create_task(call(plane, "sleep", seconds=600)) for _ in range(3)]
    await call(plane, "echo")
    await peer.kill()
    async with asyncio.timeout(BOUND_S):
        results = await asyncio.gather(*waiting)
    assert {failure_kind(result) for result in results} == {"transport"}


async def test_a_server_that_dies_while_idle_is_down_and_its_successor_on_the_port_is_used(
    plane: ToolPlane, peer: HttpMcpServer
) -> None:
    pid = await pid_of(plane)
    await peer.kill()
    async with asyncio.timeout(BOUND_S):
        # What is noticed first may be the end of a stream that was open.
        while "ConnectError" not in str(plane.health()["peer"]["last_error"]):
            await connection(plane).status.wait_for_change()
    assert failure_kind(await call(plane, "echo")) == "transport"
    await peer.start()
    await until(plane, "ready")
    assert await pid_of(plane) not in (pid, 0)


async def test_a_server_that_forgot_our_session_is_initialised_anew_and_the_call_made_there(plane: ToolPlane) -> None:
    await call(plane, "forget")
    assert text_of(await call(plane, "echo")) == "{}"


async def test_nobody_listening_is_down_with_the_reason() -> None:
    server = McpServerConfig(
        name="peer", transport="http", url=f"http://127.0.0.1:{free_port()}/mcp?key=hunter2hunter2"
    )
    async with open_tool_plane([server], timing=QUICK) as plane:
        await until(plane, "down")
        error = str(plane.health()["peer"]["last_error"])
    assert "ConnectError" in error
    assert "hunter2" not in error


async def test_a_server_that_wants_other_credentials_is_down_with_the_status() -> None:
    async with misbehaving_http("unauthorized") as peer, open_tool_plane([peer.config], timing=QUICK) as plane:
        await until(plane, "down")
        assert plane.health()["peer"]["last_error"] == "HTTP 401 Unauthorized"


async def test_closing_the_plane_is_not_held_up_by_a_frozen_server(peer: HttpMcpServer) -> None:
    # Nothing but the end of the DELETE may let go of the session: leaving it is given more time than the test has.
    timing = Timing(connect_wait_s=BOUND_S, close_timeout_s=600)
    async with asyncio.timeout(BOUND_S), open_tool_plane([peer.config], timing=timing) as plane:
        await plane.wait_for_servers()
        os.kill(peer.pid, signal.SIGSTOP)
    os.kill(peer.pid, signal.SIGCONT)


async def test_a_frozen_server_is_found_by_the_ping(peer: HttpMcpServer) -> None:
    async with open_tool_plane([peer.config], timing=replace(QUICK, ping_timeout_s=2.0)) as plane:
        await plane.wait_for_servers()
        os.kill(peer.pid, signal.SIGSTOP)
        await until(plane, "down")
        assert plane.health()["peer"]["last_error"] == "it did not answer a ping within 2 s"
        os.kill(peer.pid, signal.SIGCONT)
        await until(plane, "ready")


async def test_a_server_is_told_of_many_cancelled_calls_at_once(gathering: HttpMcpServer) -> None:
    config = replace(gathering.config, timeout_s=600)
    async with open_tool_plane([config], timing=QUICK) as plane:
        await plane.wait_for_servers()
        waiting = [asyncio.create_task(call(plane, "wait")) for _ in range(TOGETHER)]
        await call(plane, "entered", calls=TOGETHER)
        for each in waiting:
            each.cancel()
        await asyncio.wait(waiting)
        async with asyncio.timeout(BOUND_S):
            while len(json.loads(text_of(await call(plane, "cancelled")))["cancelled"]) < TOGETHER:
                pass  # each look is a round trip
