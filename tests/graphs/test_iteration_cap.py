"""D-10: how the loop ends when the model requests tools in every turn."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from tests.fixtures.scripted_model import ScriptedModel, calling
from tests.graphs.gated_tools import GO, THREAD
from toolweave.errors import IterationLimitError
from toolweave.graphs import build_agent_loop
from toolweave.nodes.agent import OnIterationLimit

pytestmark = pytest.mark.requirement("D-10")


@tool
async def again() -> str:
    """Run once more."""
    return "ran"


def never_ending() -> ScriptedModel:
    return ScriptedModel(turns=[calling(("again", {}, "left"), ("again", {}, "right"))])


@pytest.mark.parametrize("limit", [1, 2, 10])
async def test_end_names_the_limit_in_the_last_message_and_the_status(limit: int) -> None:
    model = never_ending()

    result = await build_agent_loop(tools=[again], model=model, max_iterations=limit).ainvoke(GO)

    *_, calls, left, right, last = result["messages"]
    assert len(model.prompts) == limit
    ran = [message.content for message in result["messages"] if isinstance(message, ToolMessage)]
    assert ran.count("ran") == 2 * (limit - 1), "the calls of the last turn are not executed"
    assert [call["id"] for call in calls.tool_calls] == [left.tool_call_id, right.tool_call_id]
    assert left.status == right.status == "error"
    assert isinstance(last, AIMessage)
    assert f"{limit} model calls" in last.text
    assert (result["status"], result["iterations"]) == ("iteration_limit", limit)


async def test_error_fails_the_run_with_the_number_in_its_text() -> None:
    model = never_ending()
    graph = build_agent_loop(
        tools=[again], model=model, max_iterations=3, on_iteration_limit="error", checkpointer=InMemorySaver()
    )

    with pytest.raises(IterationLimitError, match=r"iteration limit: 3 ") as failure:
        await graph.ainvoke(GO, THREAD)

    assert isinstance(failure.value, RuntimeError)
    assert len(model.prompts) == 3
    stored = (await graph.aget_state(THREAD)).values["messages"]
    assert [message.status for message in stored[-2:] if isinstance(message, ToolMessage)] == ["error", "error"]


async def test_summarize_sends_one_more_request_without_tools() -> None:
    model = ScriptedModel(turns=[calling(("again", {})), calling(("again", {})), "So far nothing."])

    result = await build_agent_loop(
        tools=[again], model=model, max_iterations=2, on_iteration_limit="summarize"
    ).ainvoke(GO)

    assert model.offered == [["again"], ["again"], []]
    assert result["messages"][-1].text == "So far nothing."
    assert (result["status"], result["iterations"]) == ("iteration_limit", 3)


async def test_a_summary_that_only_calls_tools_becomes_the_note() -> None:
    result = await build_agent_loop(
        tools=[again], model=never_ending(), max_iterations=1, on_iteration_limit="summarize"
    ).ainvoke(GO)

    assert result["messages"][-1].tool_calls == []
    assert "iteration limit" in result["messages"][-1].text


async def test_an_answer_at_the_very_limit_is_an_ordinary_one() -> None:
    model = ScriptedModel(turns=[calling(("again", {})), "just in time"])

    result = await build_agent_loop(tools=[again], model=model, max_iterations=2).ainvoke(GO)

    assert (result["status"], result["messages"][-1].text) == ("done", "just in time")


async def test_the_counter_starts_anew_with_each_input_of_a_thread() -> None:
    turn = calling(("again", {}))
    model = ScriptedModel(turns=[turn, "one", turn, turn, turn, "two"])
    graph = build_agent_loop(tools=[again], model=model, max_iterations=2, checkpointer=InMemorySaver())

    results = [await graph.ainvoke(GO, THREAD) for _ in range(3)]

    assert [(result["status"], result["iterations"]) for result in results] == [
        ("done", 2),
        ("iteration_limit", 2),
        ("done", 2),
    ]


@pytest.mark.parametrize("on_limit", ["end", "error", "summarize"])
@pytest.mark.parametrize("recursion_limit", [None, *range(5, 12)])
async def test_the_graph_recursion_error_never_shows(on_limit: OnIterationLimit, recursion_limit: int | None) -> None:
    graph = build_agent_loop(tools=[again], model=never_ending(), on_iteration_limit=on_limit)
    config: Any = {"recursion_limit": recursion_limit} if recursion_limit else {}

    try:
        result = await graph.ainvoke(GO, config)
    except IterationLimitError:
        assert on_limit == "error"
    else:
        assert result["status"] == "iteration_limit"
