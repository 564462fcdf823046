"""Graphs that a stranger's application folder could hold, one per outcome that the commands must show."""

import asyncio
from typing import Any

from langchain_core.messages import AIMessage, ToolMessage
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import interrupt
from typing_extensions import TypedDict


class Count(TypedDict):
    n: int


def _say(text: str) -> dict[str, Any]:
    return {"messages": [AIMessage(text)]}


def _echo(state: MessagesState) -> dict[str, Any]:
    return _say(f"You said: {state['messages'][-1].text}")


def _ask_name(state: MessagesState) -> dict[str, Any]:
    return _say(f"Hello {interrupt('What is your name?')}")


def _call(state: MessagesState) -> dict[str, Any]:
    call = {"name": "erase", "args": {"path": "/tmp/\x1b[31mred"}, "id": "call-1"}  # noqa: S108
    return {"messages": [AIMessage("", tool_calls=[call])]}


def _approve(state: MessagesState) -> dict[str, Any]:
    allowed = {"allow_accept": True, "allow_ignore": True, "allow_edit": True, "allow_respond": False}
    answer = interrupt([{"action_request": {"action": "erase", "args": {"path": "a"}}, "config": allowed}])[0]
    result = ToolMessage(f"erase: {answer}", tool_call_id="call-1", name="erase")
    return {"messages": [result, AIMessage(f"The answer was {answer['type']}.")]}


def _fail(state: MessagesState) -> dict[str, Any]:
    raise ValueError("the disk is on fire")


async def _wait(state: MessagesState) -> dict[str, Any]:
    await asyncio.Event().wait()
    return {}


def _increase(state: Count) -> Count:
    return {"n": state["n"] + 1}


def _single(name: str, node: Any, state: Any = MessagesState) -> Any:
    graph: Any = StateGraph(state)
    return graph.add_node(name, node).add_edge(START, name).add_edge(name, END).compile()


echo = _single("echo", _echo)
asks = _single("ask", _ask_name)
fails = _single("fail", _fail)
waits = _single("wait", _wait)
approves = (
    StateGraph(MessagesState)
    .add_node("call", _call)
    .add_node("approve", _approve)
    .add_edge(START, "call")
    .add_edge("call", "approve")
    .add_edge("approve", END)
    .compile()
)


def make_counts() -> Any:
    return _single("increase", _increase, Count)
