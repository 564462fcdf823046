"""Tokens and updates as LangGraph streams them from the loop."""

from typing import Any

from langchain_core.messages import AIMessageChunk, HumanMessage, ToolMessage

from tests.fixtures.openai_wire import WireCall, WireTurn, openai_wire
from tests.fixtures.scripted_model import ScriptedModel, add, calling
from tests.graphs.gated_tools import GO
from toolweave.config.settings import load_settings
from toolweave.graphs import build_agent_loop
from toolweave.nodes.chat_models import build_chat_model


async def test_every_token_is_streamed_once_with_the_id_of_its_message_which_is_not_repeated() -> None:
    model = ScriptedModel(turns=[calling(("add", {"a": 1, "b": 2})), "one and two are three"])
    graph = build_agent_loop(tools=[add], model=model)

    stream: Any = graph.astream(GO, stream_mode=["messages", "values"])
    streamed = [part async for part in stream]

    parts = [part for mode, part in streamed if mode == "messages"]
    tokens = [message for message, _ in parts if isinstance(message, AIMessageChunk) and message.text]
    assert [token.text for token in tokens] == ["one", " and", " two", " are", " three"]
    assert {token.id for token in tokens} == {streamed[-1][1]["messages"][-1].id}
    assert [message.text for message, _ in parts if isinstance(message, ToolMessage)] == ["3"]
    assert {type(message) for message, _ in parts} == {AIMessageChunk, ToolMessage}
    assert {metadata["langgraph_node"] for _, metadata in parts} == {"call_model", "tools"}


async def test_the_notes_of_the_cap_are_streamed_as_messages_too() -> None:
    graph = build_agent_loop(tools=[add], model=ScriptedModel(turns=[calling(("add", {}))]), max_iterations=1)

    parts: list[Any] = [part async for part in graph.astream(GO, stream_mode="messages")]

    assert "iteration limit" in parts[-1][0].text


async def test_the_loop_runs_over_the_real_wire_and_streams_its_tokens() -> None:
    turns = [
        WireTurn(calls=(WireCall("add", '{"a": 20, "b": 22}', "c1"), WireCall("add", '{"a": 1,', "c2"))),
        WireTurn(text="The sum is 42.", piece=4),
    ]
    with openai_wire(turns) as server:
        settings = load_settings({"OPENAI_BASE_URL": server.base_url, "TOOLWEAVE_MODEL": "m"})
        graph = build_agent_loop(tools=[add], model=lambda: build_chat_model(settings), system_prompt="Be exact.")
        parts = [part async for part in graph.astream({"messages": [HumanMessage("20+22?")]}, stream_mode="messages")]

    first, second = server.requests
    tokens = [message.text for message, _ in parts if isinstance(message, AIMessageChunk) and message.text]
    assert "".join(tokens) == "The sum is 42."
    assert len(tokens) == 4
    assert first.tool_names == ["add"]
    assert first.body["stream"] is True
    assert first.messages == [{"role": "system", "content": "Be exact."}, {"role": "user", "content": "20+22?"}]
    request, result, refusal = second.messages[2:]
    assert [(call["id"], call["function"]["arguments"]) for call in request["tool_calls"]] == [
        ("c1", '{"a": 20, "b": 22}'),
        ("c2", "{}"),
    ]
    assert (result["role"], result["tool_call_id"], result["content"]) == ("tool", "c1", "42")
    assert (refusal["role"], refusal["tool_call_id"]) == ("tool", "c2")
    assert "not a JSON object" in refusal["content"]
