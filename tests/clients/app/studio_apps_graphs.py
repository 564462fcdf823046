"""An agent that rolls dice with a tool that has an app."""

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from tests.fixtures.scripted_model import ScriptedModel
from toolweave.graphs import build_agent_loop
from toolweave.graphs.plane_tools import CurrentPlaneTools


def play(messages: list[BaseMessage]) -> AIMessage:
    """Roll the dice if the user says so, otherwise repeat the message."""
    if not isinstance(messages[-1], HumanMessage):
        return AIMessage("You see the result above.")
    if messages[-1].text != "roll":
        return AIMessage(f"you said: {messages[-1].text}")
    return AIMessage("", tool_calls=[{"name": "roll_dice", "args": {"sides": 20}, "id": f"call-{len(messages)}"}])


dice = build_agent_loop(tools=CurrentPlaneTools(), model=lambda: ScriptedModel(turns=[play]))
