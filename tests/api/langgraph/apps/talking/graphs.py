"""Agent loops on a talkative MCP server whose model calls the tools of a message, a JSON list of tool calls."""

import json

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.graph import START, StateGraph

from tests.fixtures.scripted_model import ScriptedModel
from toolweave.graphs import build_agent_loop
from toolweave.graphs.plane_tools import CurrentPlaneTools
from toolweave.nodes.agent import AgentOutput


def obey(messages: list[BaseMessage]) -> AIMessage:
    """Call what the user lists, in one turn, then say that it is done."""
    if not isinstance(messages[-1], HumanMessage):
        return AIMessage("done")
    calls = [{**call, "type": "tool_call"} for call in json.loads(messages[-1].text)]
    return AIMessage("", tool_calls=calls)


talking = build_agent_loop(tools=CurrentPlaneTools(), model=lambda: ScriptedModel(turns=[obey]))

_around = StateGraph(AgentOutput)
_around.add_node("inner", talking)
_around.add_edge(START, "inner")
around = _around.compile()
