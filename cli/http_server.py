"""Listen on the configured address and run the application under uvicorn until a signal stops it (T-08, T-09).

The address is bound before anything else is opened. Every start and every stop has the same order. `local_server` runs
the application inside this process, on a free port and with a temporary data folder.
"""

import asyncio
import errno
import os
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import httpx
import uvicorn
from loguru import logger
from starlette.applications import Starlette

from toolweave.api.langgraph.app import create_langgraph_app
from toolweave.cli import gc_disabled
from toolweave.cli.configuration import Configuration, read_configuration, with_model
from toolweave.config.logs import configure_logging, wrap_for_terminal
from toolweave.config.mcp import find_mcp_config
from toolweave.config.settings import Settings
from toolweave.errors import ConfigError
from toolweave.origins import is_loopback

# Longer than an in-process request needs to detect that its client left (api/langgraph_client.py), shorter than the
# ten seconds that container runtimes give a process.
GRACEFUL_SHUTDOWN_S = 4
EXIT_FORCED = 130
# What is left then is a thread that cannot be stopped, or a node that ignores cancellation.
CLEANUP_TIMEOUT_S = 0.5
# From the signal to the exit, even if code on the event loop never returns.
STOP_TIMEOUT_S = 9.0
EXIT_LOG_TIMEOUT_S = 0.5


class UvicornServer(uvicorn.Server):
    """A uvicorn server that leaves signals and the application's lifespan to `serve_app`."""

    def __init__(self, app: Starlette, state: dict[str, Any], on_ready: Callable[[], None]) -> None:
        config = uvicorn.Config(
            app,
            lifespan="off",
            log_config=None,
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=GRACEFUL_SHUTDOWN_S,
        )
        super().__init__(config)
        self._state = state
        self._on_ready = on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept connections, then call `on_ready`."""
        self.lifespan.state.update(self._state)
        await super().startup(sockets)
        if not self.should_exit:
            self._on_ready()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Install no signal handlers."""
        yield


class StopRequest:
    """A request to stop the server; it may arrive before the server exists."""

    def __init__(self) -> None:
        self.requested = False
        self.signalled = threading.Event()
        self._server: UvicornServer | None = None

    @property
    def should_exit(self) -> bool:
        """Return whether a stop was requested; sse-starlette reads this attribute and then ends MCP's event streams."""
        return self.requested

    def attach_server(self, server: UvicornServer) -> None:
        """Stop this server, now or when a stop is requested."""
        self._server = server
        server.should_exit = self.requested

    def request(self) -> None:
        """Stop the server after a bounded time for running requests."""
        self.requested = True
        if self._server is not None:
            self._server.should_exit = True

    def on_signal(self, number: int, _frame: FrameType | None) -> None:
        """Stop; at the second Ctrl-C exit at once, as after a kill: nothing stored is lost (S-05)."""
        if self.requested and number == signal.SIGINT:
            sys.stderr.write("Stopped at once; unfinished runs continue at the next start.\n")
            sys.stderr.flush()
            os._exit(EXIT_FORCED)
        if not self.requested:
            self.request()
            self.signalled.set()


async def serve_app(app: Starlette, sock: socket.socket, stop: StopRequest, on_ready: Callable[[], None]) -> None:
    """Start the application, serve it on the socket until a stop is requested, stop it.

    Raises:
        Exception: what the application raised while it started or stopped.
    """
    # uvicorn's own lifespan handling would log the traceback of an invalid setting and drop the exception.
    async with AsyncExitStack() as stack:
        with gc_disabled():
            state = await stack.enter_async_context(app.router.lifespan_context(app))
        server = UvicornServer(app, dict(state or {}), on_ready)
        stop.attach_server(server)
        await server.serve(sockets=[sock])


