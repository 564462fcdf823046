"""Offer one MCP tool as a LangChain tool that stays valid however often its server reconnects.

The adapter's `load_mcp_tools` is not used for this: the tools it builds silently drop arguments named `config`,
`runtime` and `run_manager`, return lists of blocks with random ids, and raise for audio. Sessions are the adapter's.
"""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Literal

from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, ToolException
from pydantic import Field

from toolweave.servers.connections.call_context import CallContext
from toolweave.servers.connections.contents import artifact, message_content, message_text
from toolweave.servers.connections.tool_spec import ToolSpec

if TYPE_CHECKING:
    from mcp.types import CallToolResult

Call = Callable[[str, str, dict[str, Any], CallContext], Awaitable["CallToolResult"]]


class McpTool(BaseTool):
    """One tool of one MCP server; invoking it goes through the tool plane.

    `metadata` holds the tool's MCP annotations (`readOnlyHint` and the like). A failed call becomes an error
    ToolMessage, never an exception. Only asynchronous invocation is possible.
    """

    server: str
    mcp_name: str
    call: Callable[..., Awaitable[Any]] = Field(exclude=True, repr=False)
    response_format: Literal["content", "content_and_artifact"] = "content_and_artifact"
    handle_tool_error: bool = True

    def _to_args_and_kwargs(
        self, tool_input: str | dict[str, Any], tool_call_id: str | None
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        # Positional, so that no argument of a tool can collide with a parameter of ours.
        return (tool_input, tool_call_id), {}

    async def _arun(
        self, arguments: str | dict[str, Any], tool_call_id: str | None, *, config: RunnableConfig
    ) -> tuple[str | list[str | dict[str, Any]], dict[str, Any] | None]:
        if not isinstance(arguments, dict):
            raise ToolException(f"The tool {self.name} takes an object of named arguments, not a plain string.")
        context = CallContext.from_configurable(config.get("configurable") or {}, tool_call_id)
        result = await self.call(self.server, self.mcp_name, arguments, context)
        if result.isError:
            raise ToolException(message_text(result) or f"The tool {self.name} failed without saying why.")
        return message_content(result), artifact(result)

    def _run(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"MCP tools are asynchronous: use `await tool.ainvoke(...)` for {self.name}.")


def build_tool(server: str, name: str, spec: ToolSpec, call: Call) -> McpTool:
    """Build the LangChain tool for `spec`, offered as `name`.

    A missing description is filled in and the schema made an object with properties: models insist on both.
    """
    schema = {**spec.input_schema, "type": "object"}
    schema.setdefault("properties", {})
    return McpTool(
        name=name,
        description=spec.description or f"Tool {spec.name} of the MCP server {server}; it has no description.",
        args_schema=schema,
        metadata=spec.annotations | ({"_meta": spec.meta} if spec.meta else {}),
        server=server,
        mcp_name=spec.name,
        call=call,
    )
