"""Reach the file tools of a core server in this process, its roots real folders."""

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastmcp import Client, FastMCP

from tests.servers.todo.in_memory import envelope
from toolweave.config.settings import Settings
from toolweave.servers.core.files.tools import FileTools
from toolweave.servers.tool_server import READ_ONLY, EnvelopeMiddleware, declare_tool

SECRET = "bytes-from-outside-the-roots"  # looked for in every answer


class FileClient:
    """Call the two tools and get their envelopes."""

    def __init__(self, client: Client[Any]) -> None:
        self.client = client

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        return envelope(await self.client.call_tool_mcp(tool, arguments))

    async def read(self, path: str, **arguments: Any) -> str:
        answer = await self.call("read_file", path=path, **arguments)
        assert answer["status"] == "success", answer
        content: str = answer["data"]["content"]
        return content

    async def refusal(self, tool: str, **arguments: Any) -> dict[str, str]:
        answer = await self.call(tool, **arguments)
        assert answer["status"] == "error", answer
        error: dict[str, str] = answer["error"]
        return error

    async def code(self, path: str, **arguments: Any) -> str:
        return (await self.refusal("read_file", path=path, **arguments))["code"]

    async def search(self, pattern: str, **arguments: Any) -> dict[str, Any]:
        answer = await self.call("search_files", pattern=pattern, **arguments)
        assert answer["status"] == "success", answer
        return answer

    async def paths(self, pattern: str, **arguments: Any) -> list[str]:
        return [match["path"] for match in (await self.search(pattern, **arguments))["data"]]


@asynccontextmanager
async def file_client(*roots: Path | str, **settings: Any) -> AsyncIterator[FileClient]:
    """Serve the folders `roots`, by the two tools and nothing beside them."""
    envelope = EnvelopeMiddleware()
    server: FastMCP[None] = FastMCP("files", middleware=[envelope], mask_error_details=True, lifespan=envelope.lifespan)
    tools = FileTools(Settings(file_roots=tuple(str(root) for root in roots), **settings))
    for tool in (tools.read_file, tools.search_files):
        server.add_tool(declare_tool(tool, "Files", READ_ONLY))
    async with Client(server) as client:
        yield FileClient(client)


def tree(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    """Write files, by their paths below `folder`."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def open_descriptors() -> set[str]:
    """List what this process has open, other than what listing it needs."""
    opened = set()
    for number in os.listdir("/proc/self/fd"):  # noqa: PTH208
        try:
            opened.add(f"{number} {os.readlink(f'/proc/self/fd/{number}')}")  # noqa: PTH115
        except OSError:
            continue
    return opened