def run_until_signal(
    serve: Callable[[StopRequest], Coroutine[Any, Any, None]], *, threads: int, drain_s: float = 0.0, exit_code: int = 0
) -> None:
    """Call `serve`, which ends after SIGTERM or SIGINT; return when everything has stopped. Raises its error.

    At most `threads` synchronous nodes, handlers and the like run at once. Those that do not end with the rest are
    abandoned; `drain_s` and `STOP_TIMEOUT_S` after the signal the process exits in any case. With abandoned work it has
    `exit_code`.
    """
    stop, stopped = StopRequest(), threading.Event()
    arguments = (stop, stopped, drain_s + STOP_TIMEOUT_S, exit_code)
    threading.Thread(target=_exit_after_timeout, args=arguments, name="exit-after-timeout", daemon=True).start()
    loop_factory = uvicorn.Config("", log_config=None).get_loop_factory()
    exit_timer = threading.Timer(CLEANUP_TIMEOUT_S, _exit_process, (exit_code,))
    exit_timer.daemon = True
    try:
        with asyncio.Runner(loop_factory=loop_factory) as runner:
            loop = runner.get_loop()
            loop.set_default_executor(ThreadPoolExecutor(threads, thread_name_prefix="worker"))
            with _stop_on_signals(stop):
                _run_until_done(loop, serve(stop))
            exit_timer.start()
    finally:
        exit_timer.cancel()
        stopped.set()
        stop.signalled.set()


def _run_until_done(loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine to its end, even if a graph's `sys.exit()` breaks out of the whole loop in between."""
    task = loop.create_task(coroutine)
    while not task.done():
        try:
            loop.run_until_complete(task)
        except (SystemExit, KeyboardInterrupt) as error:
            if task.done():
                raise
            logger.error("the application raised {}; the server continues", type(error).__name__)


def _exit_after_timeout(stop: StopRequest, stopped: threading.Event, timeout_s: float, exit_code: int) -> None:
    stop.signalled.wait()
    if not stopped.wait(timeout_s):
        _exit_process(exit_code)


def _exit_process(exit_code: int) -> None:
    # In a thread: writing may block if nobody reads the output.
    log_thread = threading.Thread(target=_log_unfinished, daemon=True)
    log_thread.start()
    log_thread.join(EXIT_LOG_TIMEOUT_S)
    os._exit(exit_code)


def _log_unfinished() -> None:
    logger.warning("some work did not stop in time; unfinished runs continue at the next start, or on another worker")
    sys.stdout.flush()
    sys.stderr.flush()


def stop_with_parent() -> None:
    """Stop in an orderly way when the parent process is gone: its end of our stdin closes with it."""

    def wait() -> None:
        while os.read(sys.stdin.fileno(), 4096):
            continue
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, name="stop-with-parent", daemon=True).start()


@contextmanager
def _stop_on_signals(stop: StopRequest) -> Iterator[None]:
    previous = {number: signal.signal(number, stop.on_signal) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


BACKLOG = 2048
WILDCARD_ADDRESSES = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}  # noqa: S104 - shown, not bound


@contextmanager
def listening_socket(settings: Settings, *, authenticated: bool = False) -> Iterator[socket.socket]:
    """Listen on the settings' host and port (0 for a free one); clients may connect and wait from then on.

    `authenticated` means that langgraph.json names auth handlers.

    Raises:
        ConfigError: other machines could connect without authentication, or the address cannot be bound.
    """
    if not is_loopback(settings.host) and not (authenticated or settings.allow_insecure_bind):
        raise ConfigError(
            f"serving on {settings.host} lets other machines run these graphs, and there is no authentication.",
            fix="Use --host 127.0.0.1, name auth handlers in langgraph.json, or accept the risk with "
            "--allow-insecure-bind (TOOLWEAVE_ALLOW_INSECURE_BIND=true).",
        )
    try:
        sock = _bind(settings.host, settings.port)
    except OSError as error:
        raise _listen_error(error, settings) from error
    with sock:
        yield sock


def socket_url(sock: socket.socket) -> str:
    """Return the base URL under which this machine reaches the socket."""
    host, port = sock.getsockname()[:2]
    host_in_url = WILDCARD_ADDRESSES.get(host) or (f"[{host}]" if ":" in host else host)
    return f"http://{host_in_url}:{port}"


def _bind(host: str, port: int) -> socket.socket:
    addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    # Clients resolve localhost to 127.0.0.1.
    family, _, _, _, address = min(addresses, key=lambda info: info[0] != socket.AF_INET)
    return socket.create_server(address, family=family, backlog=BACKLOG)


