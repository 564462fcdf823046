"""Enable shipped entries in a copy of the shipped file, and run their servers as the served processes would.

async with plane_with("memory", data_dir=data_dir) as plane:
    await call(plane, "read_graph", server="memory")
"""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.servers.connections.peers import call, text_of
from toolweave.config.jsonc import read_jsonc
from toolweave.config.mcp import SHIPPED_MCP_CONFIG, McpServerConfig, served_mcp_config
from toolweave.config.settings import load_settings
from toolweave.servers.connections.plane import ToolPlane, open_tool_plane

START_BOUND_S = 60.0
# For tools that work on this machine: a loaded one is slow, and that is no failure.
PATIENT_S = 60.0
KEYS = {
    "FIRECRAWL_API_KEY": "fc-0123456789abcdef",
    "BRAVE_API_KEY": "BSA0123456789abcdef",
    "SUPABASE_ACCESS_TOKEN": "sbp_" + "0123456789" * 4,
}
Changes = Mapping[str, Mapping[str, Any]]


def shipped_entries() -> dict[str, dict[str, Any]]:
    """Read the entries of the shipped file as they are written."""
    entries: dict[str, dict[str, Any]] = read_jsonc(SHIPPED_MCP_CONFIG).value["mcpServers"]
    return entries


def enabled_copy(folder: Path, *names: str, changes: Changes | None = None) -> Path:
    """Write the shipped file to `folder` with `names` enabled, and everything else as it was but for `changes`."""
    entries = shipped_entries()
    for name in names:
        entries[name] |= {"enabled": True, **(changes or {}).get(name, {})}
        entries[name]["timeout_s"] = max(PATIENT_S, entries[name].get("timeout_s", 0))
    path = folder / "mcp.jsonc"
    path.write_text(json.dumps({"mcpServers": entries}), encoding="utf-8")
    return path


def configs_of(data_dir: Path, *names: str, env: Mapping[str, str], changes: Changes | None) -> list[McpServerConfig]:
    """Give the configuration of `names` as a served process with this environment has it."""
    path = enabled_copy(data_dir, *names, changes=changes)
    found = served_mcp_config(load_settings({}, data_dir=data_dir, mcp_config=path), env).servers
    return [server for server in found if server.name in names]


@asynccontextmanager
async def plane_with(
    *names: str, data_dir: Path, env: Mapping[str, str] | None = None, changes: Changes | None = None
) -> AsyncIterator[ToolPlane]:
    """Open a tool plane with these shipped servers and wait until each is ready, or never will be."""
    servers = configs_of(data_dir, *names, env=env or {}, changes=changes)
    async with open_tool_plane(servers) as plane:
        await plane.wait_for_servers(timeout_s=START_BOUND_S)
        yield plane


async def answer(plane: ToolPlane, server: str, tool: str, **arguments: Any) -> str:
    """Call a tool that must succeed, by the server's own name for it; gives its text."""
    result = await call(plane, tool, server=server, **arguments)
    assert not result.isError, text_of(result)
    return text_of(result)


async def refusal(plane: ToolPlane, server: str, tool: str, **arguments: Any) -> str:
    """Call a tool that must fail; return its text."""
    result = await call(plane, tool, server=server, **arguments)
    assert result.isError, text_of(result)
    return text_of(result)


async def offered(plane: ToolPlane, server: str) -> list[str]:
    """List a server's tools by the names that a model sees."""
    return [tool.name for tool in await plane.tools([server])]
