"""The official SDK's `client.threads.stream`, over SSE and WebSocket, and RemoteGraph on top of it."""

import asyncio
from typing import Any, Literal
from uuid import uuid4

import httpx
import pytest
from langchain_core._api import suppress_langchain_beta_warning
from langgraph.pregel.remote import RemoteGraph
from langgraph_sdk.client import LangGraphClient

from tests.api.langgraph.protocol.listening import APP, BOUND_S

LANGGRAPH_JSON = APP
Transport = Literal["sse", "websocket"]
HELLO = {"messages": [{"role": "user", "content": "you there"}]}

both_transports = pytest.mark.parametrize("transport", ["sse", "websocket"])


@both_transports
async def test_values_are_streamed_to_the_output(sdk: LangGraphClient, transport: Transport) -> None:
    async with sdk.threads.stream(assistant_id="count", transport=transport) as thread, asyncio.timeout(BOUND_S):
        await thread.run.start(input={"n": 1})
        seen = [values async for values in thread.values]
        assert seen[-1] == await thread.output == {"n": 3, "log": ["add", "add"]}


@both_transports
async def test_messages_are_streamed_as_text(sdk: LangGraphClient, transport: Transport) -> None:
    async with sdk.threads.stream(assistant_id="speak", transport=transport) as thread, asyncio.timeout(BOUND_S):
        await thread.run.start(input=HELLO)
        messages = [message async for message in thread.messages]
        assert [await message.text for message in messages] == ["hello you there"]


@both_transports
async def test_tool_calls_resolve_to_their_outputs(sdk: LangGraphClient, transport: Transport) -> None:
    async with sdk.threads.stream(assistant_id="tooled", transport=transport) as thread, asyncio.timeout(BOUND_S):
        await thread.run.start(input=HELLO)
        calls = {call.name: call async for call in thread.tool_calls}
        assert (await calls["add_up"].output)["content"] == "3"
        with pytest.raises(RuntimeError, match="no good: 7"):
            await calls["fall_over"].output
    assert calls["add_up"].input == {"a": 1, "b": 2}


@both_transports
async def test_subgraphs_are_found_and_finished(sdk: LangGraphClient, transport: Transport) -> None:
    async with sdk.threads.stream(assistant_id="nested", transport=transport) as thread, asyncio.timeout(BOUND_S):
        await thread.run.start(input={"n": 1})
        found = [(child.graph_name, child) async for child in thread.subgraphs]
    assert [(name, child.status, child.error) for name, child in found] == [("middle", "completed", None)]


@both_transports
async def test_named_custom_events_of_nodes_are_an_extension(sdk: LangGraphClient, transport: Transport) -> None:
    async with sdk.threads.stream(assistant_id="count", transport=transport) as thread, asyncio.timeout(BOUND_S):
        await thread.run.start(input={"n": 1})
        progress = [written async for written in thread.extensions["progress"]]
    assert progress == [{"name": "progress", "payload": 1}] * 2


@both_transports
async def test_an_interrupt_is_answered_and_the_run_continues(sdk: LangGraphClient, transport: Transport) -> None:
    async with sdk.threads.stream(assistant_id="ask", transport=transport) as thread, asyncio.timeout(BOUND_S):
        await thread.run.start(input={"n": 1})
        _ = [values async for values in thread.values]
        assert thread.interrupted
        await thread.run.respond("yes")
        assert await thread.output == {"n": 2, "log": ["asked: yes", "add"]}


@both_transports
async def test_a_failed_run_raises_its_error(sdk: LangGraphClient, transport: Transport) -> None:
    async with sdk.threads.stream(assistant_id="broken", transport=transport) as thread:
        await thread.run.start(input={"n": 1})
        with pytest.raises(RuntimeError, match="cannot go on"):
            await thread.output.with_timeout(BOUND_S)


async def test_projections_of_one_run_can_be_interleaved(sdk: LangGraphClient) -> None:
    async with sdk.threads.stream(assistant_id="count") as thread, asyncio.timeout(BOUND_S):
        await thread.run.start(input={"n": 1})
        wanted = ["values", "updates", "checkpoints", "progress"]
        seen = [(name, item) async for name, item in thread.interleave_projections(wanted)]
    assert [item for name, item in seen if name == "updates"] == [
        {"add": {"n": 2, "log": ["add"]}},
        {"again": {"n": 3, "log": ["add"]}},
    ]
    assert {name for name, _ in seen} == set(wanted)


async def test_a_second_client_reattaches_to_a_run_in_flight(sdk: LangGraphClient, http: httpx.AsyncClient) -> None:
    thread_id, gate = str(uuid4()), str(uuid4())
    async with asyncio.timeout(BOUND_S), sdk.threads.stream(thread_id, assistant_id="gated") as first:
        await first.run.start(input={"n": 1, "gate": gate})
        await http.get(f"/gates/{gate}/reached")
        # Checkpoints are written beside the run, and the SDK takes a thread without one for a thread whose runs ended.
        while not (await sdk.threads.get_state(thread_id))["next"]:  # noqa: ASYNC110  nothing reports that a checkpoint is written
            await asyncio.sleep(0.01)
        async with sdk.threads.stream(thread_id, assistant_id="gated") as second:
            waiting = asyncio.ensure_future(second.output)
            await http.post(f"/gates/{gate}/open")
            assert (await waiting)["log"] == (await first.output)["log"] == ["add", "passed", "add"]


async def test_a_remote_graph_streams_by_the_protocol(sdk: LangGraphClient) -> None:
    remote = RemoteGraph("count", client=sdk)
    config: Any = {"configurable": {"thread_id": str(uuid4())}}
    with suppress_langchain_beta_warning():
        run = await remote.astream_events({"n": 1}, config, version="v3")
    async with asyncio.timeout(BOUND_S), run:
        updates = [update async for update in run.extensions["updates"]]
        assert await run.output() == {"n": 3, "log": ["add", "add"]}
    assert updates == [{"add": {"n": 2, "log": ["add"]}}, {"again": {"n": 3, "log": ["add"]}}]
