"""Make the tool node: it carries out one call, and whatever goes wrong becomes a result the model can act on.

The loop sends it one task per call, so calls of a turn run at the same time and a finished one is not repeated when
its siblings are resumed (S-07).
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, ToolException
from langgraph.prebuilt import ToolNode
from langgraph.prebuilt.tool_node import ToolCallRequest, ToolInvocationError
from langgraph.types import Command
from loguru import logger

from toolweave.errors import ToolError
from toolweave.nodes.dialogue import ToolTask, requested_call, requires_approval, result_of
from toolweave.nodes.human_in_the_loop import waiting_for_answers, with_answers
from toolweave.nodes.large_results import keeping_tool
from toolweave.nodes.tool_catalog import ToolCatalog, absent_tools, find_tool
from toolweave.nodes.tool_selection import no_such_tool

LONGEST_ERROR = 2_000
NOT_APPROVED = "Not executed: this tool needs a person's approval. Call it again, and the person will be asked."
ABSENT = "Not executed: the server of this tool is not available right now. Please try again later."
Result = ToolMessage | Command[Any]
Execute = Callable[[ToolCallRequest], Awaitable[Result]]


def tools_node(catalog: ToolCatalog, own_tools: Sequence[BaseTool] = ()) -> ToolNode:
    """Return the node; its input is a list with the one call, as `Send("tools", [call])` gives it (A-02, A-08).

    `own_tools` are carried out beside those of the catalogue.
    """

    async def carry_out(request: ToolCallRequest, execute: Execute) -> Result:
        call = cast("ToolTask", request.tool_call)
        arguments = call["args"]
        if isinstance(arguments, str):
            return result_of(call, f"The arguments are not a JSON object: {arguments[:LONGEST_ERROR]}")
        tools = await catalog.tools()
        present = find_tool([*tools, *own_tools], call["name"])
        # The model was offered it, and perhaps a person approved it, before its server was lost.
        tool = present or find_tool(await absent_tools(catalog), call["name"])
        if tool is None:
            return result_of(call, no_such_tool(call["name"], tools))
        if requires_approval(tool) and call.get("approved_tool") != tool.name:
            return result_of(call, NOT_APPROVED if present else ABSENT)
        with logger.contextualize(tool=tool.name, tool_call_id=call["id"]):
            answering = with_answers(tool, call, request.runtime.config)
            answering = keeping_tool(answering, call["id"], request.runtime)
            requested = requested_call(call, tool.name)
            result = await execute(request.override(tool=answering, tool_call=requested))
            return waiting_for_answers(call, result) or _plain_text(result)

    return ToolNode([], handle_tool_errors=explain_tool_failure, awrap_tool_call=carry_out)


def explain_tool_failure(error: Exception) -> str:
    """Put a tool's exception into words for the model; what is not meant for it goes to the log only."""
    if isinstance(error, ToolInvocationError):
        problems = error.filtered_errors or error.source.errors()
        listed = "; ".join(f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}" for problem in problems)
        return f"The arguments do not fit: {listed}. Correct them and call the tool again."[:LONGEST_ERROR]
    if isinstance(error, ToolException | ToolError):
        return str(error)[:LONGEST_ERROR] or "The tool failed and gave no reason."
    if isinstance(error, TimeoutError):
        return "The tool did not answer in time and was stopped. Please try again later."
    logger.opt(exception=error).error("a tool failed with an internal error")
    return "The tool failed because of an internal error. Please try again later."


def _plain_text(result: Result) -> Result:
    """Join text blocks: MCP results are lists of them, which not every endpoint takes from a tool."""
    if not isinstance(result, ToolMessage) or isinstance(result.content, str):
        return result
    texts = [block["text"] for block in result.content if isinstance(block, dict) and block.get("type") == "text"]
    if len(texts) < len(result.content):
        return result
    return result.model_copy(update={"content": "\n".join(texts)})