def _listen_error(error: OSError, settings: Settings) -> ConfigError:
    address = f"{settings.host}:{settings.port}"
    if error.errno == errno.EADDRINUSE:
        return ConfigError(
            f"port {settings.port} is already in use on {settings.host}.",
            fix="Stop the program that uses it, or choose another port with --port or TOOLWEAVE_PORT (0 takes a free "
            "one).",
        )
    if error.errno == errno.EACCES:
        fix = "Choose a port above 1023 with --port or TOOLWEAVE_PORT."
        return ConfigError(f"this user may not listen on {address}.", fix=fix)
    fix = "Choose an address of this machine with --host or TOOLWEAVE_HOST; 127.0.0.1 always works."
    reason = (error.strerror or str(error)).rstrip(".")
    return ConfigError(f"cannot listen on {address}: {reason}.", fix=fix)


TOOLS_TIMEOUT_S = 15.0
NOTE_AFTER_S = 2.0
HEALTH_INTERVAL_S = 0.05
PROGRAMS_FOLDER = "servers"


@contextmanager
def local_server(mcp: Path | None = None) -> Iterator[str]:
    """Serve in a thread and yield the URL; after the block, stop the server and delete its folder.

    `mcp` is the mcp file, by default that of the settings.

    Raises:
        ToolweaveError: it cannot start, for the reasons of `toolweave serve`.
    """
    settings = read_configuration(mcp_config=mcp).settings
    place = find_mcp_config(settings)
    with tempfile.TemporaryDirectory(prefix="toolweave-", ignore_cleanup_errors=True) as folder:
        _link_programs(settings.data_dir, Path(folder))
        configuration = read_configuration(
            host="127.0.0.1",
            port=0,
            data_dir=Path(folder),
            mcp_config=None if place.is_shipped else place.path,
            log_level="WARNING",
        )
        if configuration.has_toolweave_graphs:
            configuration, model = with_model(configuration)
            sys.stderr.write(wrap_for_terminal(f"The model is {model}\n", sys.stderr, "  "))
        configure_logging(configuration.settings, with_run_errors=False)
        stop = StopRequest()
        ready: Future[str] = Future()
        stopped = threading.Event()
        thread = threading.Thread(target=_serve, args=(configuration, stop, ready, stopped), name="local-server")
        thread.start()
        try:
            url = ready.result()
            if configuration.has_toolweave_routes:
                _wait_for_tools(url)
            yield url
        finally:
            stop.request()
            # What is still running then ends with the process (`cli/main.py`).
            stopped.wait(STOP_TIMEOUT_S)
            thread.join(CLEANUP_TIMEOUT_S)


def _link_programs(data_dir: Path, folder: Path) -> None:
    """Link the programs installed by `toolweave servers add` into the temporary data folder."""
    programs = data_dir.absolute() / PROGRAMS_FOLDER
    if programs.is_dir():
        (folder / PROGRAMS_FOLDER).symlink_to(programs, target_is_directory=True)


def _wait_for_tools(url: str) -> None:
    """Wait a bounded time for the MCP servers to connect; a run would wait less."""
    started, is_noted = time.monotonic(), False
    while (waited_s := time.monotonic() - started) < TOOLS_TIMEOUT_S:
        servers = httpx.get(f"{url}/health", timeout=TOOLS_TIMEOUT_S, trust_env=False).json()["servers"]
        connecting = [name for name, server in servers.items() if server["state"] == "connecting"]
        if not connecting:
            return
        if waited_s > NOTE_AFTER_S and not is_noted:
            is_noted = True
            sys.stderr.write(f"Waiting up to {TOOLS_TIMEOUT_S:g} s for MCP servers: {', '.join(connecting)}\n")
        time.sleep(HEALTH_INTERVAL_S)


def _serve(configuration: Configuration, stop: StopRequest, ready: "Future[str]", stopped: threading.Event) -> None:
    async def serve(app: Starlette, sock: socket.socket, url: str) -> None:
        try:
            await serve_app(app, sock, stop, lambda: ready.set_result(url))
        finally:
            stopped.set()

    try:
        with listening_socket(configuration.settings) as sock:
            url = f"{socket_url(sock)}{configuration.langgraph_json.http.mount_prefix}"
            settings = configuration.settings.model_copy(update={"port": sock.getsockname()[1]})
            app = create_langgraph_app(configuration.langgraph_json, settings)
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
