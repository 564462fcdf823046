"""Stop an agent loop that asked its model often enough (D-10)."""

from typing import Literal

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langchain_core.runnables import RunnableConfig

from toolweave.errors import IterationLimitError
from toolweave.nodes.agent_state import AgentState, AgentUpdate, ModelNode, StateNode
from toolweave.nodes.chat_model_source import LazyChatModel
from toolweave.nodes.dialogue import for_model, requested_calls
from toolweave.nodes.model_turn import model_turn
from toolweave.nodes.prompts import SUMMARY_PROMPT

OnIterationLimit = Literal["end", "error", "summarize"]


def iteration_cap_node(on_limit: OnIterationLimit) -> StateNode:
    """Return the node that answers each pending call with an error and, for "end", says why the run stops."""

    def iteration_cap(state: AgentState) -> AgentUpdate:
        limit = state["iterations"]
        refused: list[AnyMessage] = [
            ToolMessage(
                f"Not executed: the limit of {limit} model calls is reached.",
                name=call["name"],
                tool_call_id=call["id"],
                status="error",
            )
            for call in requested_calls(state["messages"][-1])
        ]
        note: list[AnyMessage] = [AIMessage(_note(limit))] if on_limit == "end" else []
        return {"messages": [*refused, *note], "status": "iteration_limit"}

    return iteration_cap


def limit_error(state: AgentState) -> AgentUpdate:
    """Fail the run.

    Raises:
        IterationLimitError: always, with the number of model calls made.
    """
    raise IterationLimitError(state["iterations"])


def summarize_node(model: LazyChatModel) -> ModelNode:
    """Return the node that asks the model once more, without tools, for what it knows so far."""

    async def summarize(state: AgentState, config: RunnableConfig) -> AgentUpdate:
        answer = await model_turn(await model.get(), for_model(SUMMARY_PROMPT, state["messages"]), config)
        text = answer.text or _note(state["iterations"])
        summary = answer.model_copy(update={"content": text, "tool_calls": [], "invalid_tool_calls": []})
        return {"messages": [summary], "iterations": state["iterations"] + 1}

    return summarize


def _note(limit: int) -> str:
    return (
        f"I stopped at the iteration limit: {limit} model calls without a final answer. "
        "Ask for less at once, or raise the limit."
    )
