"""Make bodies for /tools, and read what the registry stores."""

from typing import Any
from uuid import uuid4

import httpx

from tests.fixtures.app_server import AppServer
from toolweave.servers.registry.repository import open_tool_registry

KEY = {"type": "api_key", "name": "X-Api-Key"}


def config(**api: Any) -> dict[str, Any]:
    """Return the body of a tool with a new id; keywords are fields of its `api` or of the tool."""
    more: dict[str, Any] = {
        name: api.pop(name)
        for name in ("tool_id", "name", "description", "input_schema", "field_mappings", "tags")
        if name in api
    }
    return {
        "tool_id": f"t_{uuid4().hex}",
        "name": "Get weather",
        "description": "Get the weather of a city.",
        "api": {"base_url": "https://api.example.org/v1", "path": "/weather/{city}", "method": "GET", **api},
        "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        **more,
    }


async def created(http: httpx.AsyncClient, **api: Any) -> dict[str, Any]:
    answer = await http.post("/tools", json=config(**api))
    assert answer.status_code == 201, answer.text
    tool: dict[str, Any] = answer.json()
    return tool


async def stored(server: AppServer, tool_id: str) -> dict[str, Any]:
    """Return a tool's configuration from the registry, secrets included."""
    async with open_tool_registry(server.settings) as registry:
        found = await registry.get(tool_id)
    assert found is not None
    config: dict[str, Any] = found.config.model_dump(mode="json")
    return config
