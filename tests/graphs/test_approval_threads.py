"""Approvals on threads, in other graphs, at the cap, and in runs without a user (S-07, D-10)."""

from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command

from tests.fixtures.scripted_model import ScriptedModel, calling
from tests.graphs.gated_tools import GO, THREAD, Desk, requests, results
from toolweave.graphs import AgentLoop, build_agent_loop
from toolweave.nodes.agent import AgentInput

ERASE = ("erase", {"path": "a"}, "e")
LOOK = ("look", {"path": "d"}, "l")


async def test_calls_over_the_cap_need_no_approval() -> None:
    desk = Desk()

    result = await desk.graph(calling(ERASE), max_iterations=1).ainvoke(GO, THREAD)

    assert (result["status"], desk.ran) == ("iteration_limit", [])
    assert "__interrupt__" not in result


@pytest.mark.requirement("D-10")
@pytest.mark.parametrize("recursion_limit", [None, *range(5, 12)])
async def test_in_a_run_without_a_user_every_turn_is_refused_until_the_cap(recursion_limit: int | None) -> None:
    desk = Desk()
    graph = desk.graph(calling(("erase", {"path": "a"}), ("look", {})))
    config: Any = {"configurable": {"thread_id": "t", "unattended": True}}
    if recursion_limit:
        config["recursion_limit"] = recursion_limit

    result = await graph.ainvoke(GO, config)

    assert result["status"] == "iteration_limit"
    assert {name for name, _ in desk.ran} <= {"look"}
    if recursion_limit is None:
        assert result["iterations"] == 10


@pytest.mark.requirement("D-10")
@pytest.mark.parametrize("recursion_limit", [1_000, *range(5, 12)])
async def test_however_few_steps_the_caller_allows_a_run_with_approvals_ends_at_its_cap(recursion_limit: int) -> None:
    desk = Desk()
    options: Any = {"max_iterations": 4, "on_iteration_limit": "summarize"}
    graph = desk.graph(calling(("erase", {"path": "a"}), ("look", {})), **options)
    config: Any = {**THREAD, "recursion_limit": recursion_limit}

    result = await graph.ainvoke(GO, config)
    while "__interrupt__" in result:
        result = await graph.ainvoke(Command(resume="approve"), config)

    assert result["status"] == "iteration_limit"
    assert recursion_limit < 1_000 or len(desk.ran) == 6


async def test_a_run_that_is_sent_to_an_approval_node_with_nothing_to_approve_is_not_interrupted() -> None:
    desk = Desk()
    graph = desk.graph("hello")
    await graph.ainvoke(GO, THREAD)

    for node in ("approve", "answer_questions"):
        result = await graph.ainvoke(Command(goto=node), THREAD)
        assert "__interrupt__" not in result


async def test_the_agent_loop_of_one_task_refuses_calls_that_need_approval() -> None:
    desk = Desk()
    model = ScriptedModel(turns=[calling(ERASE), "I may not."])

    assert await AgentLoop(desk.tools, model).run("erase it") == "I may not."
    assert desk.ran == []
    assert "nobody can be asked" in model.prompts[1][-1].text


async def test_inside_another_graph_the_persons_answer_comes_through_that_graphs_thread() -> None:
    desk = Desk()
    host = StateGraph(AgentInput)
    inner = build_agent_loop(tools=desk.tools, model=ScriptedModel(turns=[calling(ERASE), "erased"]))
    host.add_node("agent", inner)
    host.add_edge(START, "agent")
    graph = host.compile(checkpointer=InMemorySaver())

    paused = await graph.ainvoke(GO, THREAD)
    assert requests(dict(paused))[0]["action_request"]["action"] == "erase"
    result = await graph.ainvoke(Command(resume=[{"type": "accept"}]), THREAD)

    assert desk.ran == [("erase", {"path": "a"})]
    assert result["messages"][-1].text == "erased"


async def test_a_new_message_instead_of_an_answer_leaves_the_call_behind_unexecuted() -> None:
    desk = Desk()
    graph = await desk.paused_at(ERASE)

    result = await graph.ainvoke({"messages": [HumanMessage("forget it")]}, THREAD)

    assert (desk.ran, result["messages"][-1].text) == ([], "ok")
    assert "__interrupt__" not in result
    state = await graph.aget_state(THREAD)
    assert (state.next, state.values["to_approve"]) == ((), {})
    assert "instead of a decision" in results({"messages": desk.model.prompts[-1]})["e"][1]


async def test_arguments_edited_in_the_state_are_those_of_the_request_and_of_the_call() -> None:
    desk = Desk()
    graph = await desk.paused_at(ERASE)
    pending = (await graph.aget_state(THREAD)).values["messages"][-1]
    changed = pending.model_copy(update={"tool_calls": calling(("erase", {"path": "z"}, "e")).tool_calls})

    await graph.aupdate_state(THREAD, {"messages": [changed]})
    paused = await graph.ainvoke(None, THREAD)

    assert [request["action_request"]["args"] for request in requests(paused)] == [{"path": "z"}]
    await graph.ainvoke(Command(resume="approve"), THREAD)
    assert desk.ran == [("erase", {"path": "z"})]


async def test_going_back_to_before_the_approval_needs_another_approval() -> None:
    desk = Desk()
    graph = await desk.paused_at(ERASE)
    waiting = (await graph.aget_state(THREAD)).config
    await graph.ainvoke(Command(resume="approve"), THREAD)
    assert len(desk.ran) == 1

    paused = await graph.ainvoke(None, waiting)

    assert len(requests(paused)) == 1
    assert len(desk.ran) == 1, "an old approval is not used again"


async def test_a_turn_without_approval_adds_neither_steps_nor_keys_of_the_state() -> None:
    desk = Desk()
    graph = desk.graph(calling(LOOK), "ok")

    steps = [update async for update in graph.astream(GO, THREAD, stream_mode="updates")]

    assert [list(step) for step in steps] == [["accept_input"], ["call_model"], ["tools"], ["call_model"]]
    assert (await graph.aget_state(THREAD)).values.keys() == {"messages", "iterations", "status"}


@pytest.mark.requirement("S-07")
async def test_a_finished_call_is_not_repeated_when_the_turn_is_cut_off_after_its_approval() -> None:
    desk = Desk()
    graph = await desk.paused_at(ERASE, LOOK)

    await graph.ainvoke(Command(resume="approve"), THREAD, interrupt_after=["tools"])
    assert sorted(desk.ran) == [("erase", ERASE[1]), ("look", LOOK[1])]
    result = await graph.ainvoke(None, THREAD)

    assert len(desk.ran) == 2
    assert result["status"] == "done"
