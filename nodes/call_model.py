"""Make the model turn of the agent loop: the tools of this moment, one answer, one more on the counter."""

from collections.abc import Sequence

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool

from toolweave.nodes.agent_state import AgentState, AgentUpdate, ModelNode
from toolweave.nodes.chat_model_source import LazyChatModel
from toolweave.nodes.dialogue import for_model, requested_calls, with_unique_call_ids
from toolweave.nodes.model_turn import ModelRunnable, answer_status, model_turn
from toolweave.nodes.openai_format import convert_mcp_tools_to_openai
from toolweave.nodes.prompts import SystemPrompt, prompt_text
from toolweave.nodes.tool_catalog import ToolCatalog


def call_model_node(model: LazyChatModel, catalog: ToolCatalog, system_prompt: SystemPrompt) -> ModelNode:
    """Return the node; it asks the catalogue at every turn, so tools come and go with their servers (A-02)."""

    async def call_model(state: AgentState, config: RunnableConfig) -> AgentUpdate:
        messages = state["messages"]
        offered = _offer(await model.get(), await catalog.tools())
        answer = await model_turn(offered, for_model(prompt_text(system_prompt), messages), config)
        answer = with_unique_call_ids(answer, messages)
        return {
            "messages": [answer],
            "iterations": state["iterations"] + 1,
            "status": "running" if requested_calls(answer) else answer_status(answer),
        }

    return call_model


def _offer(model: BaseChatModel, tools: Sequence[BaseTool]) -> ModelRunnable:
    return model.bind_tools(convert_mcp_tools_to_openai(tools)) if tools else model
