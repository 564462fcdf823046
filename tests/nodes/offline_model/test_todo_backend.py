"""The todos in memory that the model is judged on have the tools of the real todo server."""

from pathlib import Path
from typing import Any

from fastmcp import Client

from tests.nodes.offline_model.todo_backend import TOOLS
from toolweave.servers.todo.server import open_todo_server

_CHECKED = ("type", "enum", "minimum", "maximum", "minLength", "maxLength", "maxItems", "default")


def _shape(schema: dict[str, Any]) -> dict[str, Any]:
    return {keyword: schema[keyword] for keyword in _CHECKED if keyword in schema}


async def test_the_judged_tools_have_the_schemas_of_the_todo_server(tmp_path: Path) -> None:
    async with open_todo_server(f"sqlite+aiosqlite:///{tmp_path}/todo.db") as server, Client(server) as client:
        offered = {tool.name: tool for tool in await client.list_tools()}

    assert set(offered) == set(TOOLS)
    for name, judged in TOOLS.items():
        schema = offered[name].inputSchema
        assert offered[name].description == judged["description"]
        assert schema.get("required", []) == judged["required"]
        assert {key: _shape(value) for key, value in schema["properties"].items()} == {
            key: _shape(value) for key, value in judged["properties"].items()
        }
