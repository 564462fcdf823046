"""Run our own application alone, with a configuration of MCP servers of its own."""

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
from fastapi import FastAPI

from toolweave.api.app import create_app
from toolweave.config.settings import Settings

MISBEHAVING = str(Path(__file__).parents[2] / "fixtures" / "misbehaving_server.py")


def peer(*behave: str, **entry: Any) -> dict[str, Any]:
    """Give the entry of a stdio peer in mcp.jsonc."""
    args = [MISBEHAVING, *(["--behave", *behave] if behave else [])]
    return {"command": sys.executable, "args": args, **entry}


def configured(folder: Path, servers: dict[str, Any], **settings: Any) -> Settings:
    """Write mcp.jsonc and give settings that name it."""
    path = folder / "mcp.jsonc"
    path.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    return Settings(mcp_config=path, data_dir=folder / "data", model="offline", **settings)


@asynccontextmanager
async def running(settings: Settings) -> AsyncIterator[tuple[FastAPI, httpx.AsyncClient]]:
    """Run an application for these settings until the block ends, and give it with a client."""
    app = create_app(settings)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as http,
    ):
        await app.state.plane.wait_for_servers(timeout_s=60)
        yield app, http
