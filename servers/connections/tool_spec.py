"""Describe a tool as its server lists it, without the MCP library's types."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """One listed tool: `name` is the server's own, `annotations` the MCP hints such as readOnlyHint."""

    name: str
    description: str | None
    input_schema: dict[str, Any]
    annotations: dict[str, Any]
    meta: dict[str, Any] | None
    output_schema: dict[str, Any] | None = None

    @property
    def may_be_repeated(self) -> bool:
        """Say whether the server calls it read-only or idempotent: executing it twice does no harm (D-5)."""
        return any(self.annotations.get(hint) is True for hint in ("readOnlyHint", "idempotentHint"))
