"""Make tools to register, and open a registry for them."""

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from toolweave.config.settings import Settings
from toolweave.servers.registry.repository import ToolRepository, open_tool_registry
from toolweave.tool_config import ToolConfig


def tool(tool_id: str, name: str = "Get user", description: str = "Gets one user.", **api: Any) -> ToolConfig:
    return ToolConfig.model_validate(
        {
            "tool_id": tool_id,
            "name": name,
            "description": description,
            "api": {"base_url": "https://api.shop.example", "path": "/users/{id}", "method": "GET", **api},
            "input_schema": {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]},
        }
    )


def many_tools(count: int) -> list[ToolConfig]:
    """Make tools tool_0, tool_1 … without validating each."""
    first = tool("tool_0", name="Tool 0")
    return [first.model_copy(update={"tool_id": f"tool_{n}", "name": f"Tool {n}"}) for n in range(count)]


def opened(folder: Path) -> AbstractAsyncContextManager[ToolRepository]:
    return open_tool_registry(Settings(data_dir=folder))


def registry_url(folder: Path) -> str:
    """Name the database that `opened` opens."""
    return f"sqlite:///{folder / 'tools.db'}"
