"""Tools that the client executes: the agent loop offers them, and their calls end the run (S-09, S-10)."""

from typing import Any

import pytest
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from tests.fixtures.scripted_model import ScriptedModel, add, calling
from toolweave.graphs import build_agent_loop

pytestmark = pytest.mark.requirement("S-09")


def config(*names: str) -> Any:
    tools = [{"type": "function", "function": {"name": name, "description": name}} for name in names]
    return {"configurable": {"thread_id": "1", "client_tools": tools}}


ASK: Any = {"messages": [HumanMessage("hello")]}
ADD = ("add", {"a": 1, "b": 2}, "call-add")
PICK = ("pick", {"colour": "red"}, "call-pick")


async def test_a_turn_of_client_calls_ends_the_run_and_their_results_start_the_next_turn() -> None:
    model = ScriptedModel(turns=[calling(PICK, ("say", {}, "call-say")), "picked"])
    graph = build_agent_loop(tools=[add], model=model, checkpointer=InMemorySaver(), max_iterations=1)
    ended = await graph.ainvoke(ASK, config("pick", "say"))
    assert (ended["status"], len(ended["messages"])) == ("client_tools", 2)
    assert model.offered == [["add", "pick", "say"]]
    results: Any = [ToolMessage("red it is", tool_call_id="call-pick"), ToolMessage("said", tool_call_id="call-say")]
    done = await graph.ainvoke({"messages": results}, config("pick", "say"))
    assert (done["status"], done["messages"][-1].text) == ("done", "picked")


async def test_the_other_calls_of_the_turn_run_before_the_run_ends() -> None:
    model = ScriptedModel(turns=[calling(PICK, ADD), "three and red"])
    graph = build_agent_loop(tools=[add], model=model, checkpointer=InMemorySaver())
    ended = await graph.ainvoke(ASK, config("pick"))
    assert ended["status"] == "client_tools"
    assert [(message.tool_call_id, message.text) for message in ended["messages"][2:]] == [("call-add", "3")]
    done = await graph.ainvoke({"messages": [ToolMessage("red", tool_call_id="call-pick")]}, config("pick"))
    assert done["messages"][-1].text == "three and red"
    assert {message.text for message in model.prompts[1] if isinstance(message, ToolMessage)} == {"3", "red"}


async def test_a_turn_can_need_an_approval_and_call_a_client_tool() -> None:
    @tool
    def remove(name: str) -> str:
        """Remove a thing."""
        return f"removed {name}"

    remove.metadata = {"requires_approval": True}
    model = ScriptedModel(turns=[calling(PICK, ("remove", {"name": "it"})), "done"])
    graph = build_agent_loop(tools=[remove], model=model, checkpointer=InMemorySaver())
    asked = await graph.ainvoke(ASK, config("pick"))
    [request] = asked["__interrupt__"][0].value
    assert request["action_request"]["action"] == "remove"
    result = ToolMessage("red", tool_call_id="call-pick")
    answers: Any = Command(resume=[{"type": "accept"}], update={"messages": [result]})
    done = await graph.ainvoke(answers, config("pick"))
    assert {message.text for message in model.prompts[1] if isinstance(message, ToolMessage)} == {"removed it", "red"}
    assert done["messages"][-1].text == "done"


async def test_a_client_tool_replaces_a_tool_of_the_same_name_in_its_run_only() -> None:
    model = ScriptedModel(turns=[calling(ADD), "three", calling(("add", {"a": 2, "b": 2})), "four"])
    graph = build_agent_loop(tools=[add], model=model, checkpointer=InMemorySaver())
    ended = await graph.ainvoke(ASK, config("add"))
    assert (ended["status"], model.offered) == ("client_tools", [["add"]])
    await graph.ainvoke({"messages": [ToolMessage("3", tool_call_id="call-add")]}, config("add"))
    done = await graph.ainvoke(ASK, config())
    assert done["messages"][-1].text == "four"


async def test_a_message_instead_of_the_results_continues_the_conversation() -> None:
    model = ScriptedModel(turns=[calling(PICK), "never mind"])
    graph = build_agent_loop(tools=[add], model=model, checkpointer=InMemorySaver())
    await graph.ainvoke(ASK, config("pick"))
    done = await graph.ainvoke(ASK, config("pick"))
    assert (done["status"], done["messages"][-1].text) == ("done", "never mind")
