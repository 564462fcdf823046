"""Call the job tools of the core server in this process."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastmcp import Client

from tests.outbound.peers import Peer
from tests.servers.todo.in_memory import TodoClient, envelope
from toolweave.config.settings import Settings
from toolweave.servers.core.server import open_core_server

Progress = tuple[float, float | None, str | None]


class JobClient(TodoClient):
    """Call tools and get their envelopes; `progress` is that of the last call."""

    def __init__(self, client: Client[Any]) -> None:
        super().__init__(client)
        self.progress: list[Progress] = []

    async def call(self, tool: str, arguments: dict[str, Any], **meta: Any) -> dict[str, Any]:
        self.progress = []
        return envelope(
            await self.client.call_tool_mcp(tool, arguments, progress_handler=self._add_progress, meta=meta or None)
        )

    async def _add_progress(self, progress: float, total: float | None, message: str | None) -> None:
        self.progress.append((progress, total, message))


@asynccontextmanager
async def job_client(**settings: Any) -> AsyncIterator[JobClient]:
    """Open the core server with these settings; requests to this machine are allowed by default."""
    chosen = Settings(**{"outbound_allow": "127.0.0.0/8", **settings})
    async with open_core_server(chosen) as server, Client(server) as client:
        yield JobClient(client)


def at(peer: Peer, path: str = "/jobs") -> str:
    """Give a URL at a peer."""
    return f"http://127.0.0.1:{peer.port}{path}"
