"""D-10: how the loop ends when the model never stops asking for tools."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from tests.fixtures.scripted_model import ScriptedModel, calling
from toolweave.errors import IterationLimitError
from toolweave.graphs import build_agent_loop
from toolweave.nodes.agent import OnIterationLimit

pytestmark = pytest.mark.requirement("D-10")

THREAD: Any = {"configurable": {"thread_id": "t"}}


class Counter:
    """A tool that counts how often it ran."""

    def __init__(self) -> None:
        self.runs = 0

        @tool
        async def again() -> str:
            """Run once more."""
            self.runs += 1
            return "ran"

        self.tool = again


def never_ending() -> ScriptedModel:
    return ScriptedModel(turns=[calling(("again", {}, "left"), ("again", {}, "right"))])


@pytest.mark.parametrize("limit", [1, 2, 10])
async def test_end_says_so_in_the_last_message_and_the_status(limit: int) -> None:
    counter, model = Counter(), never_ending()

    result = await build_agent_loop(tools=[counter.tool], model=model, max_iterations=limit).ainvoke(
        {"messages": [HumanMessage("go")]}
    )

    *_, asked, left, right, last = result["messages"]
    assert len(model.prompts) == limit
    assert counter.runs == 2 * (limit - 1), "what the last turn asked for is not executed"
    assert [call["id"] for call in asked.tool_calls] == [left.tool_call_id, right.tool_call_id]
    assert left.status == right.status == "error"
    assert isinstance(last, AIMessage)
    assert f"{limit} model calls" in last.text
    assert (result["status"], result["iterations"]) == ("iteration_limit", limit)


async def test_error_fails_the_run_with_the_number_in_its_text() -> None:
    model = never_ending()
    graph = build_agent_loop(
        tools=[Counter().tool], model=model, max_iterations=3, on_iteration_limit="error", checkpointer=InMemorySaver()
    )

    with pytest.raises(IterationLimitError, match=r"iteration limit: 3 ") as failure:
        await graph.ainvoke({"messages": [HumanMessage("go")]}, THREAD)

    assert isinstance(failure.value, RuntimeError)
    assert len(model.prompts) == 3
    kept = (await graph.aget_state(THREAD)).values["messages"]
    assert [message.status for message in kept[-2:] if isinstance(message, ToolMessage)] == ["error", "error"]


async def test_summarize_asks_once_more_without_tools() -> None:
    model = ScriptedModel(turns=[calling(("again", {})), calling(("again", {})), "So far nothing."])

    result = await build_agent_loop(
        tools=[Counter().tool], model=model, max_iterations=2, on_iteration_limit="summarize"
    ).ainvoke({"messages": [HumanMessage("go")]})

    assert model.offered == [["again"], ["again"], []]
    assert result["messages"][-1].text == "So far nothing."
    assert (result["status"], result["iterations"]) == ("iteration_limit", 3)


async def test_a_summary_that_only_asks_for_tools_becomes_the_note() -> None:
    result = await build_agent_loop(
        tools=[Counter().tool], model=never_ending(), max_iterations=1, on_iteration_limit="summarize"
    ).ainvoke({"messages": [HumanMessage("go")]})

    assert result["messages"][-1].tool_calls == []
    assert "iteration limit" in result["messages"][-1].text


async def test_an_answer_at_the_very_limit_is_an_ordinary_one() -> None:
    model = ScriptedModel(turns=[calling(("again", {})), "just in time"])

    result = await build_agent_loop(tools=[Counter().tool], model=model, max_iterations=2).ainvoke(
        {"messages": [HumanMessage("go")]}
    )

    assert (result["status"], result["messages"][-1].text) == ("done", "just in time")


async def test_the_counter_starts_anew_with_each_input_of_a_thread() -> None:
    model = ScriptedModel(turns=[calling(("again", {})), "one", calling(("again", {})), "two"])
    graph = build_agent_loop(tools=[Counter().tool], model=model, max_iterations=2, checkpointer=InMemorySaver())

    results = [await graph.ainvoke({"messages": [HumanMessage("go")]}, THREAD) for _ in range(2)]

    assert [(result["status"], result["iterations"]) for result in results] == [("done", 2), ("done", 2)]


async def test_after_the_limit_the_thread_takes_a_new_input() -> None:
    model = ScriptedModel(turns=[calling(("again", {})), "better now"])
    graph = build_agent_loop(tools=[Counter().tool], model=model, max_iterations=1, checkpointer=InMemorySaver())

    await graph.ainvoke({"messages": [HumanMessage("go")]}, THREAD)
    result = await graph.ainvoke({"messages": [HumanMessage("and now?")]}, THREAD)

    assert (result["status"], result["messages"][-1].text) == ("done", "better now")


@pytest.mark.parametrize("on_limit", ["end", "error", "summarize"])
@pytest.mark.parametrize("recursion_limit", [None, *range(5, 12)])
async def test_the_graph_recursion_error_never_shows(on_limit: OnIterationLimit, recursion_limit: int | None) -> None:
    graph = build_agent_loop(tools=[Counter().tool], model=never_ending(), on_iteration_limit=on_limit)
    config: Any = {"recursion_limit": recursion_limit} if recursion_limit else {}

    try:
        result = await graph.ainvoke({"messages": [HumanMessage("go")]}, config)
    except IterationLimitError:
        assert on_limit == "error"
    else:
        assert result["status"] == "iteration_limit"
