"""A catalogue as an office with many MCP servers has it: more than 200 tools, described in our own words."""

from pathlib import Path
from typing import Any

from langchain_core.tools import BaseTool, StructuredTool

CATALOGUE = Path(__file__).with_name("many_tools.txt")
"""One tool a line: name | description | parameters."""


def many_tools() -> list[BaseTool]:
    lines = CATALOGUE.read_text(encoding="utf-8").splitlines()
    return [_tool(*(part.strip() for part in line.split("|"))) for line in lines]


def _tool(name: str, description: str, parameters: str) -> BaseTool:
    schema: dict[str, Any] = {"type": "object", "properties": {word: {"type": "string"} for word in parameters.split()}}

    async def run(**arguments: Any) -> str:
        return f"{name} {sorted(arguments)}"

    return StructuredTool(name=name, description=description, args_schema=schema, coroutine=run)
