"""Idle sessions end after a while, and at once if there are too many."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
from fastmcp import FastMCP
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from tests.servers.core.test_auth import ACCEPT, HELLO
from toolweave.servers.core.http_app import BURST_SESSIONS, SessionLimitMiddleware, find_session_manager

BOUND_S = 60.0
PING = {"jsonrpc": "2.0", "id": 2, "method": "ping"}


class Client:
    """A client that opens sessions and never closes one."""

    def __init__(self, http: httpx.AsyncClient, sessions: StreamableHTTPSessionManager) -> None:
        self._http = http
        self._sessions = sessions

    @property
    def session_count(self) -> int:
        return len(self._sessions._server_instances)

    async def open(self) -> str:
        answer = await self._http.post("/mcp", json=HELLO, headers=ACCEPT)
        assert answer.status_code == 200, answer.text
        return answer.headers["mcp-session-id"]

    async def ping(self, session: str) -> int:
        headers = {**ACCEPT, "mcp-session-id": session}
        return (await self._http.post("/mcp", json=PING, headers=headers)).status_code


@asynccontextmanager
async def bounded(**limits: Any) -> AsyncIterator[Client]:
    app = FastMCP("peer").http_app(path="/mcp")
    async with app.lifespan(app):
        sessions = find_session_manager(app, "/mcp")
        around = SessionLimitMiddleware(app, sessions, **limits)
        transport = httpx.ASGITransport(around)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
            yield Client(http, sessions)


async def test_the_session_that_is_idle_longest_makes_room_for_a_new_one() -> None:
    async with bounded(limit=3) as client:
        first, second, third = [await client.open() for _ in range(3)]
        assert await client.ping(first) == 200
        await client.open()
        assert [await client.ping(each) for each in (first, second, third)] == [200, 404, 200]


async def test_many_sessions_opened_and_left_do_not_pile_up() -> None:
    async with bounded(limit=20) as client:
        for _ in range(5):
            await asyncio.gather(*(client.open() for _ in range(40)))
        assert client.session_count <= 20 + BURST_SESSIONS
        await client.open()
        assert await client.ping(await client.open()) == 200


async def test_an_idle_session_ends() -> None:
    async with bounded(idle_s=0.05) as client:
        session = await client.open()
        async with asyncio.timeout(BOUND_S):
            while client.session_count:  # noqa: ASYNC110 - there is no event
                await asyncio.sleep(0.01)
        assert await client.ping(session) == 404
