"""Check values of a call against the schemas its tool was listed with (T-10; MCP 2025-11-25, tools, output schema).

Models send wrong types and forget fields; what the server would answer, if it looks at all, is rarely something a model
can act on. Where a schema cannot be used nothing is checked: the server judges arguments for itself.
"""

import asyncio
from typing import Any

from loguru import logger

from toolweave.schema import Schema


class SchemaChecks:
    """The compiled schemas of one server's tools, each made when it is first needed and kept while it stays the same.

    Args:
        server: the server's name.
        unusable: the warning about a schema that cannot be used, of the server, the tool and the reason.
    """

    def __init__(self, server: str, unusable: str) -> None:
        self._server = server
        self._unusable = unusable
        self._compiled: dict[str, tuple[dict[str, Any], Schema | None]] = {}

    async def problems(self, tool: str, schema: dict[str, Any], value: Any) -> list[str]:
        """Name what is wrong with a value of a tool; nothing where the schema cannot be used."""
        check = await self.of(tool, schema)
        return check.problems(value) if check else []

    async def of(self, tool: str, schema: dict[str, Any]) -> Schema | None:
        """Return the compiled form of a tool's schema, None if it cannot be used."""
        known, check = self._compiled.get(tool, (None, None))
        if known is not schema and known != schema:
            check = await asyncio.to_thread(self._compile, tool, schema)
        self._compiled[tool] = schema, check
        return check

    def _compile(self, tool: str, schema: dict[str, Any]) -> Schema | None:
        try:
            return Schema(schema)
        except ValueError as error:
            logger.bind(server=self._server, tool=tool).warning(self._unusable, self._server, tool, error)
            return None
