"""Make the model turn of the agent loop: the tools of this moment, one answer, one more on the counter."""

from collections.abc import Sequence

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import RunnableConfig

from toolweave.nodes.agent_state import AgentState, AgentUpdate, ModelNode, Status
from toolweave.nodes.approval import calls_to_approve
from toolweave.nodes.chat_model_source import LazyChatModel
from toolweave.nodes.dialogue import for_model, requested_calls, with_unique_call_ids
from toolweave.nodes.model_turn import ModelRunnable, answer_status, model_turn
from toolweave.nodes.openai_format import OpenAITool
from toolweave.nodes.prompts import SystemPrompt, prompt_text
from toolweave.nodes.tool_selection import OfferedTools


def call_model_node(
    model: LazyChatModel, catalog: OfferedTools, system_prompt: SystemPrompt, *, steps_to_an_end: int
) -> ModelNode:
    """Return the node; it asks the catalogue at every turn, so tools come and go with their servers (A-02).

    Of a large catalogue the model is offered what is relevant (D-2).

    When fewer than `steps_to_an_end` steps are left, calls that the model asks for come too late (D-10).
    """

    async def call_model(state: AgentState, config: RunnableConfig) -> AgentUpdate:
        if state.get("waiting_calls"):
            # Calls of this turn wait for a person's answers: the edge out of here leads to the questions first.
            return {}
        messages = state["messages"]
        tools = await catalog.tools()
        offered = _offer(await model.get(), await catalog.offer(tools, messages))
        answer = await model_turn(offered, for_model(prompt_text(system_prompt), messages), config)
        answer = with_unique_call_ids(answer, messages)
        status: Status = "running" if state["remaining_steps"] >= steps_to_an_end else "iteration_limit"
        update: AgentUpdate = {
            "messages": [answer],
            "iterations": state.get("iterations", 0) + 1,
            "status": status if requested_calls(answer) else answer_status(answer),
        }
        to_approve = calls_to_approve(answer, tools)
        return {**update, "to_approve": to_approve} if to_approve else update

    return call_model


def _offer(model: BaseChatModel, tools: Sequence[OpenAITool]) -> ModelRunnable:
    return model.bind_tools(tools) if tools else model
