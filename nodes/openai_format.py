"""Write tools in the OpenAI format: MCP tools, their plain dicts and LangChain tools (A-01)."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, overload, runtime_checkable

from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

LONGEST_NAME = 64
_FORBIDDEN = re.compile(r"[^a-zA-Z0-9_-]")


@runtime_checkable
class McpTool(Protocol):
    """The three fields of `mcp.types.Tool` that matter here; the mcp package itself is not imported."""

    name: str
    description: str | None
    inputSchema: dict[str, Any]  # noqa: N815 - the protocol's own spelling


AnyTool = McpTool | Mapping[str, Any] | BaseTool
OpenAITool = dict[str, Any]


class _Described(NamedTuple):
    name: str
    description: str | None
    schema: object


@overload
def convert_mcp_tools_to_openai(tools: Sequence[AnyTool]) -> list[OpenAITool]: ...
@overload
def convert_mcp_tools_to_openai(tools: AnyTool) -> OpenAITool: ...
def convert_mcp_tools_to_openai(tools: AnyTool | Sequence[AnyTool]) -> OpenAITool | list[OpenAITool]:
    """Convert one tool to one dict, or a sequence of tools to a list of dicts (A-01).

    Each result is exactly `{"type": "function", "function": {"name", "description", "parameters"}}`. Names that
    OpenAI refuses are rewritten, see `openai_name_map`. A missing description becomes the tool's name; a missing or
    non-object schema becomes `{"type": "object", "properties": {}}`.

    Raises:
        TypeError: something in `tools` is neither an MCP tool, a dict with a `name`, nor a LangChain tool.
    """
    if isinstance(tools, Sequence):
        described = [_describe(tool) for tool in tools]
        names = _openai_names(tool.name for tool in described)
        return [_function(name, tool) for name, tool in zip(names, described, strict=True)]
    tool = _describe(tools)
    return _function(_openai_names([tool.name])[0], tool)


def openai_tools(tools: Sequence[BaseTool], *, among: Sequence[BaseTool]) -> list[OpenAITool]:
    """Convert a part of a catalogue under the names that its tools have `among` all of it."""
    names = {own: name for name, own in openai_name_map(among).items()}
    return [_function(names.get(tool.name, tool.name), _describe(tool)) for tool in tools]


def openai_name_map(tools: Sequence[AnyTool]) -> dict[str, str]:
    """Map each name that `convert_mcp_tools_to_openai(tools)` uses to the tool's own name (A-01)."""
    own = [_describe_name(tool) for tool in tools]
    return dict(zip(_openai_names(own), own, strict=True))


def find_tool(tools: Sequence[BaseTool], name: str) -> BaseTool | None:
    """Return the tool that a model calls by `name`, which may be one that `convert_mcp_tools_to_openai` rewrote."""
    own = openai_name_map(tools).get(name, name)
    return next((tool for tool in tools if tool.name == own), None)


def _function(name: str, tool: _Described) -> OpenAITool:
    description = tool.description if tool.description and tool.description.strip() else f"Tool {tool.name}"
    parameters = _object_schema(tool.schema)
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


def _openai_names(own: Iterable[str]) -> list[str]:
    taken: set[str] = set()
    names = []
    for name in own:
        base = _FORBIDDEN.sub("_", name)[:LONGEST_NAME] or "tool"
        candidate, number = base, 1
        while candidate in taken:
            number += 1
            suffix = f"_{number}"
            candidate = base[: LONGEST_NAME - len(suffix)] + suffix
        taken.add(candidate)
        names.append(candidate)
    return names


def _describe_name(tool: AnyTool) -> str:
    name = tool.get("name") if isinstance(tool, Mapping) else getattr(tool, "name", None)
    if not isinstance(name, str):
        raise TypeError(f"not a tool: {type(tool).__name__} has no name")
    return name


def _describe(tool: AnyTool) -> _Described:
    name = _describe_name(tool)
    if isinstance(tool, Mapping):
        return _Described(name, tool.get("description"), tool.get("inputSchema"))
    if isinstance(tool, BaseTool):
        return _Described(name, tool.description, convert_to_openai_tool(tool)["function"].get("parameters"))
    return _Described(name, getattr(tool, "description", None), getattr(tool, "inputSchema", None))


def _object_schema(schema: object) -> dict[str, Any]:
    if not isinstance(schema, Mapping):
        return {"type": "object", "properties": {}}
    properties, kind = schema.get("properties"), schema.get("type")
    if kind != "object" and not (kind is None and isinstance(properties, Mapping)):
        return {"type": "object", "properties": {}}
    return {**schema, "type": "object", "properties": properties if isinstance(properties, Mapping) else {}}
