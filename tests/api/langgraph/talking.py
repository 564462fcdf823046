"""Serve agent loops on a talkative MCP server; their model calls the tools that a message lists."""

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx

FOLDER = Path(__file__).parent / "apps" / "talking"
TALKING = FOLDER / "langgraph.json"
TALKING_ENV = {"TOOLWEAVE_MCP_CONFIG": str(FOLDER / "mcp.jsonc"), "TOOLWEAVE_MODEL": "offline"}
BOUND_S = 60.0


async def until_ready(url: str) -> None:
    """Wait, bounded, until the MCP server has connected: on a busy machine that takes longer than a run waits."""
    async with asyncio.timeout(BOUND_S), httpx.AsyncClient(base_url=url, timeout=60) as http:
        while (await http.get("/health")).json()["servers"]["talk"]["state"] != "ready":
            pass


def calls_input(*calls: tuple[str, dict[str, Any], str]) -> dict[str, Any]:
    """Make the input that has the model call tools: name, arguments, call id."""
    listed = [{"name": name, "args": args, "id": call_id} for name, args, call_id in calls]
    return {"messages": [{"role": "user", "content": json.dumps(listed)}]}
