"""Assistants as MCP tools, called by MCP clients and with plain requests (langgraph_api.md section 8)."""

import asyncio
import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import fastmcp
import httpx
import pytest
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import NotFoundError
from mcp import ClientSession, McpError
from mcp.client.streamable_http import streamable_http_client
from mcp.types import TextContent

from tests.fixtures.app_server import AppServer

LANGGRAPH_JSON = Path(__file__).parent / "app" / "langgraph.json"
ACCEPT = {"accept": "application/json, text/event-stream"}
RPC = {"jsonrpc": "2.0", "id": 1}
BOUND_S = 60.0


async def ask(http: httpx.AsyncClient, method: str, params: Any = None, request_id: Any = 1) -> Any:
    message = {**RPC, "id": request_id, "method": method, "params": params}
    answer = await http.post("/mcp", json=message, headers=ACCEPT)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    assert (answer.json()["jsonrpc"], answer.json()["id"]) == ("2.0", request_id)
    return answer.json()


async def call(http: httpx.AsyncClient, name: str, arguments: Any) -> Any:
    return (await ask(http, "tools/call", {"name": name, "arguments": arguments}))["result"]


def text(result: Any) -> str:
    (content,) = result["content"]
    assert content["type"] == "text"
    return str(content["text"])


async def test_the_official_client_lists_and_calls_tools(app_server: AppServer) -> None:
    async with (
        streamable_http_client(f"{app_server.url}/mcp") as (read, write, _),
        ClientSession(read, write) as client,
    ):
        await client.initialize()
        await client.send_ping()
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) >= {"steps", "talk", "ask", "gated", "broken", "nested", "made"}
        result = await client.call_tool("steps", {"n": 2})
        assert not result.isError
        assert result.structuredContent == {"n": 6, "log": ["add", "double"]}
        content = result.content[0]
        assert isinstance(content, TextContent)
        assert json.loads(content.text) == result.structuredContent
        failed = await client.call_tool("broken", {"n": 2})
        assert failed.isError
        with pytest.raises(McpError, match="Unknown tool: nothing"):
            await client.call_tool("nothing", {})


async def test_fastmcp_clients_call_tools(app_server: AppServer) -> None:
    async with fastmcp.Client(f"{app_server.url}/mcp") as client:
        result = await client.call_tool("talk", {"messages": "world"})
        assert result.structured_content is not None
        assert [message["content"] for message in result.structured_content["messages"]] == ["world", "hello world"]


@pytest.mark.api("POST /mcp", "200 agrees on a protocol version")
@pytest.mark.parametrize(
    ("requested", "agreed"),
    [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2031-01-01", "2025-11-25"),
        (None, "2025-11-25"),
        ({"not": "text"}, "2025-11-25"),
    ],
)
async def test_a_version_is_agreed_on(requested: Any, agreed: str, http: httpx.AsyncClient) -> None:
    greeting = (await ask(http, "initialize", {"protocolVersion": requested, "capabilities": {}}))["result"]
    assert greeting["protocolVersion"] == agreed
    assert greeting["capabilities"] == {"tools": {"listChanged": False}}
    assert (await ask(http, "ping", request_id="text"))["result"] == {}


@pytest.mark.api("POST /mcp", "200 lists a tool for every assistant, under names that MCP allows")
async def test_every_assistant_is_a_tool(http: httpx.AsyncClient, sdk: LangGraphClient) -> None:
    made = [
        await sdk.assistants.create("steps", name=name) for name in ("steps", "Ask me: ünything?", "日本", "x" * 200)
    ]
    tools = {tool["name"]: tool for tool in (await ask(http, "tools/list"))["result"]["tools"]}
    assert all(name.isascii() and 0 < len(name) <= 64 and " " not in name for name in tools)
    assert len(tools) == 7 + len(made)
    schema = tools["steps"].pop("inputSchema")
    assert (schema["type"], set(schema["properties"])) == ("object", {"n", "gate", "log"})
    hints = {"readOnlyHint": False, "destructiveHint": False, "idempotentHint": False, "openWorldHint": True}
    described = {"name": "steps", "title": "steps", "description": "Adds one, then doubles"}
    assert tools["steps"] == {**described, "annotations": hints}
    assert tools["ask"]["description"] == "Tool based on the ask assistant"
    # The graph keeps its name, and the assistants beside it can be called as well.
    for name in (f"steps_{made[0]['assistant_id'][-8:]}", "Ask_me_nything_", "_", "x" * 64):
        assert (await call(http, name, {"n": 1}))["structuredContent"] == {"n": 4, "log": ["add", "double"]}
    for assistant in made:
        await sdk.assistants.delete(assistant["assistant_id"])


async def test_messages_are_accepted_as_one_text_or_as_a_list(http: httpx.AsyncClient) -> None:
    tools = {tool["name"]: tool for tool in (await ask(http, "tools/list"))["result"]["tools"]}
    schema = tools["talk"]["inputSchema"]
    assert schema["properties"]["messages"]["type"] == "string"
    assert "$defs" not in schema
    for messages in ("you", [{"role": "user", "content": "you"}]):
        result = await call(http, "talk", {"messages": messages})
        assert [message["type"] for message in result["structuredContent"]["messages"]] == ["human", "ai"]
        assert result["structuredContent"]["messages"][1]["content"] == "hello you"


