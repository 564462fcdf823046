"""Run an MCP server that requires OAuth, control it, and act as the user and the browser."""

import asyncio
import os
import threading
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import httpx
import pytest_asyncio

from tests.fixtures.mcp_server import HttpMcpServer, free_port, http_mcp_server
from tests.fixtures.oauth_server import MACHINE
from tests.servers.connections.peers import BOUND_S, QUICK, connection, until
from toolweave.config.mcp import McpServerConfig
from toolweave.config.mcp_entry import OAuth
from toolweave.servers.connections.oauth import TokenLocation
from toolweave.servers.connections.oauth.exchange import Grant
from toolweave.servers.connections.oauth.login import sign_in
from toolweave.servers.connections.oauth.vault import GrantKey, open_vault
from toolweave.servers.connections.plane import ToolPlane, open_tool_plane
from toolweave.servers.connections.status import ServerState

SCRIPT = str(Path(__file__).parents[3] / "fixtures" / "oauth_server.py")
ROOT = str(Path(__file__).parents[4])
PATIENCE_S = 60.0


class Guarded:
    """The server and its authorization server."""

    def __init__(self, server: HttpMcpServer, login: str) -> None:
        self.server = server
        self.login = login

    def config(self, auth: OAuth | None = None, **changes: Any) -> McpServerConfig:
        """Configure it, by default for the sign-in of a user."""
        return replace(self.server.config, auth=auth or OAuth(), **changes)

    def machine(self, **changes: Any) -> McpServerConfig:
        """Configure it for a client that has a secret."""
        given = {"client_id": MACHINE[0], "client_secret": MACHINE[1], "issuer": self.login} | changes
        return self.config(OAuth(grant="client_credentials", **given))

    async def tell(self, **orders: Any) -> None:
        async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
            (await client.post(f"{self.login}/control", json=orders)).raise_for_status()

    async def recorded(self) -> Any:
        async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
            return (await client.get(f"{self.login}/control")).json()

    async def request_count(self, what: str) -> int:
        """Return how many requests of a kind the authorization server received."""
        return int((await self.recorded())["requested"].count(what))

    async def until_requested(self, what: str) -> None:
        """Wait until it has received such a request; another process gives no signal."""
        while not await self.request_count(what):
            pass


@asynccontextmanager
async def guarded_server(
    transport: Literal["http", "sse"] = "http", *options: str, name: str = "peer"
) -> AsyncIterator[Guarded]:
    """Run both on free ports."""
    login_port = free_port()
    env = {"PYTHONPATH": os.pathsep.join([ROOT, os.environ.get("PYTHONPATH", "")])}
    args = (SCRIPT, "--port", "{port}", "--login-port", str(login_port), "--transport", transport, *options)
    async with http_mcp_server(*args, transport=transport, env=env, name=name) as server:
        yield Guarded(server, f"http://127.0.0.1:{login_port}")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def guarded_process() -> AsyncIterator[Guarded]:
    """Run one guarded server for the tests of a module."""
    async with guarded_server() as server:
        yield server


@pytest_asyncio.fixture(loop_scope="module")
async def guarded(guarded_process: Guarded) -> Guarded:
    """Reset the module's guarded server to what it is after a start."""
    await guarded_process.tell(reset=True, revoke="all", release=True)
    return guarded_process


@asynccontextmanager
async def listener() -> AsyncIterator[tuple[str, list[bytes]]]:
    """Listen on a port; yield its origin and the requests that it receives."""
    received: list[bytes] = []

    async def receive(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.append(await reader.read(65536))
        writer.close()

    async with await asyncio.start_server(receive, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", received


async def failed_attempts(plane: ToolPlane, count: int) -> None:
    """Wait until the plane has failed to connect `count` times more."""
    reached = connection(plane).failed_connects + count
    async with asyncio.timeout(BOUND_S):
        while connection(plane).failed_connects < reached:
            await connection(plane).status.wait_for_change()


def browse(url: str) -> None:
    """Follow the redirects of the authorization server like the browser of a user who agrees."""
    # Not httpx: its log would contain the authorization code.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=PATIENCE_S) as page:
        page.read()


def open_browser(url: str) -> None:
    """Do so in the background, like a browser that a program opens."""
    threading.Thread(target=browse, args=(url,), daemon=True).start()


async def signed_in(config: McpServerConfig, place: TokenLocation) -> None:
    await sign_in(config, place, open_browser, timeout_s=PATIENCE_S)


@asynccontextmanager
async def plane_for(
    config: McpServerConfig, place: TokenLocation | None = None, *, state: ServerState = "ready"
) -> AsyncIterator[ToolPlane]:
    """Open a plane with one server, and wait until it is in `state`."""
    async with open_tool_plane([config], timing=QUICK, token_place=place) as plane:
        await until(plane, state)
        yield plane


@pytest_asyncio.fixture(loop_scope="module")
async def tokens(guarded: Guarded, tmp_path: Path) -> TokenLocation:
    """Sign in to the guarded server, and return where the tokens are."""
    place = file_place(tmp_path)
    await signed_in(guarded.config(), place)
    return place


def file_place(folder: Path, key: str | None = None) -> TokenLocation:
    return TokenLocation(folder / "oauth", "file", key)


def stored_text(place: TokenLocation) -> bytes:
    """Return all bytes that are stored there."""
    return b"".join(path.read_bytes() for path in sorted(place.folder.glob("*")) if path.is_file())


def stored_grant(config: McpServerConfig, place: TokenLocation, **changes: Any) -> Grant:
    """Return the stored grant of a server, and store it with `changes`."""
    vault, key = open_vault(place), GrantKey(config.name, config.url or "")
    grant = Grant.from_json(vault.read(key) or "")
    assert grant is not None
    if changes:
        vault.write(key, grant.model_copy(update=changes).to_json())
    return grant
