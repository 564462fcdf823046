"""/health shows the state of the process, /health/live that it runs, /health/ready whether it can serve (T-06)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.api.routes.lifespans import configured, peer, running
from tests.fixtures.mcp_server import free_port
from toolweave.servers.connections.context import CallContext
from toolweave.servers.connections.plane import ToolPlane

GOOD = peer(tools={"include": ["echo", "fail"]})
MISSING = {"command": "/no/such/command"}
UNSET = {"command": "{env:ABSENT_VARIABLE}"}
OFF = {"command": "never-run", "enabled": False}
BOUND_S = 20.0


@pytest.mark.parametrize(
    ("servers", "status", "detail", "states"),
    [
        ({}, "degraded", "No MCP tools available", {}),
        ({"good": GOOD, "off": OFF}, "ok", None, {"good": "ready", "off": "disabled"}),
        ({"off": OFF}, "degraded", "No MCP tools available", {"off": "disabled"}),
        ({"none": peer("no-tools")}, "degraded", "No MCP tools available", {"none": "ready"}),
        ({"none": peer("no-tools"), "good": GOOD}, "ok", None, {"none": "ready", "good": "ready"}),
        (
            {"good": GOOD, "gone": MISSING, "unset": UNSET},
            "degraded",
            "MCP servers not ready: gone (down), unset (misconfigured)",
            {"good": "ready", "gone": "down", "unset": "misconfigured"},
        ),
    ],
)
@pytest.mark.requirement("T-06")
async def test_health_is_200_and_names_the_servers_that_are_not_ready_and_missing_tools(
    tmp_path: Path, servers: dict[str, Any], status: str, detail: str | None, states: dict[str, str]
) -> None:
    async with running(configured(tmp_path, servers)) as (_, http):
        answer = await http.get("/health")
    health = answer.json()
    assert (answer.status_code, health["status"], health.get("detail")) == (200, status, detail)
    assert {name: server["state"] for name, server in health["servers"].items()} == states
    assert health["model"] == "offline"


async def test_a_server_is_shown_with_its_breaker_its_tools_its_last_error_and_once_called_its_latency(
    tmp_path: Path,
) -> None:
    async with running(configured(tmp_path, {"good": GOOD, "gone": MISSING})) as (app, http):
        before = (await http.get("/health")).json()["servers"]
        tools = {tool.name: tool for tool in await app.state.plane.tools()}
        await tools["good_echo"].ainvoke({})
        after = (await http.get("/health")).json()["servers"]
    assert before["good"] | {"since": ""} == {
        "state": "ready",
        "breaker": "CLOSED",
        "tools": 2,
        "last_error": None,
        "since": "",
    }
    assert "/no/such/command" in before["gone"]["last_error"]
    latency = after["good"]["latency_ms"]
    assert 0 < latency["p50"] <= latency["p99"]
    assert "latency_ms" not in after["gone"]


async def shown(http: httpx.AsyncClient) -> tuple[str, str | None, str]:
    """Return the status and detail of /health, and the breaker of the server `good`."""
    health = (await http.get("/health")).json()
    return health["status"], health.get("detail"), health["servers"]["good"]["breaker"]


@pytest.mark.requirement("T-06")
async def test_health_is_degraded_and_names_the_server_while_its_breaker_is_open_or_its_probe_is_in_flight(
    tmp_path: Path,
) -> None:
    servers = {"good": peer(breaker={"failures": 1, "recovery_s": 3_600}, timeout_s=60), "other": GOOD}
    async with running(configured(tmp_path, servers)) as (app, http):
        plane: ToolPlane = app.state.plane
        await plane.call("good", "wrong_shape", {}, CallContext())
        assert await shown(http) == ("degraded", "MCP servers not ready: good (breaker OPEN)", "OPEN")
        await http.post("/servers/good/reconnect")
        assert await shown(http) == ("ok", None, "HALF_OPEN")
        probe = asyncio.create_task(plane.call("good", "wait", {}, CallContext()))
        async with asyncio.timeout(BOUND_S):
            while (now := await shown(http)) == ("ok", None, "HALF_OPEN"):
                await asyncio.wait([probe], timeout=0)
        assert now == ("degraded", "MCP servers not ready: good (breaker HALF_OPEN)", "HALF_OPEN")
        probe.cancel()
        await asyncio.gather(probe, return_exceptions=True)
        await plane.call("good", "echo", {}, CallContext())
        assert await shown(http) == ("ok", None, "CLOSED")


@pytest.mark.requirement("T-06")
async def test_health_names_a_server_with_an_open_breaker_also_when_there_is_no_tool_left(tmp_path: Path) -> None:
    servers = {"good": peer(breaker={"failures": 1, "recovery_s": 3_600})}
    async with running(configured(tmp_path, servers)) as (app, http):
        plane: ToolPlane = app.state.plane
        await plane.call("good", "wrong_shape", {}, CallContext())
        await plane.stop()
        detail = "No MCP tools available. MCP servers not ready: good (down, breaker OPEN)"
        assert await shown(http) == ("degraded", detail, "OPEN")


@asynccontextmanager
async def api_that_sends(response: bytes | None) -> AsyncIterator[str]:
    """Run an API that responds to every request with these bytes, or never."""
    writers: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        if response is not None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(response)
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for writer in writers:
            writer.close()
        await server.wait_closed()


READY = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"
BROKEN = b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n"
NO_DATABASE = {"status": "unavailable", "detail": "The database does not answer."}


@pytest.mark.requirement("T-06")
@pytest.mark.parametrize(
    ("response", "status", "body"),
    [(READY, 200, {"status": "ready"}), (BROKEN, 503, NO_DATABASE), (None, 503, NO_DATABASE)],
    ids=["with MCP servers down", "a failing database", "a database that does not answer in time"],
)
async def test_ready_depends_on_the_database_behind_the_api(
    tmp_path: Path, response: bytes | None, status: int, body: dict[str, str]
) -> None:
    async with (
        api_that_sends(response) as url,
        running(configured(tmp_path, {"gone": MISSING}, api_url=url)) as (_, http),
    ):
        answer = await http.get("/health/ready")
    assert (answer.status_code, answer.json()) == (status, body)


@pytest.mark.requirement("T-06")
async def test_without_an_api_ready_is_503_and_live_is_200(tmp_path: Path) -> None:
    for settings in ({}, {"api_url": f"http://127.0.0.1:{free_port()}"}):
        async with running(configured(tmp_path, {"gone": MISSING}, **settings)) as (_, http):
            assert (await http.get("/health/ready")).status_code == 503
            live = await http.get("/health/live")
            assert (live.status_code, live.json()) == (200, {"status": "ok"})
            chat = await http.post("/chat/stream", json={"message": "hi"})
            assert "cannot be reached right now" in chat.text
