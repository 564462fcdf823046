"""Decide which tools are offered under which names: filters, prefixes, order, and who yields in a collision (D-2)."""

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
    """One listed tool: `name` is the server's own, `annotations` the MCP hints such as readOnlyHint.

    Models send wrong types and forget fields; what the server would answer, if it looks at all, is rarely something a
    model can act on. So the values of a call are checked here, by schemas that are compiled when first needed.
    """

    name: str
    description: str | None
    input_schema: dict[str, Any]
    annotations: dict[str, Any]
    meta: dict[str, Any] | None
    output_schema: dict[str, Any] | None = None
    server: str = ""
    _compiled: dict[str, Schema | None] = field(default_factory=dict, init=False, compare=False, repr=False)

    @property
    def is_safe_to_repeat(self) -> bool:
        """Return whether the server calls it read-only or idempotent: executing it twice does no harm (D-5)."""
        return any(self.annotations.get(hint) is True for hint in ("readOnlyHint", "idempotentHint"))

    async def validation_errors(self, part: Literal["arguments", "results"], value: Any) -> list[str]:
        """Name what is wrong with a call's arguments or results (T-10; MCP 2025-11-25, tools, output schema).

        Where a schema cannot be used nothing is checked: the server judges arguments for itself.
        """
        if part not in self._compiled:
            self._compiled[part] = await asyncio.to_thread(self._compile, part)
        check = self._compiled[part]
        return check.problems(value) if check else []

    def _compile(self, part: str) -> Schema | None:
        try:
            return Schema(self.input_schema if part == "arguments" else self.output_schema or {})
        except ValueError as error:
            logger.bind(server=self.server, tool=self.name).warning(
                "the {} of {}/{} are not checked, its schema cannot be used: {}", part, self.server, self.name, error
            )
            return None


ToolsByName = dict[str, ListedTool]
"""What one server offers: the name shown to models → the tool, sorted by that name."""


@dataclass(frozen=True, slots=True)
class ServerToolRegistry:
    """The offers of all servers in configuration order, and why a server's offer is refused."""

    tools_by_server: dict[str, ToolsByName]
    refusals: dict[str, str]


def build_tool_registry(servers: Sequence[tuple[McpServerConfig, Sequence[ListedTool]]]) -> ServerToolRegistry:
    """Name all tools; a server that reuses a name of an earlier one is refused whole, never renamed."""
    tools_by_server: dict[str, ToolsByName] = {}
    refusals: dict[str, str] = {}
    taken: dict[str, str] = {}
    for config, specs in servers:
        offer = offered_tools(config, specs)
        clashes = [name for name in offer if name in taken]
        if clashes:
            shown = ", ".join(clashes[:5]) + (", …" if len(clashes) > 5 else "")
            others = ", ".join(dict.fromkeys(taken[name] for name in clashes))
            refusals[config.name] = (
                f"its tools {shown} have names that the server {others} already uses; "
                'give one of them another "prefix" or leave tools out with "tools": {"exclude": […]}.'
            )
            continue
        taken |= dict.fromkeys(offer, config.name)
        tools_by_server[config.name] = offer
    return ServerToolRegistry(tools_by_server, refusals)


def offered_tools(config: McpServerConfig, specs: Sequence[ListedTool]) -> ToolsByName:
    """Select and name one server's tools; of tools with the same name the first one counts."""
    prefix = f"{config.name}_" if config.prefix is None else config.prefix
    named: ToolsByName = {}
    for spec in specs:
        if is_included(config, spec.name):
            named.setdefault(prefix + spec.name, spec)
    return dict(sorted(named.items()))


def requires_approval(config: McpServerConfig, spec: ListedTool) -> bool:
    """Return whether the tool needs approval: by its name, or because its annotations say that it destroys (S-07)."""
    if config.approve_destructive and spec.annotations.get("destructiveHint") is True:
        return True
    return any(fnmatchcase(spec.name, glob) for glob in config.approve)


def is_included(config: McpServerConfig, name: str) -> bool:
    """Return whether a server's filters let a tool through; one that they leave out is neither offered nor called."""
    included = not config.include or any(fnmatchcase(name, glob) for glob in config.include)
    return included and not any(fnmatchcase(name, glob) for glob in config.exclude)
