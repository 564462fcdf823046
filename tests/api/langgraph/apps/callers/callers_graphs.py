"""An agent that calls one tool of the process's MCP servers and says what came back."""

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from tests.fixtures.scripted_model import ScriptedModel
from toolweave.graphs.agent_loop import build_agent_loop
from toolweave.graphs.plane_tools import CurrentPlaneTools


def answer(messages: list[BaseMessage]) -> AIMessage:
    if isinstance(messages[-1], HumanMessage):
        call = {"name": str(messages[-1].content), "args": {}, "id": "call-1", "type": "tool_call"}
        return AIMessage("", tool_calls=[call])
    return AIMessage(messages[-1].content)


agent = build_agent_loop(tools=CurrentPlaneTools(), model=ScriptedModel(turns=[answer]))
