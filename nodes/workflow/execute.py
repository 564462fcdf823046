"""Send the chosen request, if it still is the one that the tool's configuration asks for (W-06)."""

import asyncio
from typing import Any

from toolweave.errors import StageFailed
from toolweave.nodes.http_tools.answers import mapped_output
from toolweave.nodes.http_tools.api_calls import ApiCalls
from toolweave.nodes.http_tools.requests import HTTPRequestSpec, WrongArguments, build_request
from toolweave.nodes.model_turn import usage_summary
from toolweave.nodes.tool_catalog import ToolRegistry
from toolweave.nodes.workflow.state import Selection, WorkflowMetadata, WorkflowNode, WorkflowState, WorkflowUpdate
from toolweave.tool_config import ToolConfig


def execute_node(registry: ToolRegistry, api_calls: ApiCalls) -> WorkflowNode:
    """Make the node that calls the API."""

    async def execute(state: WorkflowState) -> WorkflowUpdate:
        """Write the answer and its output.

        Raises:
            StageFailed: the tool was changed or removed meanwhile; nothing was sent.
            ApiCallFailed: no answer, or one with a status of 400 or more.
            PersistenceError: the registry cannot be read now.
        """
        chosen = state["selection"]
        if chosen is None:
            raise StageFailed("No tool was chosen.")
        tool = (await registry.find([chosen["tool_id"]])).get(chosen["tool_id"])
        request = _request(tool, chosen, state["http_spec"])
        if tool is None or request is None:
            raise StageFailed(
                f"The tool {chosen['tool_id']} was changed or removed while the request was prepared; nothing was sent."
            )
        response = await api_calls.call(tool, request)
        # On a thread: an answer's paths and schema may take some tenths of a second.
        output = await asyncio.to_thread(mapped_output, tool, response)
        return {
            "status": None if state["wanted_format"] else "success",
            "raw_response": response.model_dump(mode="json"),
            "output": output.value,
            "warning": " ".join(output.warnings) or None,
            "metadata": WorkflowMetadata(usage=usage_summary(state["model_usage"])),
        }

    return execute


def _request(tool: ToolConfig | None, chosen: Selection, checked: dict[str, Any] | None) -> HTTPRequestSpec | None:
    """Build the request once more; None unless it is the very one that was checked."""
    try:
        request = build_request(tool, chosen["arguments"]) if tool else None
    except WrongArguments:
        return None
    return request if request and request.model_dump(mode="json") == checked else None
