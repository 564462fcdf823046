"""Reach a todo server in this process, its database a real one."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from fastmcp import Client
from mcp.types import CallToolResult, TextContent

from toolweave.servers.todo.database import TodoRepository, has_full_text, open_todo_database
from toolweave.servers.todo.server import build_todo_server


class TodoClient:
    """Call tools and get their envelopes."""

    def __init__(self, client: Client[Any]) -> None:
        self.client = client

    async def call(self, tool: str, arguments: dict[str, Any], **meta: Any) -> dict[str, Any]:
        return envelope(await self.client.call_tool_mcp(tool, arguments, meta=meta or None))

    async def data(self, tool: str, arguments: dict[str, Any], **meta: Any) -> Any:
        answer = await self.call(tool, arguments, **meta)
        assert answer["status"] == "success", answer
        return answer["data"]

    async def error(self, tool: str, arguments: dict[str, Any], **meta: Any) -> dict[str, str]:
        answer = await self.call(tool, arguments, **meta)
        assert answer["status"] == "error", answer
        error: dict[str, str] = answer["error"]
        return error

    async def ids(self, tool: str, arguments: dict[str, Any]) -> list[int]:
        return [todo["id"] for todo in await self.data(tool, arguments)]


def todo_url(folder: Path) -> str:
    return f"sqlite:///{folder / 'todo.db'}"


@asynccontextmanager
async def todo_client(
    url: str, *, full_text: bool = True, busy_timeout_s: float = 3.0, tool_timeout_s: float = 4.0
) -> AsyncIterator[TodoClient]:
    """Serve the database at `url`; without `full_text` as on a SQLite that has no such index."""
    async with open_todo_database(url, busy_timeout_s=busy_timeout_s) as database:
        async with database.write() as connection:
            assert await has_full_text(connection) == database.is_sqlite
            for ending in ("_insert", "_delete", "_update") if database.is_sqlite and not full_text else ():
                await connection.execute(sa.text(f"DROP TRIGGER todos_fts{ending}"))
            if database.is_sqlite and not full_text:
                await connection.execute(sa.text("DROP TABLE todos_fts"))
        async with Client(build_todo_server(TodoRepository(database), tool_timeout_s=tool_timeout_s)) as client:
            yield TodoClient(client)


def envelope(result: CallToolResult) -> dict[str, Any]:
    """Return the envelope, which is the same as structured content, as JSON text and in `isError` (C-06)."""
    (content,) = result.content
    assert isinstance(content, TextContent)
    answer: dict[str, Any] = json.loads(content.text)
    assert answer == result.structuredContent
    assert result.isError == (answer["status"] == "error")
    if result.isError:
        assert set(answer) == {"status", "error"}
        assert set(answer["error"]) == {"type", "code", "message", "suggestion"}
        assert all(isinstance(text, str) and text for text in answer["error"].values())
    else:
        assert set(answer) == {"status", "data", "metadata"}
        assert answer["metadata"]["duration_ms"] >= 0
    return answer
