"""Have the model put an API's answer into words (W-07)."""

from langchain_core.runnables import RunnableConfig

from toolweave.nodes.model_turn import usage_summary
from toolweave.nodes.workflow.prompting import WorkflowPrompts
from toolweave.nodes.workflow.state import WorkflowMetadata, WorkflowNode, WorkflowState, WorkflowUpdate


def format_node(prompts: WorkflowPrompts) -> WorkflowNode:
    """Make the node that formats."""

    async def format_answer(state: WorkflowState, config: RunnableConfig) -> WorkflowUpdate:
        """Write the formatted response.

        Raises:
            StageFailed: the model gave no text.
        """
        answer, usage = await prompts.format(state, config)
        return {
            "status": "success",
            "formatted_response": answer.text.strip(),
            "model_usage": [usage],
            "metadata": WorkflowMetadata(usage=usage_summary([*state["model_usage"], usage])),
        }

    return format_answer
