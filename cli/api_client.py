"""Connect to a running server with the official SDK, and translate the errors of connections and requests."""

import difflib
import shlex
import shutil
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import httpx
import orjson
import typer
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import APIStatusError, LangGraphError

from toolweave.api.langgraph_client import default_assistant, graph_names
from toolweave.config.settings import Settings, is_http_url, with_scheme
from toolweave.errors import ConfigError, RequestError

CONNECT_TIMEOUT_S = 5.0
MAX_KNOWN_NAMES = 20

UrlOption = Annotated[
    str | None, typer.Option("--url", metavar="URL", help="URL of the server.", show_default="http://127.0.0.1:2024")
]
LocalOption = Annotated[
    bool, typer.Option("--local", help="Start a server with a temporary data folder; both are removed afterwards.")
]

AssistantOption = Annotated[
    str | None,
    typer.Option(
        "--assistant", metavar="NAME", help="Assistant id or graph name.", show_default="the application's only graph"
    ),
]


def is_local(url: str | None, mcp: Path | None, *, local: bool) -> bool:
    """Return whether a command starts a server of its own: for --local, and for --mcp (U-02)."""
    is_own = local or mcp is not None
    if url and is_own:
        raise typer.BadParameter("it starts a local server; leave out --url", param_hint="--mcp" if mcp else "--local")
    return is_own


def server_url(url: str | None, settings: Settings) -> str:
    """Return the server's URL: `url`, else TOOLWEAVE_API_URL, else the address that `toolweave dev` uses.

    Raises:
        ConfigError: `url` is no URL.
    """
    chosen = with_scheme(url or settings.api_url or f"127.0.0.1:{settings.port}")
    if not is_http_url(chosen):
        raise ConfigError("this is no URL of a server.", source=chosen, fix="Write it as http://HOST:PORT.")
    return chosen.rstrip("/")


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


async def choose_assistant(client: LangGraphClient, name: str | None) -> str:
    """Return the assistant of this name or id, without one the application's default (U-01).

    Raises:
        RequestError: there is no such assistant, or no default; the text names those that there are.
    """
    with suppress(ValueError):
        return str(UUID(name or ""))
    graphs = await graph_names(client)
    if name is None:
        servers = (await read_health(client)).get("servers", {})
        return default_assistant(graphs, [name for name in servers if servers[name]["state"] != "disabled"])
    if graphs and name not in graphs:
        raise RequestError(f"there is no assistant {name!r}. {did_you_mean(name, graphs)}")
    return name


async def read_health(client: LangGraphClient) -> dict[str, Any]:
    """Return what GET /health reports; nothing if the server is not Toolweave's."""
    try:
        health: Any = await client.http.get("/health")
    except LangGraphError:
        return {}
    return dict(health)


def did_you_mean(name: str, known: Collection[str]) -> str:
    """Return a sentence with the nearest known name, else with the first ones."""
    if nearest := difflib.get_close_matches(name, known, n=1):
        return f"Did you mean {nearest[0]!r}?"
    shown = [*known][:MAX_KNOWN_NAMES]
    return f"Known: {', '.join([*shown, '…'] if len(shown) < len(known) else shown) or 'none'}."


def continue_command(thread_id: str, assistant: str | None, url: str | None) -> str:
    """Return the sentence with the command that continues a thread; it works in the present folder."""
    options = {"--assistant": assistant, "--url": url, "--thread": thread_id}
    words = [word for option, value in options.items() if value for word in (option, value)]
    return f"Continue with: {program()} chat {shlex.join(words)}"


def program() -> str:
    """Return the command that starts this program: `toolweave` if that is on the PATH, else as it was started."""
    started = Path(sys.argv[0])
    if started.name == "__main__.py":
        return f"{shlex.quote(sys.executable)} -m toolweave"
    found = shutil.which(started.name)
    return started.name if found and Path(found).samefile(started) else shlex.quote(str(started))


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
    except orjson.JSONEncodeError as error:
        raise RequestError(f"the input cannot be sent: {str(error).partition(':')[0]}.") from error
    except httpx.TransportError as error:
        reason = str(error) or type(error).__name__
        raise RequestError(f"the connection to {url} was lost ({reason}). Is the server still running?") from error
