"""Have the model put an API's answer into words (W-07)."""

from langchain_core.runnables import RunnableConfig

from toolweave.nodes.model_turn import usage_summary
from toolweave.nodes.workflow.prompting import WorkflowPrompts
from toolweave.nodes.workflow.state import ModelNode, WorkflowMetadata, WorkflowState, WorkflowUpdate


def format_node(prompts: WorkflowPrompts) -> ModelNode:
    """Make the node that formats."""

    async def format_answer(state: WorkflowState, config: RunnableConfig) -> WorkflowUpdate:
        """Write the formatted response.

        Raises:
            StageFailed: the model gave no text.
        """
        wanted = state["wanted_format"]
        formatted = await prompts.format(
            instructions=state["user_instructions"],
            response=state["raw_response"] or {},
            output=state["output"],
            format_instructions=wanted["instructions"] if wanted else None,
            config=config,
        )
        return {
            "status": "success",
            "formatted_response": formatted.text,
            "model_usage": formatted.usage,
            "metadata": WorkflowMetadata(usage=usage_summary([*state["model_usage"], *formatted.usage])),
        }

    return format_answer
