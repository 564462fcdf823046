"""Connect to a running server with the official SDK, and translate the errors of connections and requests."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import httpx
import typer
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import APIStatusError

from toolweave.config.settings import Settings
from toolweave.errors import ConfigError, RequestError

CONNECT_TIMEOUT_S = 5.0
RESPONSE_TIMEOUT_S = 10.0

UrlOption = Annotated[
    str | None, typer.Option("--url", metavar="URL", help="URL of the server.", show_default="http://127.0.0.1:2024")
]
LocalOption = Annotated[
    bool, typer.Option("--local", help="Start a server with a temporary data folder; both are removed afterwards.")
]


def server_url(url: str | None, settings: Settings) -> str:
    """Return the server's URL: `url`, else TOOLWEAVE_API_URL, else the address that `toolweave dev` uses."""
    return (url or settings.api_url or f"http://127.0.0.1:{settings.port}").rstrip("/")


def server_health(url: str, timeout_s: float = RESPONSE_TIMEOUT_S) -> dict[str, Any]:
    """Return what GET /health of a running Toolweave server returns.

    Raises:
        ConfigError: no server responds at `url`, or its response lists no MCP servers.
    """
    try:
        response = httpx.get(f"{url}/health", timeout=timeout_s, trust_env=False)
        health = response.json()
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        fix = "Start one with `toolweave dev`, or name another with --url."
        raise ConfigError("no Toolweave server answers here.", source=url, fix=fix) from error
    if not isinstance(health, dict) or "servers" not in health:
        raise ConfigError(f"GET /health returned {response.status_code} without MCP servers.", source=url)
    return health


async def connect(url: str) -> LangGraphClient:
    """Return a client of the server at `url`, after GET /ok has succeeded there.

    Raises:
        ConfigError: no server responds at `url`, or it is not a LangGraph server.
    """
    fix = "Start a server with `toolweave dev`, name another with --url, or use --local."
    try:
        async with httpx.AsyncClient(timeout=CONNECT_TIMEOUT_S, trust_env=False) as probe:
            response = await probe.get(f"{url}/ok")
    except (httpx.TransportError, httpx.InvalidURL) as error:
        raise ConfigError("no server answers here.", source=url, fix=fix) from error
    if response.status_code != httpx.codes.OK:
        raise ConfigError(f"GET /ok returned {response.status_code}: this is no LangGraph server.", source=url, fix=fix)
    return get_client(url=url, timeout=(CONNECT_TIMEOUT_S, None, None, None))


@contextmanager
def translate_request_errors(url: str) -> Iterator[None]:
    """Translate the errors of requests to the server.

    Raises:
        RequestError: the server refused a request, or the connection was lost.
    """
    try:
        yield
    except APIStatusError as error:
        raise RequestError(f"{url} answered {error.status_code}: {error.message}") from error
    except httpx.TransportError as error:
        reason = str(error) or type(error).__name__
        raise RequestError(f"the connection to {url} was lost ({reason}). Is the server still running?") from error
