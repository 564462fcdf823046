"""Build the workflow nodes that look up, send and format: retrieve, execute, format (W-03, W-04, W-06, W-07)."""

import asyncio
from typing import Any

from langchain_core.runnables import RunnableConfig

from toolweave.config.documents import validate_graph_input
from toolweave.errors import StageFailed
from toolweave.nodes.http_tools.api_calls import ApiCalls
from toolweave.nodes.http_tools.requests import HTTPRequestSpec, WrongArguments, build_request
from toolweave.nodes.http_tools.responses import mapped_output
from toolweave.nodes.model_turn import usage_summary
from toolweave.nodes.tool_catalog import ToolRegistry, registered_tools
from toolweave.nodes.tool_selection import CachedIndex
from toolweave.nodes.workflow.prompts import WorkflowModel
from toolweave.nodes.workflow.state import (
    CheckedWorkflowInput,
    ChosenRequest,
    WantedFormat,
    WorkflowMetadata,
    WorkflowNode,
    WorkflowState,
    WorkflowUpdate,
    new_state,
)
from toolweave.nodes.workflow.tool_descriptions import tool_candidates
from toolweave.tool_config import ToolConfig


def retrieve_node(registry: ToolRegistry, max_tools: int) -> WorkflowNode:
    """Return the node that reads the requested or all tools; of more than `max_tools` it selects the relevant ones."""
    index = CachedIndex()

    async def retrieve(state: WorkflowState) -> WorkflowUpdate:
        """Write the candidates.

        Raises:
            StageFailed: the input is invalid, or there is no tool to choose from.
            UnknownTools: some ids are not registered; names all of them.
            PersistenceError: the registry cannot be read now.
        """
        task = validate_graph_input(CheckedWorkflowInput, state, "The workflow cannot start")
        if task.tool_ids is None:
            tools = list(await registry.list_all())
            if not tools:
                text = "No tool is registered: register one (POST /tools) or an API (POST /tools/import/openapi)."
                raise StageFailed(text)
        else:
            tools = list((await registered_tools(registry, tuple(dict.fromkeys(task.tool_ids)))).values())
        if task.tags is not None:
            wanted = set(task.tags)
            tools = [tool for tool in tools if not wanted.isdisjoint(tool.tags)]
            if not tools:
                raise StageFailed("No tool has one of the requested tags. GET /tools shows the tags of each tool.")
        if len(tools) > max_tools:
            places = (await index.get(tools)).choose([(task.user_instructions, 1.0)], max_tools)
            tools = [tools[place] for place in places]
        candidates = await asyncio.to_thread(tool_candidates, tools)
        formatting = WantedFormat(instructions=task.response_format_instructions) if task.format_response else None
        return {**new_state(), "candidates": candidates, "wanted_format": formatting}

    return retrieve


def execute_node(registry: ToolRegistry, api_calls: ApiCalls) -> WorkflowNode:
    """Return the node that calls the API."""

    async def execute(state: WorkflowState) -> WorkflowUpdate:
        """Write the response and the output.

        Raises:
            StageFailed: the tool was changed or removed meanwhile; nothing was sent.
            ApiCallFailed: no response, or one with a status of 400 or more.
            PersistenceError: the registry cannot be read now.
        """
        chosen = state["selection"]
        if chosen is None:
            raise StageFailed("No tool was chosen.")
        tool = (await registry.find([chosen["tool_id"]])).get(chosen["tool_id"])
        request = _rebuild(tool, chosen, state["http_spec"])
        if tool is None or request is None:
            raise StageFailed(
                f"The tool {chosen['tool_id']} was changed or removed while the request was prepared; nothing was sent."
            )
        response = await api_calls.call(tool, request)
        # On a thread: mapping and checking a response may take some tenths of a second.
        output = await asyncio.to_thread(mapped_output, tool, response)
        return {
            "status": None if state["wanted_format"] else "success",
            "raw_response": response.model_dump(mode="json"),
            "output": output.value,
            "warning": " ".join(output.warnings) or None,
            "metadata": WorkflowMetadata(usage=usage_summary(state["model_usage"])),
        }

    return execute


def _rebuild(tool: ToolConfig | None, chosen: ChosenRequest, checked: dict[str, Any] | None) -> HTTPRequestSpec | None:
    """Build the request again; return None unless it equals the checked one."""
    try:
        request = build_request(tool, chosen["arguments"]) if tool else None
    except WrongArguments:
        return None
    return request if request and request.model_dump(mode="json") == checked else None


def format_node(prompts: WorkflowModel) -> WorkflowNode:
    """Return the node that formats the response for the user."""

    async def format_answer(state: WorkflowState, config: RunnableConfig) -> WorkflowUpdate:
        """Write the formatted response.

        Raises:
            StageFailed: the model returned no text.
        """
        answer, usage = await prompts.format(state, config)
        return {
            "status": "success",
            "formatted_response": answer.text.strip(),
            "model_usage": [usage],
            "metadata": WorkflowMetadata(usage=usage_summary([*state["model_usage"], usage])),
        }

    return format_answer
