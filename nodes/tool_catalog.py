"""Tool catalogues and registries, as graphs use them, and tools in the OpenAI format (A-01, A-02)."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from inspect import getdoc, isroutine
from typing import TYPE_CHECKING, Any, Protocol, overload, runtime_checkable

from langchain_core.tools import BaseTool
from langchain_core.tools import tool as build_tool
from langchain_core.utils.function_calling import convert_to_openai_tool

from toolweave.errors import ConfigError, UnknownTools

if TYPE_CHECKING:
    from toolweave.tool_config import ToolConfig


@runtime_checkable
class ToolCatalog(Protocol):
    """The tools that can be called now, such as those of the tool plane."""

    async def tools(self) -> Sequence[BaseTool]:
        """Return the tools that can be called now, in registry order (D-2)."""
        ...


@runtime_checkable
class ReportsUnavailableTools(Protocol):
    """A catalogue that also lists the tools of servers that are temporarily unavailable."""

    async def unavailable_tools(self) -> Sequence[BaseTool]:
        """Return these tools; a call of one waits for its server to reconnect, or fails because it is down (D-5)."""
        ...


@dataclass(frozen=True)
class FixedTools:
    """A catalogue with a fixed list of tools.

    Raises:
        ConfigError: two tools have the same name, so that one of them could never be called.
    """

    available: tuple[BaseTool, ...]

    def __post_init__(self) -> None:
        names = [name for name, count in Counter(tool.name for tool in self.available).items() if count > 1]
        if names:
            raise ConfigError(f"more than one tool is named {', '.join(names)}.", fix="Rename or prefix one of them.")

    async def tools(self) -> Sequence[BaseTool]:
        """Return the fixed list."""
        return self.available


@dataclass(frozen=True)
class SelectedTools:
    """The tools of another catalogue that have one of the names, with or without their server's prefix."""

    catalog: ToolCatalog
    names: tuple[str, ...]

    async def tools(self) -> Sequence[BaseTool]:
        """Return the selected tools that can be called now."""
        return self.select(await self.catalog.tools())

    async def unavailable_tools(self) -> Sequence[BaseTool]:
        """Return the selected tools whose servers are temporarily unavailable."""
        return self.select(await unavailable_tools(self.catalog))

    def select(self, tools: Sequence[BaseTool]) -> Sequence[BaseTool]:
        """Return those of `tools` that have one of the names."""
        suffixes = tuple(f"_{name}" for name in self.names)
        return [tool for tool in tools if tool.name in self.names or tool.name.endswith(suffixes)]


Tools = Sequence[BaseTool | Callable[..., Any]] | ToolCatalog
"""LangChain tools and functions that become tools, or a catalogue."""


def as_catalog(tools: Tools) -> ToolCatalog:
    """Wrap a sequence of tools and functions as a catalogue; return a catalogue unchanged.

    Raises:
        TypeError: `tools` is neither, or an item is neither a LangChain tool nor a function.
        ConfigError: two tools have the same name.
    """
    if isinstance(tools, Sequence):
        return FixedTools(tuple(map(_as_tool, tools)))
    if not isinstance(tools, ToolCatalog):
        raise TypeError(f"tools={tools!r} is neither a list of tools, nor MCP servers, nor a tool catalogue.")
    return tools


def _as_tool(item: BaseTool | Callable[..., Any]) -> BaseTool:
    """Return a tool with the function's name, docstring and parameters; LangChain runs a sync one on a thread."""
    if isinstance(item, BaseTool):
        return item
    if not isroutine(item):
        raise TypeError(f"{item!r} is neither a LangChain tool, nor a function, nor the McpServerConfig of a server.")
    return build_tool(item, description=getdoc(item) or f"Tool {item.__name__}")


async def unavailable_tools(catalog: ToolCatalog) -> Sequence[BaseTool]:
    """Return the tools whose servers are temporarily unavailable; none if the catalogue does not list them."""
    return await catalog.unavailable_tools() if isinstance(catalog, ReportsUnavailableTools) else ()


class ToolRegistry(Protocol):
    """A store of ToolConfigs, such as the registry's database."""

    async def find(self, tool_ids: Sequence[str]) -> "Mapping[str, ToolConfig]":
        """Return those of the tools that there are, by id.

        Raises:
            PersistenceError: the registry cannot be read now.
        """
        ...

    async def list_all(self) -> "Sequence[ToolConfig]":
        """Return all tools, the same objects until they change; raises as `find`."""
        ...


@dataclass(frozen=True)
class FixedToolConfigs:
    """A registry with a fixed list of tools."""

    configs: "tuple[ToolConfig, ...]"

    async def find(self, tool_ids: Sequence[str]) -> "Mapping[str, ToolConfig]":
        """Return those of the tools that there are, by id."""
        return {config.tool_id: config for config in self.configs if config.tool_id in tool_ids}

    async def list_all(self) -> "Sequence[ToolConfig]":
        """Return all tools."""
        return self.configs


