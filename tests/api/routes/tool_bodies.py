"""Make bodies for /tools, and look into what is stored."""

from typing import Any
from uuid import uuid4

import httpx

from tests.fixtures.app_server import AppServer
from toolweave.servers.registry.repository import open_tool_registry

KEY = {"type": "api_key", "name": "X-Api-Key"}


def config(**api: Any) -> dict[str, Any]:
    """Give the body of a tool nobody else has."""
    more: dict[str, Any] = {
        name: api.pop(name) for name in ("tool_id", "name", "input_schema", "field_mappings") if name in api
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
    """Look into the registry, past all masking."""
    async with open_tool_registry(server.settings) as registry:
        found = await registry.get(tool_id)
    assert found is not None
    kept: dict[str, Any] = found.config.model_dump(mode="json")["api"]
    return kept
