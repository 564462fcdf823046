"""Hold a server inside this process, on a free port and a temporary data folder."""

import asyncio
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path

import httpx
from starlette.applications import Starlette

from toolweave.api.langgraph.app import create_langgraph_app
from toolweave.cli.configuration import Configuration, read_configuration
from toolweave.cli.serving import LEFTOVERS_S, STOP_S, Stop, listening, serve_app, url_of
from toolweave.config.logs import configure_logging
from toolweave.config.mcp import mcp_place

TOOLS_WAIT_S = 15.0
HEALTH_INTERVAL_S = 0.05
PROGRAMS = "servers"


@contextmanager
def local_server(config: Path | None = None) -> Iterator[str]:
    """Serve on a thread of its own and give the URL; at the end it is stopped and its folder deleted.

    Raises:
        ToolweaveError: it cannot start; as `toolweave serve`.
    """
    given = read_configuration(config).settings
    place = mcp_place(given)
    with tempfile.TemporaryDirectory(prefix="toolweave-", ignore_cleanup_errors=True) as folder:
        _lend_programs(given.data_dir, Path(folder))
        configuration = read_configuration(
            config,
            host="127.0.0.1",
            port=0,
            data_dir=Path(folder),
            mcp_config=None if place.is_shipped else place.path,
            log_level="WARNING",
        )
        configure_logging(configuration.settings)
        stop = Stop()
        ready: Future[str] = Future()
        stopped = threading.Event()
        thread = threading.Thread(target=_serve, args=(configuration, stop, ready, stopped), name="local-server")
        thread.start()
        try:
            url = ready.result()
            if configuration.has_our_routes:
                _await_tools(url)
            yield url
        finally:
            stop.request()
            # What has not ended by then is left to the end of the process (`cli/main.py`).
            stopped.wait(STOP_S)
            thread.join(LEFTOVERS_S)


def _lend_programs(data_dir: Path, folder: Path) -> None:
    """Let the temporary data folder have what `toolweave servers add` has installed in the real one."""
    programs = data_dir.absolute() / PROGRAMS
    if programs.is_dir():
        (folder / PROGRAMS).symlink_to(programs, target_is_directory=True)


def _await_tools(url: str) -> None:
    """Wait a bounded time for the MCP servers that were started with the server; a run alone would wait less."""
    deadline = time.monotonic() + TOOLS_WAIT_S
    while time.monotonic() < deadline:
        servers = httpx.get(f"{url}/health", timeout=TOOLS_WAIT_S, trust_env=False).json()["servers"]
        if all(server["state"] != "connecting" for server in servers.values()):
            return
        time.sleep(HEALTH_INTERVAL_S)


def _serve(configuration: Configuration, stop: Stop, ready: "Future[str]", stopped: threading.Event) -> None:
    async def serve(app: Starlette, sock: socket.socket, url: str) -> None:
        try:
            await serve_app(app, sock, stop, lambda: ready.set_result(url))
        finally:
            stopped.set()

    try:
        with listening(configuration.settings) as sock:
            url = f"{url_of(sock)}{configuration.served.http.mount_prefix}"
            settings = configuration.settings.model_copy(update={"port": sock.getsockname()[1]})
            app = create_langgraph_app(configuration.served, settings)
            asyncio.run(serve(app, sock, url))
    except BaseException as error:
        if ready.done():
            raise
        ready.set_exception(error)
    else:
        if not ready.done():
            ready.cancel()
    finally:
        stopped.set()
