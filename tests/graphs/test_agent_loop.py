"""The agent loop as a graph: turns, tools, and how it ends (A-02, D-4)."""

import asyncio
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import BaseTool, tool
from langgraph.checkpoint.memory import InMemorySaver

from tests.fixtures.scripted_model import ScriptedModel, add, calling
from tests.graphs.gated_tools import GO, THREAD
from toolweave.errors import ConfigError, InvalidRequest, ModelError
from toolweave.graphs import build_agent_loop


def texts(result: dict[str, Any]) -> list[tuple[str, str]]:
    return [(message.type, message.text) for message in result["messages"]]


@pytest.mark.requirement("D-4")
def test_the_drawn_graph_has_a_tool_node_and_an_iteration_cap_edge() -> None:
    edges = {
        (edge.source, edge.target): edge.data
        for edge in build_agent_loop(tools=[add], model=ScriptedModel(turns=[])).get_graph().edges
    }

    assert edges == {
        ("__start__", "accept_input"): None,
        ("accept_input", "call_model"): None,
        ("call_model", "tools"): "tool calls",
        ("call_model", "iteration_cap"): "limit reached",
        ("call_model", "__end__"): "answered",
        ("call_model", "approve"): "approval needed",
        ("approve", "tools"): "approved",
        ("approve", "call_model"): "none to run",
        ("call_model", "answer_questions"): "questions waiting",
        ("answer_questions", "tools"): "answered",
        ("tools", "call_model"): None,
        ("iteration_cap", "__end__"): None,
    }


@pytest.mark.requirement("A-02")
async def test_requested_tools_are_called_and_each_result_is_appended_with_its_call_id() -> None:
    model = ScriptedModel(
        turns=[
            calling(("add", {"a": 1, "b": 2}, "x")),
            calling(("add", {"a": 3, "b": 4}, "y")),
            "The sums are 3 and 7.",
        ]
    )
    graph = build_agent_loop(tools=[add], model=model)

    result = await graph.ainvoke({"messages": [HumanMessage("add them")]})

    assert texts(result) == [
        ("human", "add them"),
        ("ai", ""),
        ("tool", "3"),
        ("ai", ""),
        ("tool", "7"),
        ("ai", "The sums are 3 and 7."),
    ]
    assert [message.tool_call_id for message in result["messages"] if isinstance(message, ToolMessage)] == ["x", "y"]
    assert (result["status"], result["iterations"]) == ("done", 3)
    assert model.offered == [["add"]] * 3, "the model is given the tools at every turn"
    assert [message.type for message in model.prompts[2]] == ["human", "ai", "tool", "ai", "tool"]


@pytest.mark.requirement("A-02")
async def test_calls_of_one_turn_run_at_the_same_time_and_keep_their_order() -> None:
    together = asyncio.Barrier(3)

    @tool
    async def meet(name: str) -> str:
        """Wait until three calls are here."""
        async with asyncio.timeout(60):
            await together.wait()
        return name

    model = ScriptedModel(turns=[calling(*(("meet", {"name": name}) for name in "abc")), "met"])

    result = await build_agent_loop(tools=[meet], model=model).ainvoke(GO)

    assert texts(result)[2:5] == [("tool", "a"), ("tool", "b"), ("tool", "c")]


async def test_text_beside_a_tool_call_does_not_end_the_run() -> None:
    first = calling(("add", {"a": 1, "b": 1}))
    first.content = "One moment."

    result = await build_agent_loop(tools=[add], model=ScriptedModel(turns=[first, "2"])).ainvoke(GO)

    assert texts(result)[1:] == [("ai", "One moment."), ("tool", "2"), ("ai", "2")]


async def test_the_system_prompt_reaches_the_model_and_not_the_state() -> None:
    model = ScriptedModel(turns=["hi"])
    graph = build_agent_loop(tools=[], model=model, system_prompt=lambda: "Today is Friday.")

    result = await graph.ainvoke({"messages": [HumanMessage("hello")]})

    assert model.prompts == [[SystemMessage("Today is Friday."), result["messages"][0]]]
    assert model.offered == [[]]
    assert texts(result) == [("human", "hello"), ("ai", "hi")]


async def test_tools_that_come_and_go_are_offered_as_they_are_at_each_turn() -> None:
    class Changing:
        def __init__(self) -> None:
            self.available: list[BaseTool] = []

        async def tools(self) -> list[BaseTool]:
            return self.available

    catalog = Changing()
    graph = build_agent_loop(tools=catalog, model=(model := ScriptedModel(turns=["ok"])))

    await graph.ainvoke(GO)
    catalog.available = [add]
    await graph.ainvoke(GO)

    assert model.offered == [[], ["add"]]


async def test_a_failing_model_fails_the_run_and_keeps_the_thread_usable() -> None:
    model = ScriptedModel(turns=[ModelError("the endpoint is down"), "back again"])
    graph = build_agent_loop(tools=[], model=model, checkpointer=InMemorySaver())

    with pytest.raises(ModelError, match="endpoint is down"):
        await graph.ainvoke({"messages": [HumanMessage("hello?")]}, THREAD)
    result = await graph.ainvoke({"messages": [HumanMessage("hello again")]}, THREAD)

    assert texts(result) == [("human", "hello?"), ("human", "hello again"), ("ai", "back again")]


async def test_an_input_without_messages_is_refused_before_a_model_call() -> None:
    model = ScriptedModel(turns=["never"])

    with pytest.raises(InvalidRequest, match="messages"):
        await build_agent_loop(tools=[], model=model).ainvoke({"messages": []})

    assert model.prompts == []


async def test_the_model_recipe_is_followed_on_first_use_and_again_after_a_failure() -> None:
    made: list[ScriptedModel] = []

    def make() -> ScriptedModel:
        made.append(ScriptedModel(turns=["ok"]))
        if len(made) == 1:
            raise ConfigError("no endpoint yet")
        return made[-1]

    graph = build_agent_loop(tools=[], model=make)
    assert made == []

    with pytest.raises(ConfigError, match="no endpoint yet"):
        await graph.ainvoke(GO)
    for _ in range(3):
        await graph.ainvoke(GO)

    assert len(made) == 2


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_below_one_is_refused(limit: int) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        build_agent_loop(tools=[], model=ScriptedModel(turns=[]), max_iterations=limit)


@pytest.mark.requirement("T-11")
async def test_a_run_finishes_while_the_tool_of_another_is_slow() -> None:
    started, release = asyncio.Event(), asyncio.Event()

    @tool
    async def slow() -> str:
        """Wait until the test continues."""
        started.set()
        async with asyncio.timeout(60):
            await release.wait()
        return "finally"

    def answer(messages: list[Any]) -> AIMessage:
        wants_slow = messages[-1].text == "slow"
        return calling(("slow", {})) if wants_slow else AIMessage(f"done: {messages[-1].text}")

    graph = build_agent_loop(tools=[slow], model=ScriptedModel(turns=[answer]))
    waiting = asyncio.create_task(graph.ainvoke({"messages": [HumanMessage("slow")]}))
    async with asyncio.timeout(60):
        await started.wait()

        others = await asyncio.gather(*(graph.ainvoke({"messages": [HumanMessage(f"{n}")]}) for n in range(20)))

        assert [texts(result)[-1] for result in others] == [("ai", f"done: {n}") for n in range(20)]
        assert not waiting.done()
        release.set()
        assert texts(await waiting)[-1] == ("ai", "done: finally")