async def registered_tools(registry: ToolRegistry, tool_ids: Sequence[str]) -> "dict[str, ToolConfig]":
    """Return the tools with these ids, in their order.

    Raises:
        UnknownTools: no tool is registered under some ids; lists them all.
        PersistenceError: the registry cannot be read now.
    """
    found = await registry.find(tool_ids)
    if unknown := tuple(tool_id for tool_id in tool_ids if tool_id not in found):
        raise UnknownTools(unknown)
    return {tool_id: found[tool_id] for tool_id in tool_ids}


def as_registry(tools: "Sequence[ToolConfig] | ToolRegistry") -> ToolRegistry:
    """Wrap a sequence of configurations as a registry; return a registry unchanged."""
    return FixedToolConfigs(tuple(tools)) if isinstance(tools, Sequence) else tools


MAX_NAME_CHARS = 64
_FORBIDDEN_CHARS = re.compile(r"[^a-zA-Z0-9_-]")


@runtime_checkable
class ProtocolTool(Protocol):
    """The fields of `mcp.types.Tool` that are used here, without importing the mcp package."""

    name: str
    description: str | None
    inputSchema: dict[str, Any]  # noqa: N815 - the protocol's own spelling


AnyTool = ProtocolTool | Mapping[str, Any] | BaseTool
OpenAITool = dict[str, Any]


@overload
def convert_mcp_tools_to_openai(tools: Sequence[AnyTool]) -> list[OpenAITool]: ...
@overload
def convert_mcp_tools_to_openai(tools: AnyTool) -> OpenAITool: ...
def convert_mcp_tools_to_openai(tools: AnyTool | Sequence[AnyTool]) -> OpenAITool | list[OpenAITool]:
    """Convert one tool to one dict, or a sequence of tools to a list of dicts (A-01).

    Each result is exactly `{"type": "function", "function": {"name", "description", "parameters"}}`. Names that
    OpenAI rejects are rewritten, see `openai_name_map`. A missing description becomes the tool's name; a missing or
    non-object schema becomes `{"type": "object", "properties": {}}`.

    Raises:
        TypeError: an item of `tools` is neither an MCP tool, a dict with a `name`, nor a LangChain tool.
    """
    if not isinstance(tools, Sequence):
        return convert_mcp_tools_to_openai([tools])[0]
    names = _openai_names(map(_tool_name, tools))
    return [_openai_function(name, tool) for name, tool in zip(names, tools, strict=True)]


def openai_tools(tools: Sequence[BaseTool], *, all_tools: Sequence[BaseTool]) -> list[OpenAITool]:
    """Convert some tools of a catalogue, under the names that they have when `all_tools` are converted."""
    names = {own: name for name, own in openai_name_map(all_tools).items()}
    return [_openai_function(names.get(tool.name, tool.name), tool) for tool in tools]


def openai_name_map(tools: Sequence[AnyTool]) -> dict[str, str]:
    """Map each name that `convert_mcp_tools_to_openai(tools)` uses to the tool's own name (A-01)."""
    names = [_tool_name(tool) for tool in tools]
    return dict(zip(_openai_names(names), names, strict=True))


def find_tool(tools: Sequence[BaseTool], name: str) -> BaseTool | None:
    """Return the tool that a model calls by `name`, which may be a name that `openai_name_map` rewrote."""
    own_name = openai_name_map(tools).get(name, name)
    return next((tool for tool in tools if tool.name == own_name), None)


def _openai_function(name: str, tool: AnyTool) -> OpenAITool:
    schema: object
    if isinstance(tool, BaseTool):
        description, schema = tool.description, convert_to_openai_tool(tool)["function"].get("parameters")
    elif isinstance(tool, Mapping):
        description, schema = tool.get("description") or "", tool.get("inputSchema")
    else:
        description, schema = getattr(tool, "description", None) or "", getattr(tool, "inputSchema", None)
    if not description.strip():
        description = f"Tool {_tool_name(tool)}"
    parameters = _object_schema(schema)
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


def _openai_names(tool_names: Iterable[str]) -> list[str]:
    used: set[str] = set()
    names = []
    for name in tool_names:
        base = _FORBIDDEN_CHARS.sub("_", name)[:MAX_NAME_CHARS] or "tool"
        candidate, number = base, 1
        while candidate in used:
            number += 1
            suffix = f"_{number}"
            candidate = base[: MAX_NAME_CHARS - len(suffix)] + suffix
        used.add(candidate)
        names.append(candidate)
    return names


def _tool_name(tool: AnyTool) -> str:
    name = tool.get("name") if isinstance(tool, Mapping) else getattr(tool, "name", None)
    if not isinstance(name, str):
        raise TypeError(f"not a tool: {type(tool).__name__} has no name")
    return name


def _object_schema(schema: object) -> dict[str, Any]:
    provided = schema if isinstance(schema, Mapping) else {}
    properties, kind = provided.get("properties"), provided.get("type")
    if kind != "object" and not (kind is None and isinstance(properties, Mapping)):
        return {"type": "object", "properties": {}}
    return {**provided, "type": "object", "properties": properties if isinstance(properties, Mapping) else {}}
