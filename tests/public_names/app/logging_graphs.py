"""Graphs whose runs write log lines: one fails, one blocks the event loop, one calls tools that fail and log."""

import time
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage
from langgraph.graph import START, StateGraph
from typing_extensions import TypedDict

from tests.fixtures.scripted_model import ScriptedModel
from toolweave.graphs import build_agent_loop
from toolweave.graphs.plane_tools import CurrentPlaneTools

# The server logs what blocks the event loop for longer than 100 ms.
BLOCKED_S = 0.5


class Nothing(TypedDict, total=False):
    done: bool


async def raising(state: Nothing) -> Nothing:
    raise ValueError("this node always fails")


async def blocking(state: Nothing) -> Nothing:
    time.sleep(BLOCKED_S)  # noqa: ASYNC251 - the server is to notice it
    return {"done": True}


def asking_for(tool: str, **arguments: Any) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": tool, "args": arguments, "id": tool}])


def flaky(prompt: list[BaseMessage]) -> AIMessage:
    """Call a tool that crashes once; the message names the file in which it counts its calls."""
    return asking_for("flaky_read", file=prompt[-1].text, crashes=1)


fail = StateGraph(Nothing).add_node("raising", raising).add_edge(START, "raising").compile()
block = StateGraph(Nothing).add_node("blocking", blocking).add_edge(START, "blocking").compile()
call = build_agent_loop(
    tools=CurrentPlaneTools(),
    model=ScriptedModel(
        turns=[flaky, asking_for("crash"), asking_for("log", messages=[{"level": "notice", "data": "one"}]), "done"]
    ),
)
