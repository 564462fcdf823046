"""Answer without a model when an agent's tools are not there (T-06)."""

from langchain_core.messages import AIMessage
from loguru import logger

from toolweave.nodes.accept_input import accept_input
from toolweave.nodes.agent_state import AgentState, AgentUpdate, StateNode
from toolweave.nodes.tool_catalog import SelectedTools

NO_DATABASE = "Unable to access todo database. Please try again later."
NO_TOOLS = f"No MCP tools available. {NO_DATABASE}"


def check_tools_node(needed: SelectedTools) -> StateNode:
    """Return the node that starts a run and notes whether any of the needed tools can be called."""

    async def check_tools(state: AgentState) -> AgentUpdate:
        begun = accept_input(state)
        available = await needed.catalog.tools()
        if needed.among(available):
            return begun
        return {**begun, "status": "tools_missing" if available else "no_tools"}

    return check_tools


def tools_missing(state: AgentState) -> AgentUpdate:
    """Give the fixed answer and tell the operator."""
    text = NO_TOOLS if state["status"] == "no_tools" else NO_DATABASE
    logger.critical("the todo tools are not available, a request was answered without them: {}", text)
    return {"messages": [AIMessage(text)]}
