"""Check structured results against the schema their tool was listed with (MCP 2025-11-25, tools, output schema).

The SDK does the same with every call anew, judging the schema itself each time, and with expressions that a server can
make run for minutes.
"""

import asyncio
from collections.abc import Iterable
from typing import Any

from loguru import logger

from toolweave.servers.connections.checks.compiled_schema import CompiledSchema
from toolweave.servers.connections.tool_spec import ToolSpec


class ResultChecks:
    """The output schemas of one session's tools, compiled when a tool first answers."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._schemas: dict[str, dict[str, Any]] = {}
        self._compiled: dict[str, CompiledSchema | None] = {}

    def take(self, specs: Iterable[ToolSpec]) -> None:
        """Take the tools that the server lists now."""
        self._schemas = {spec.name: spec.output_schema for spec in specs if spec.output_schema is not None}
        self._compiled = {}

    async def problems(self, tool: str, structured: dict[str, Any] | None) -> list[str]:
        """Name what is wrong with the structured content of a successful result; nothing where no schema is listed."""
        if tool not in self._schemas:
            return []
        if structured is None:
            return ["it has no structured content"]
        if tool not in self._compiled:
            self._compiled[tool] = await asyncio.to_thread(self._compile, tool, self._schemas[tool])
        check = self._compiled[tool]
        return check.problems(structured) if check else []

    def _compile(self, tool: str, schema: dict[str, Any]) -> CompiledSchema | None:
        try:
            return CompiledSchema(schema)
        except ValueError as error:
            logger.bind(server=self._server, tool=tool).warning(
                "the results of {}/{} are not checked, its output schema cannot be used: {}", self._server, tool, error
            )
            return None