@pytest.mark.api("POST /mcp", "200 runs a tool and gives its result as JSON text and as an object")
async def test_a_tools_result_is_json(http: httpx.AsyncClient, sdk: LangGraphClient) -> None:
    before = await sdk.threads.count()
    result = await call(http, "steps", {"n": 10**17})
    assert json.loads(text(result)) == result["structuredContent"] == {"n": 2 * 10**17 + 2, "log": ["add", "double"]}
    assert "isError" not in result
    assert (await call(http, "steps", None))["structuredContent"]["n"] == 2
    assert await sdk.threads.count() == before


@pytest.mark.api("POST /mcp", "200 gives a failing run as a tool's error, and an interrupt in the result")
async def test_a_failed_run_is_an_error_and_an_interrupt_is_in_the_result(http: httpx.AsyncClient) -> None:
    failed = await call(http, "broken", {"n": 1})
    assert (failed["isError"], text(failed)) == (True, "ValueError: cannot go on from 2")
    assert text(await call(http, "steps", {"n": "x"})).startswith("TypeError: ")
    interrupted = await call(http, "ask", {"n": 3})
    assert interrupted["structuredContent"]["__interrupt__"][0]["value"] == {"question": 3}


@pytest.mark.api("POST /mcp", "200 with a JSON-RPC error for what cannot be called")
@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("tools/call", {"name": "nothing", "arguments": {}}, -32602),
        ("tools/call", {"name": 5}, -32602),
        ("tools/call", None, -32602),
        ("tools/call", {"name": "steps", "arguments": [1]}, -32602),
        ("tools/list", [1], -32602),
        ("prompts/list", None, -32601),
        ("x" * 10_000, None, -32601),
    ],
)
async def test_an_invalid_call_is_an_error(method: str, params: Any, code: int, http: httpx.AsyncClient) -> None:
    answer = await ask(http, method, params)
    assert answer["error"]["code"] == code
    assert len(answer["error"]["message"]) < 300


@pytest.mark.api("POST /mcp", "202 for notifications and answers")
@pytest.mark.parametrize(
    "message",
    [
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "steps"}},
        {"jsonrpc": "2.0", "id": None, "method": "ping"},
        {"jsonrpc": "2.0", "id": 1, "result": {}},
    ],
)
async def test_notifications_are_accepted_without_a_response(message: Any, http: httpx.AsyncClient) -> None:
    answer = await http.post("/mcp", json=message, headers=ACCEPT)
    assert (answer.status_code, answer.content) == (202, b"")


@pytest.mark.api("POST /mcp", "400 for what is no JSON-RPC message")
@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", -32700),
        (b"{", -32700),
        (b"\xff\xfe", -32700),
        (b"[" * 100_000, -32700),
        (b"null", -32600),
        (b"{}", -32600),
        (b'{"jsonrpc":"2.0","id":1}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":5}', -32600),
        (b'{"jsonrpc":"2.0","id":{},"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":false,"method":"ping"}', -32600),
        (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', -32600),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600),
    ],
)
async def test_a_body_that_is_no_message_is_refused(body: bytes, code: int, http: httpx.AsyncClient) -> None:
    answer = await http.post("/mcp", content=body, headers=ACCEPT)
    assert answer.status_code == 400
    assert (answer.json()["id"], answer.json()["error"]["code"]) == (None, code)


@pytest.mark.api("POST /mcp", "400 for clients that accept neither JSON nor events")
async def test_a_client_must_accept_json_or_events(http: httpx.AsyncClient) -> None:
    for accept in ("*/*", "", "text/html", "application/*"):
        answer = await http.post("/mcp", json={**RPC, "method": "ping"}, headers={"accept": accept})
        assert (answer.status_code, set(answer.json())) == (400, {"error"}), accept
    for accept in ("application/json", "text/event-stream"):
        answer = await http.post("/mcp", json={**RPC, "method": "ping"}, headers={"accept": accept})
        assert answer.status_code == 200, accept


@pytest.mark.api("DELETE /mcp", "404 since there are no sessions")
async def test_there_are_no_sessions_and_no_stream(http: httpx.AsyncClient) -> None:
    assert (await http.delete("/mcp")).status_code == 404
    assert (await http.get("/mcp", headers=ACCEPT)).status_code == 405
    slash = await http.post("/mcp/", json={}, headers=ACCEPT)
    assert (slash.status_code, slash.headers["location"]) == (307, str(http.base_url.join("/mcp")))


async def test_a_disconnected_client_cancels_its_run(
    app_server: AppServer, http: httpx.AsyncClient, sdk: LangGraphClient
) -> None:
    gate = str(uuid4())
    params = {"name": "gated", "arguments": {"n": 1, "gate": gate}}
    message = {**RPC, "method": "tools/call", "params": params}
    async with httpx.AsyncClient(base_url=app_server.url, timeout=BOUND_S) as leaving:
        calling = asyncio.create_task(leaving.post("/mcp", json=message, headers=ACCEPT))
        await http.get(f"/gates/{gate}/reached")
        (thread,) = await sdk.threads.search(status="busy")
        (run,) = await sdk.runs.list(thread["thread_id"])
        ended = asyncio.create_task(sdk.runs.join(thread["thread_id"], run["run_id"]))
        calling.cancel()
    # Nobody opens the gate: only cancelling ends the run.
    async with asyncio.timeout(BOUND_S):
        await ended
    with pytest.raises(NotFoundError):
        await sdk.threads.get(thread["thread_id"])
