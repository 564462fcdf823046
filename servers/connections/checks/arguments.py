"""Check a call's arguments against the schema its tool was listed with, before the call leaves (T-10).

Models send wrong types and forget fields; what the server would answer, if it looks at all, is rarely something a model
can act on. A server whose schemas cannot be used is asked without a check: it judges for itself.
"""

import asyncio
from typing import Any

from loguru import logger

from toolweave.servers.connections.checks.compiled_schema import CompiledSchema
from toolweave.servers.connections.tool_spec import ToolSpec
from toolweave.servers.connections.untrusted import in_bytes
from toolweave.visible import visible

LONGEST_TEXT = 1_900


class ArgumentChecks:
    """The compiled schemas of one server's tools, made when a tool is first called and kept while it stays the same."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._checks: dict[str, ArgumentCheck] = {}

    async def refusal(self, spec: ToolSpec, arguments: dict[str, Any]) -> str | None:
        """Write for the model what is wrong with a call's arguments; None when they fit or cannot be judged."""
        problems = (await self.of(spec)).problems(arguments)
        if not problems:
            return None
        text = f"The call of {spec.name!r} was not sent, its arguments do not fit: {'; '.join(problems)}."
        return f"{in_bytes(visible(text), LONGEST_TEXT)} Correct them and call the tool again."

    async def of(self, spec: ToolSpec) -> "ArgumentCheck":
        """Return the check for a tool as it is listed now."""
        check = self._checks.get(spec.name)
        if check is None or (check.spec is not spec and check.spec != spec):
            check = await asyncio.to_thread(ArgumentCheck, self._server, spec)
            self._checks[spec.name] = check
        check.spec = spec
        return check


class ArgumentCheck:
    """The compiled schema of one listed tool."""

    def __init__(self, server: str, spec: ToolSpec) -> None:
        self.spec = spec
        self._compiled: CompiledSchema | None = None
        try:
            self._compiled = CompiledSchema(spec.input_schema)
        except ValueError as error:
            logger.bind(server=server, tool=spec.name).warning(
                "the arguments of {}/{} are sent unchecked, its schema cannot be used: {}", server, spec.name, error
            )

    def problems(self, arguments: dict[str, Any]) -> list[str]:
        """Name what is wrong."""
        return self._compiled.problems(arguments) if self._compiled else []
