"""Run one of our MCP servers as a program over stdio, SSE or streamable HTTP (T-07, T-08)."""

import argparse
import asyncio
import ctypes
import gc
import ipaddress
import logging
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal

from fastmcp import FastMCP
from loguru import logger
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from toolweave.config.logs import configure_logging
from toolweave.config.settings import Settings, load_settings
from toolweave.errors import ConfigError, ToolweaveError
from toolweave.origins import host_name, split_origin

HttpTransport = Literal["sse", "http"]
URL_PATHS: dict[HttpTransport, str] = {"sse": "/sse", "http": "/mcp"}
_PR_SET_PDEATHSIG = 1


async def serve_stdio(server: FastMCP[Any]) -> None:
    """Serve on stdin and stdout until stdin ends.

    A signal ends the process at once; on Linux, so does the exit of its parent (T-09). No data is lost, because every
    call writes in one transaction.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        # A graceful shutdown would wait for the next line, because a thread blocks on stdin.
        signal.signal(number, signal.SIG_DFL)
    exit_with_parent()
    await server.run_stdio_async(show_banner=False)


async def serve_http(server: FastMCP[Any], *, transport: HttpTransport, host: str, port: int) -> None:
    """Serve until a signal arrives. Port 0 selects a free port, which is logged.

    A server without authentication listens on loopback only, and refuses requests whose Host or Origin is not loopback
    (T-08). A server with authentication accepts any Host, because its public name is unknown here; pages of other
    origins do not have the token.

    Raises:
        ConfigError: the host is not allowed or the port is in use; the message contains the fix.
    """
    with _open_listener(host, port, only_loopback=server.auth is None) as listener:
        address, bound_port = listener.getsockname()[:2]
        host_part = f"[{address}]" if ":" in address else address
        logger.info("{} serves on http://{}:{}{}", server.name, host_part, bound_port, URL_PATHS[transport])
        await server.run_http_async(
            show_banner=False,
            transport=transport,
            path=URL_PATHS[transport],
            host=host,
            port=bound_port,
            sockets=[listener],
            host_origin_protection="auto" if server.auth else True,
            middleware=None if server.auth else [Middleware(HostOriginMiddleware)],
            # uvicorn's default logging writes to stdout.
            uvicorn_config={"log_config": None, "access_log": False, "timeout_graceful_shutdown": 1},
        )


class HostOriginMiddleware:
    """ASGI middleware that refuses a malformed Host or Origin, such as `[::1].evil.example`.

    FastMCP's own check, which runs after it, would read only the part in brackets.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass well-formed requests on; FastMCP's check decides on the names."""
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            origin = headers.get("origin", "null")
            if host_name(headers.get("host", "")) is None:
                await PlainTextResponse("Misdirected Request: the Host is not a name.", 421)(scope, receive, send)
                return
            if origin != "null" and split_origin(origin) is None:
                await PlainTextResponse("Forbidden: the Origin is not one.", 403)(scope, receive, send)
                return
        await self._app(scope, receive, send)


def exit_with_parent() -> None:
    """Have Linux kill this process when its parent exits, even during a tool call; elsewhere only stdin closes.

    The parent is the thread that started this process, so that thread must live as long as the process is needed.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def quiet_framework_logs() -> None:
    """Raise the log levels of FastMCP and the SDK, which log callers' arguments; our middleware logs the calls."""
    logging.getLogger("fastmcp").setLevel(logging.ERROR)
    logging.getLogger("mcp").setLevel(logging.WARNING)
    # It logs every closed session as an error.
    logging.getLogger("mcp.server.streamable_http").setLevel(logging.CRITICAL)


def _open_listener(host: str, port: int, *, only_loopback: bool) -> socket.socket:
    try:
        ip = ipaddress.ip_address("127.0.0.1" if host == "localhost" else host)
    except ValueError:
        ip = None
    if ip is None or (only_loopback and not ip.is_loopback):
        raise ConfigError(
            f"refusing to listen on {host}: anybody who can reach it could use the tools without authentication."
            if only_loopback
            else f"cannot listen on {host}: it is not an IP address.",
            source="--host",
            fix="Use 127.0.0.1, and a proxy that authenticates if others need access; the core server requires a token "
            "itself if TOOLWEAVE_CORE_TOKEN is set.",
        )
    listener = socket.socket(socket.AF_INET6 if ip.version == 6 else socket.AF_INET)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((str(ip), port))
    except (OSError, OverflowError) as error:
        listener.close()
        reason = error.strerror if isinstance(error, OSError) else "ports go from 0 to 65535"
        raise ConfigError(
            f"cannot listen on {host}:{port}: {reason}.",
            source="--port",
            fix="Stop the program that uses it, or choose another port.",
        ) from error
    return listener


def run_server(
    module: str,
    description: str,
    default_port: int,
    open_server: Callable[[Settings], AbstractAsyncContextManager[FastMCP[Any]]],
) -> int:
    """Serve as `python -m <module>` until stdin ends or a signal arrives; return the exit code."""
    # Imported objects live until the process exits, so the garbage collector need not scan them.
    gc.freeze()
    gc.enable()
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=description)
    parser.add_argument("--transport", choices=("stdio", "sse", "http"), default="stdio")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on, by default loopback (sse, http)")
    parser.add_argument("--port", type=int, default=default_port, help="port, 0 for any free one (sse, http)")
    options = parser.parse_args()

    async def serve() -> None:
        async with open_server(settings) as server:
            if options.transport == "stdio":
                await serve_stdio(server)
            else:
                await serve_http(server, transport=options.transport, host=options.host, port=options.port)

    try:
        settings = load_settings()
        configure_logging(settings)
        quiet_framework_logs()
        asyncio.run(serve())
    except ToolweaveError as error:
        sys.stderr.write(f"{module}: {error}\n")
        return 1
    except KeyboardInterrupt:
        return 130
    return 0
