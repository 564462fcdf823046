"""Declare a function as an MCP tool of ours: its schema, and what clients are told of its effects."""

from collections.abc import Callable
from typing import Any

from fastmcp.tools import Tool
from mcp.types import ToolAnnotations
from pydantic import BeforeValidator
from pydantic.json_schema import SkipJsonSchema

READS = ToolAnnotations(readOnlyHint=True, destructiveHint=False, idempotentHint=True, openWorldHint=False)
ADDS = ToolAnnotations(readOnlyHint=False, destructiveHint=False, idempotentHint=False, openWorldHint=False)
OVERWRITES = ToolAnnotations(readOnlyHint=False, destructiveHint=True, idempotentHint=True, openWorldHint=False)
ASKS_ABROAD = ToolAnnotations(readOnlyHint=True, destructiveHint=False, idempotentHint=True, openWorldHint=True)
ACTS_ABROAD = ToolAnnotations(readOnlyHint=False, destructiveHint=True, idempotentHint=False, openWorldHint=True)

# The type of a parameter that may be left out, which the schema does not show.
Absent = SkipJsonSchema[None]


def _whole_number(value: object) -> object:
    # JSON has one kind of number: 3.0 is the whole number 3. Texts and booleans are not.
    return int(value) if isinstance(value, float) and value.is_integer() else value


WHOLE_NUMBER = BeforeValidator(_whole_number)


def declared_tool(function: Callable[..., Any], title: str, annotations: ToolAnnotations) -> Tool:
    """Make a tool of a method whose docstring and annotations are what a model reads about it (C-02)."""
    # No output schema: clients check every answer against it, which takes them longer than the call.
    tool = Tool.from_function(function, title=title, annotations=annotations, output_schema=None)
    for parameter in tool.parameters["properties"].values():
        # "default": null would invite models to send null where the schema asks for a text.
        if parameter.get("default", ...) is None:
            del parameter["default"]
    return tool
