"""A run that is cancelled over the API cancels its tool calls: each server gets a cancellation per call (T-05)."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest
import pytest_asyncio
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient

from tests.api.langgraph.talking import BOUND_S, TALKING, calls_input
from tests.fixtures.app_server import AppServer, serve_in_thread
from tests.fixtures.mcp_server import free_port
from tests.servers.connections.peers import MISBEHAVING

SERVERS = ("local", "remote", "narrow")
CALLS = 4


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AppServer]:
    """Serve an agent loop with a server over stdio, one over HTTP, and one that takes a single call at a time."""
    folder = tmp_path_factory.mktemp("cancelled")
    port = free_port()
    url = f"http://127.0.0.1:{port}/mcp"
    peer = {"command": sys.executable, "args": [MISBEHAVING], "timeout_s": BOUND_S}
    over_http = {**peer, "args": [MISBEHAVING, "--transport", "http", "--port", str(port)]}
    entries = {"local": peer, "remote": {**over_http, "type": "http", "url": url, "spawn": True}}
    entries["narrow"] = {**peer, "max_concurrency": 1}
    config = folder / "mcp.json"
    config.write_text(json.dumps({"mcpServers": entries}), encoding="utf-8")
    env = {"TOOLWEAVE_MCP_CONFIG": str(config), "TOOLWEAVE_MODEL": "offline"}
    with serve_in_thread(TALKING, folder / "data", env) as served:
        yield served


@pytest_asyncio.fixture
async def client(server: AppServer) -> AsyncIterator[LangGraphClient]:
    async with get_client(url=server.url) as client, httpx.AsyncClient(base_url=server.url, timeout=60) as http:
        async with asyncio.timeout(BOUND_S):
            while any(each["state"] != "ready" for each in (await http.get("/health")).json()["servers"].values()):
                pass  # each look is a round trip
        yield client


async def tool_text(client: LangGraphClient, tool: str, **arguments: Any) -> str:
    """Have a run of its own call one tool."""
    values: Any = await client.runs.wait(None, "talking", input=calls_input((tool, arguments, "call")))
    return str(values["messages"][-2]["content"])


async def numbers_cancelled(client: LangGraphClient, server: str, *, least: int) -> int:
    """Wait, bounded, until a server was notified of so many cancelled requests; over HTTP that comes a little later."""
    async with asyncio.timeout(BOUND_S):
        while (number := len(set(json.loads(await tool_text(client, f"{server}_cancelled"))["cancelled"]))) < least:
            pass  # each look is a run
    return number


async def test_cancelling_a_run_cancels_each_of_its_open_calls_on_the_server(client: LangGraphClient) -> None:
    thread = (await client.threads.create())["thread_id"]
    calls: list[tuple[str, dict[str, Any], str]] = [
        (f"{server}_wait", {}, f"{server}-{number}") for server in SERVERS for number in range(CALLS)
    ]
    run = (await client.runs.create(thread, "talking", input=calls_input(*calls)))["run_id"]
    for server in ("local", "remote"):
        await tool_text(client, f"{server}_entered", calls=CALLS)
    await client.runs.cancel(thread, run, wait=True)
    assert (await client.runs.get(thread, run))["status"] == "interrupted"
    notified = {
        server: await numbers_cancelled(client, server, least=1 if server == "narrow" else CALLS) for server in SERVERS
    }
    # Of the calls that waited for their turn the server knows nothing, and its turn is free again.
    assert notified == {"local": CALLS, "remote": CALLS, "narrow": 1}


async def test_a_client_that_disconnects_cancels_the_calls_with_on_disconnect_cancel(client: LangGraphClient) -> None:
    async def listen() -> None:
        async for _ in client.runs.stream(
            None, "talking", input=calls_input(("remote_wait", {}, "1")), on_disconnect="cancel"
        ):
            pass

    before = await numbers_cancelled(client, "remote", least=0)
    listening = asyncio.create_task(listen())
    await tool_text(client, "remote_entered", calls=1)
    listening.cancel()
    await asyncio.wait({listening})
    assert await numbers_cancelled(client, "remote", least=before + 1) == before + 1
