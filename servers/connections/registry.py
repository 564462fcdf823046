"""Select and name the tools that each server offers: filters, prefixes, order and name collisions (D-2)."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Literal

from loguru import logger

from toolweave.config.mcp import McpServerConfig
from toolweave.schema import Schema


@dataclass(frozen=True, slots=True)
class ListedTool:
    """A tool as its server lists it; `annotations` are the MCP hints such as readOnlyHint.

    It validates the arguments and results of calls, because models send wrong types and omit fields, and few servers
    return an error that a model can act on. Schemas are compiled at their first use.
    """

    name: str
    description: str | None
    input_schema: dict[str, Any]
    annotations: dict[str, Any]
    meta: dict[str, Any] | None
    output_schema: dict[str, Any] | None = None
    server: str = ""
    _schemas: dict[str, Schema | None] = field(default_factory=dict, init=False, compare=False, repr=False)

    @property
    def app_uri(self) -> str | None:
        """Return the `ui://` resource that shows its results, None if there is none (MCP Apps, SEP-1865)."""
        meta = self.meta or {}
        uri = self._ui.get("resourceUri", meta.get("ui/resourceUri"))
        return uri if isinstance(uri, str) and uri.startswith("ui://") else None

    @property
    def is_for_models(self) -> bool:
        """Return whether models may see it: some tools are for their server's apps only (MCP Apps)."""
        visibility = self._ui.get("visibility")
        return not isinstance(visibility, list) or "model" in visibility

    @property
    def _ui(self) -> dict[str, Any]:
        ui = (self.meta or {}).get("ui")
        return ui if isinstance(ui, dict) else {}

    @property
    def is_safe_to_repeat(self) -> bool:
        """Return whether its annotations say read-only or idempotent: executing it twice is harmless (D-5)."""
        return any(self.annotations.get(hint) is True for hint in ("readOnlyHint", "idempotentHint"))

    async def validation_errors(self, part: Literal["arguments", "results"], value: Any) -> list[str]:
        """Return the errors in a call's arguments or results (T-10; MCP 2025-11-25, tools, output schema).

        With an unusable schema nothing is checked here; the server still validates the arguments.
        """
        if part not in self._schemas:
            self._schemas[part] = await asyncio.to_thread(self._compile, part)
        schema = self._schemas[part]
        return schema.problems(value) if schema else []

    def _compile(self, part: str) -> Schema | None:
        try:
            return Schema(self.input_schema if part == "arguments" else self.output_schema or {})
        except ValueError as error:
            logger.bind(server=self.server, tool=self.name).warning(
                "the {} of {}/{} are not checked, its schema cannot be used: {}", part, self.server, self.name, error
            )
            return None


ToolsByName = dict[str, ListedTool]
"""The tools that one server offers by the name that models see, sorted by that name."""


@dataclass(frozen=True, slots=True)
class ServerToolRegistry:
    """The tools of all servers in configuration order, and the reason for each server whose tools are refused."""

    tools_by_server: dict[str, ToolsByName]
    refusals: dict[str, str]


def build_tool_registry(servers: Sequence[tuple[McpServerConfig, Sequence[ListedTool]]]) -> ServerToolRegistry:
    """Name all tools; if a server reuses a name of an earlier server, all its tools are refused, none is renamed."""
    tools_by_server: dict[str, ToolsByName] = {}
    refusals: dict[str, str] = {}
    server_by_name: dict[str, str] = {}
    for config, specs in servers:
        offered = offered_tools(config, specs)
        collisions = [name for name in offered if name in server_by_name]
        if collisions:
            names = ", ".join(collisions[:5]) + (", …" if len(collisions) > 5 else "")
            others = ", ".join(dict.fromkeys(server_by_name[name] for name in collisions))
            refusals[config.name] = (
                f"its tools {names} have names that the server {others} already uses; "
                'give one of them another "prefix" or leave tools out with "tools": {"exclude": […]}.'
            )
            continue
        server_by_name |= dict.fromkeys(offered, config.name)
        tools_by_server[config.name] = offered
    return ServerToolRegistry(tools_by_server, refusals)


def offered_tools(config: McpServerConfig, specs: Sequence[ListedTool]) -> ToolsByName:
    """Select and name one server's tools; of tools with the same name, the first one is used."""
    prefix = f"{config.name}_" if config.prefix is None else config.prefix
    named: ToolsByName = {}
    for spec in specs:
        if is_included(config, spec.name):
            named.setdefault(prefix + spec.name, spec)
    return dict(sorted(named.items()))


def requires_approval(config: McpServerConfig, spec: ListedTool) -> bool:
    """Return whether a user has to approve calls of the tool: by its name or its destructiveHint (S-07)."""
    if config.approve_destructive and spec.annotations.get("destructiveHint") is True:
        return True
    return any(fnmatchcase(spec.name, glob) for glob in config.approve)


def is_included(config: McpServerConfig, name: str) -> bool:
    """Return whether the server's filters include a tool; an excluded tool is neither offered nor called."""
    included = not config.include or any(fnmatchcase(name, glob) for glob in config.include)
    return included and not any(fnmatchcase(name, glob) for glob in config.exclude)
