"""Take in the tools that a server lists: what no model should get as it is, is cleaned, cut or left out (D-2).

Names, descriptions and schemas come from any server and go into a prompt. What was done to them is logged once.
"""

from collections.abc import Iterable
from typing import Any, Protocol

from loguru import logger

from toolweave.servers.connections.contents import is_longer
from toolweave.servers.connections.redaction import Redaction
from toolweave.servers.connections.tool_spec import ToolSpec
from toolweave.servers.connections.untrusted import SchemaTooLarge, description_text, note, shown_schema

LONGEST_NAME = 128
LONGEST_META = 4_000
MOST_HINTS = 20
NO_PARAMETERS = "Its parameters are too many to be described here."


class Hints(Protocol):
    """A tool's annotations."""

    def model_dump(self, *, exclude_none: bool) -> dict[str, Any]:
        """Return them as a dict."""
        ...


class ListedTool(Protocol):
    """What `mcp.types.Tool` has of interest here; the mcp package itself is not imported."""

    name: str
    description: str | None
    inputSchema: dict[str, Any]  # noqa: N815 - the protocol's own spelling
    outputSchema: dict[str, Any] | None  # noqa: N815
    meta: dict[str, Any] | None

    @property
    def annotations(self) -> Hints | None:
        """The tool's hints."""
        ...


class Listing:
    """The tool lists of one session; a warning that was given for one is not repeated for the next."""

    def __init__(self, server: str, redaction: Redaction) -> None:
        self._server = server
        self._redaction = redaction
        self._warned: set[str] = set()

    def specs(self, tools: Iterable[ListedTool]) -> list[ToolSpec]:
        """Return the tools that can be offered, in the server's order; takes some 80 µs per tool."""
        return [self._spec(tool) for tool in tools if self._has_a_name(tool)]

    def _has_a_name(self, tool: ListedTool) -> bool:
        if tool.name.strip() and len(tool.name) <= LONGEST_NAME and tool.name.isprintable():
            return True
        self._warn(f"a tool named {note(tool.name)[:LONGEST_NAME]!r} is left out: that is no name for a tool")
        return False

    def _spec(self, tool: ListedTool) -> ToolSpec:
        # Cut only then: nothing finds the first half of a credential.
        description = description_text(self._redaction.withhold(tool.description))
        try:
            schema = shown_schema(self._redaction.withhold(tool.inputSchema))
        except SchemaTooLarge as error:
            self._warn(
                f"the tool {tool.name} is offered without its schema, and its arguments are not checked: {error}"
            )
            schema, description = {"type": "object"}, f"{description} {NO_PARAMETERS}".strip()
        hints = tool.annotations.model_dump(exclude_none=True) if tool.annotations else {}
        return ToolSpec(
            name=tool.name,
            description=description or None,
            input_schema=schema,
            annotations=dict(list(_short(self._redaction.withhold(hints)).items())[:MOST_HINTS]),
            meta=None if is_longer(tool.meta, LONGEST_META) else self._redaction.withhold(tool.meta),
            output_schema=tool.outputSchema,
        )

    def _warn(self, text: str) -> None:
        if text not in self._warned:
            self._warned.add(text)
            logger.bind(server=self._server).warning("MCP server {}: {}", self._server, text)


def _short(hints: dict[str, Any]) -> dict[str, Any]:
    texts = {name: note(hint) for name, hint in hints.items() if isinstance(hint, str)}
    return {name: texts.get(name, hint) for name, hint in hints.items() if isinstance(hint, bool | int | float | str)}
