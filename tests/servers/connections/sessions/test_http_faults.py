"""What a caller gets when an HTTP server fails; without help of ours it would wait for its deadline (mcp.md 3.1)."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest_asyncio

from tests.fixtures.mcp_server import HttpMcpServer, free_port
from tests.fixtures.misbehaving_tools import TOGETHER
from tests.servers.connections.peers import (
    BOUND_S,
    QUICK,
    call,
    misbehaving_http,
    plane_of,
    text_of,
    until,
)
from toolweave.config.mcp import McpServerConfig
from toolweave.servers.connections.status import Timing


@pytest_asyncio.fixture
async def peer() -> AsyncIterator[HttpMcpServer]:
    async with misbehaving_http() as server:
        yield server


async def test_a_server_that_forgot_our_session_is_initialised_anew_and_the_call_made_there(
    peer: HttpMcpServer,
) -> None:
    async with plane_of(peer.config) as plane:
        await call(plane, "forget")
        assert text_of(await call(plane, "echo")) == "{}"


async def test_nobody_listening_is_down_with_the_reason() -> None:
    server = McpServerConfig(
        name="peer", transport="http", url=f"http://127.0.0.1:{free_port()}/mcp?key=hunter2hunter2"
    )
    async with plane_of(server) as plane:
        error = str(plane.health()["peer"]["last_error"])
    assert "ConnectError" in error
    assert "hunter2" not in error


async def test_a_server_that_wants_other_credentials_is_down_with_the_status() -> None:
    async with misbehaving_http("unauthorized") as peer, plane_of(peer.config) as plane:
        assert plane.health()["peer"]["last_error"] == "HTTP 401 Unauthorized"


async def test_closing_the_plane_is_not_held_up_by_a_frozen_server(peer: HttpMcpServer) -> None:
    # Nothing but the end of the DELETE may let go of the session: leaving it is given more time than the test has.
    timing = Timing(connect_wait_s=BOUND_S, close_timeout_s=600)
    async with asyncio.timeout(BOUND_S), plane_of(peer.config, timing=timing):
        os.kill(peer.pid, signal.SIGSTOP)
    os.kill(peer.pid, signal.SIGCONT)


async def test_a_frozen_server_is_found_by_the_ping(peer: HttpMcpServer) -> None:
    async with plane_of(peer.config, timing=replace(QUICK, ping_timeout_s=2.0)) as plane:
        os.kill(peer.pid, signal.SIGSTOP)
        await until(plane, "down")
        assert plane.health()["peer"]["last_error"] == "it did not answer a ping within 2 s"
        os.kill(peer.pid, signal.SIGCONT)
        await until(plane, "ready")


async def test_a_server_is_notified_of_many_cancelled_calls_at_once() -> None:
    async with misbehaving_http("gathers") as peer, plane_of(replace(peer.config, timeout_s=600)) as plane:
        waiting = [asyncio.create_task(call(plane, "wait")) for _ in range(TOGETHER)]
        await call(plane, "entered", calls=TOGETHER)
        for each in waiting:
            each.cancel()
        await asyncio.wait(waiting)
        async with asyncio.timeout(BOUND_S):
            while len(json.loads(text_of(await call(plane, "cancelled")))["cancelled"]) < TOGETHER:
                pass  # each look is a round trip
