"""A tool call and a run pass no more functions of ours than house.toml allows."""

import asyncio
import sqlite3
import tomllib
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from langgraph.graph.state import CompiledStateGraph
from mcp import ClientSession
from mcp.types import CallToolRequest

from tests.call_paths.joined_stacks import PROJECT, JoinedStacks, Stack, from_route, ours
from tests.servers.connections.peers import BOUND_S, QUICK, misbehaving
from toolweave.api.langgraph.app import create_langgraph_app
from toolweave.config.langgraph_json import load_langgraph_json
from toolweave.config.settings import Settings
from toolweave.servers.connections.plane import open_tool_plane

HERE = Path(__file__).parent


def check(entry: str, functions: list[str]) -> None:
    limit = tomllib.loads((PROJECT / "house.toml").read_text(encoding="utf-8"))["limits"][entry]
    listed = "\n  ".join(functions)
    assert len(functions) <= limit, f"{len(functions)} functions, but {entry} is {limit} in house.toml:\n  {listed}"


async def test_neither_a_task_nor_a_thread_hides_who_began_it() -> None:
    stacks = JoinedStacks()

    def measured() -> Stack:
        return stacks.now()

    async def in_thread() -> Stack:
        return await asyncio.to_thread(measured)

    async def in_task() -> Stack:
        return (await asyncio.gather(in_thread()))[0]

    def scheduled(done: "asyncio.Future[Stack]") -> None:
        asyncio.create_task(in_task()).add_done_callback(lambda task: done.set_result(task.result()))

    with stacks.joining():
        done = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(scheduled, done)
        stack = await done
    inner = ("measured", "in_thread", "in_task", "scheduled", "test_neither_a_task_nor_a_thread_hides_who_began_it")
    assert [code.co_name for code in stack if code.co_name in inner] == list(inner)


async def test_a_tool_call_passes_few_functions_from_the_tool_to_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    stacks = JoinedStacks()
    found: list[Stack] = []
    original = ClientSession.send_request

    def send_request(session: ClientSession, request: Any, *arguments: Any, **options: Any) -> Any:
        if isinstance(request.root, CallToolRequest):
            found.append(stacks.now())
        return original(session, request, *arguments, **options)

    monkeypatch.setattr(ClientSession, "send_request", send_request)
    async with asyncio.timeout(BOUND_S), open_tool_plane([misbehaving()], timing=QUICK) as plane:
        await plane.wait_for_servers()
        (tool,) = (tool for tool in await plane.tools() if tool.name == "peer_echo")
        with stacks.joining():
            await tool.ainvoke({"type": "tool_call", "id": "1", "name": tool.name, "args": {"title": "Buy milk"}})
    (stack,) = found
    assert "ainvoke" in {code.co_name for code in stack}
    check("tool_call_path", ours(stack))


async def test_a_run_passes_few_functions_from_the_route_to_its_graph(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Two stacks count: where the run is stored, and where its graph is called, perhaps by a task of its own."""
    stacks = JoinedStacks()
    stored: list[Stack] = []
    called: list[Stack] = []
    original = CompiledStateGraph.astream

    def astream(graph: Any, *arguments: Any, **options: Any) -> Any:
        called.append(stacks.now())
        return original(graph, *arguments, **options)

    def traced(statement: str) -> None:
        if statement.startswith("INSERT INTO runs "):
            stored.append(stacks.now())

    class TracedConnection(sqlite3.Connection):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            self.set_trace_callback(traced)

    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=TracedConnection))
    monkeypatch.setattr(CompiledStateGraph, "astream", astream)
    app = create_langgraph_app(load_langgraph_json(HERE / "langgraph.json"), Settings(data_dir=tmp_path / "data"))
    async with (
        asyncio.timeout(BOUND_S),
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1:2024") as http,
    ):
        thread_id = (await http.post("/threads", json={})).json()["thread_id"]
        with stacks.joining():
            body = {"assistant_id": "add_one", "input": {"n": 1}}
            answer = await http.post(f"/threads/{thread_id}/runs/wait", json=body)
    assert answer.json() == {"n": 2}
    (storing,), (calling,) = stored, called
    check("run_path", ours((*from_route(calling), *from_route(storing))))
