"""The todo server is the same over stdio, SSE and streamable HTTP, and loses nothing when it ends."""

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
from mcp import ClientSession

from tests.fixtures.mcp_server import HttpMcpServer, StdioMcpServer, held, mcp_session, todo_over
from tests.servers.todo.in_memory import envelope
from tests.servers.todo.refused_calls import REFUSED

CALLS: list[tuple[str, dict[str, Any]]] = [
    ("create_todo", {"title": "Buy milk", "tags": ["shop"]}),
    ("create_todo", {"title": "Dentist", "priority": "high", "due_date": "2026-12-24"}),
    ("list_todos", {"limit": 1}),
    ("update_todo", {"id": 1, "status": "completed"}),
    ("list_todos", {"status": "active"}),
    ("search_todos", {"query": "dent"}),
    ("delete_todo", {"id": 2}),
    ("delete_todo", {"id": 2}),
    ("create_todo", {"title": ""}),
    ("create_todo", {"title": "x" * 1_000_000}),
    ("no_such_tool", {}),
]


async def without_times(session: ClientSession) -> list[Any]:
    """Make all calls and blank out what differs from run to run."""
    answers = []
    for tool, arguments in CALLS:
        answer = envelope(await session.call_tool(tool, arguments))
        answer.get("metadata", {}).pop("duration_ms", None)
        todos = answer.get("data", [])
        for todo in todos if isinstance(todos, list) else [todos]:
            for name in ("created_at", "updated_at", "completed_at"):
                todo[name] = bool(todo[name])
        answers.append(answer)
    return answers


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def remote(
    todo_http_server: HttpMcpServer, todo_sse_server: HttpMcpServer
) -> AsyncIterator[dict[str, ClientSession]]:
    async with AsyncExitStack() as stack:
        yield {
            "http": await stack.enter_async_context(held(mcp_session(todo_http_server.config))),
            "sse": await stack.enter_async_context(held(mcp_session(todo_sse_server.config))),
        }


@pytest.mark.requirement("T-13")
async def test_every_transport_gives_the_same_tools_and_answers(
    todo_server: StdioMcpServer, remote: dict[str, ClientSession]
) -> None:
    sessions = [todo_server.session, remote["http"], remote["sse"]]
    tools = [(await session.list_tools()).model_dump() for session in sessions]
    assert len(tools[0]["tools"]) == 5
    assert tools[1] == tools[2] == tools[0]
    answers = [await without_times(session) for session in sessions]
    assert answers[0][0]["data"]["title"] == "Buy milk"
    assert answers[1] == answers[0]
    assert answers[2] == answers[0]


async def test_a_call_is_one_line_on_stderr_with_its_ids_and_without_its_content(todo_server: StdioMcpServer) -> None:
    meta = {
        "thread_id": "thread-1",
        "run_id": "run-1",
        "user_id": "user-1",
        "timestamp": "2026-11-21T12:00:00Z",
        "correlation_id": "correlation-1",
        "idempotency_key": "run-1:call-1",
        "unknown": "not logged",
    }
    await todo_server.session.call_tool("create_todo", {"title": "a private matter"}, meta=meta)
    await todo_server.session.call_tool("create_todo", {"title": ""}, meta={"run_id": "run-2"})
    large = [REFUSED[8], REFUSED[18], REFUSED[24]]
    for tool, arguments, name, _ in large:
        assert name in envelope(await todo_server.session.call_tool(tool, arguments))["error"]["message"]
    lines = [json.loads(line) for line in todo_server.stderr().splitlines()]
    (call,) = [line for line in lines if line.get("meta", {}).get("run_id") == "run-1"]
    assert call["tool"] == "create_todo"
    assert call["outcome"] == "success"
    assert call["duration_ms"] >= 0
    assert call["meta"] == {name: value for name, value in meta.items() if name != "unknown"}
    (refused,) = [line for line in lines if line.get("meta", {}).get("run_id") == "run-2"]
    assert (refused["outcome"], refused["code"], refused["level"]) == ("error", "invalid_parameter", "WARNING")
    assert "private matter" not in todo_server.stderr()
    assert "x" * 1000 not in todo_server.stderr()


def listening_addresses(port: int) -> list[str]:
    """Return the IPv4 addresses a port listens on, in the kernel's hexadecimal."""
    sockets = [line.split() for line in Path("/proc/net/tcp").read_text(encoding="utf-8").splitlines()[1:]]
    local = [fields[1].split(":") for fields in sockets if fields[3] == "0A"]
    return [address for address, in_use in local if int(in_use, 16) == port]


@pytest.mark.requirement("T-08")
@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_a_server_is_reached_on_loopback_only_and_by_no_foreign_page(
    request: pytest.FixtureRequest, transport: str
) -> None:
    server: HttpMcpServer = request.getfixturevalue(f"todo_{transport}_server")
    assert listening_addresses(server.port) == ["0100007F"]
    async with httpx.AsyncClient(timeout=60) as client:
        for headers, status in (
            ({"Host": f"evil.example:{server.port}"}, 421),
            ({"Host": "[::1].evil.example"}, 421),
            ({"Origin": "http://localhost.evil.example"}, 403),
            ({"Origin": "null"}, 403),
        ):
            for method in ("GET", "POST"):
                answer = await client.request(method, server.url, headers=headers)
                assert answer.status_code == status, headers
        local = await client.post(server.url, headers={"Origin": "http://localhost:3000"}, content=b"{}")
        assert local.status_code not in (403, 421)


@pytest.mark.requirement("T-13")
async def test_an_answered_todo_is_there_after_a_kill(tmp_path: Path) -> None:
    async with todo_over("http", tmp_path) as server:
        async with mcp_session(server.config) as session:
            created = envelope(await session.call_tool("create_todo", {"title": "a"}))["data"]
            # The session closes after the restart, because closing sends a request.
            await server.kill()
            await server.start()
        async with mcp_session(server.config) as session:
            assert envelope(await session.call_tool("list_todos", {}))["data"] == [created]
