"""Hold the tool plane that the graphs of this process share.

The application's lifespan calls `plane_slot.expect_plane` first, then `set_plane`, and `clear_plane` at its end. A run
that starts before `set_plane` waits in `get_plane`. If no plane is set or expected, for example in a script that
imports a served graph, the first `get_plane` opens one on a daemon thread, which closes it when the process exits.
"""

import asyncio
import atexit
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress

from loguru import logger

from toolweave.config.mcp import McpConfig, find_mcp_config, served_mcp_config
from toolweave.config.settings import Settings, load_settings
from toolweave.errors import ServerUnavailable
from toolweave.files import make_data_folder
from toolweave.servers.connections.oauth import token_location
from toolweave.servers.connections.observability import open_call_log
from toolweave.servers.connections.plane import ToolPlane, open_tool_plane

CLOSE_TIMEOUT_S = 8.0


@asynccontextmanager
async def open_configured_plane(settings: Settings) -> AsyncIterator[ToolPlane]:
    """Yield a plane with the servers of mcp.jsonc and a call log; the log closes last, to record the last calls.

    Raises:
        ConfigError: mcp.jsonc is invalid.
    """
    config = served_mcp_config(settings)
    # Graph servers of other projects do not create the folder. If it cannot be created, the call log reports why.
    with suppress(OSError):
        await asyncio.to_thread(make_data_folder, settings.data_dir)
    _log_config(config, find_mcp_config(settings).describe())
    async with (
        open_call_log(settings.data_dir, settings.mcp_log) as observers,
        open_tool_plane(config.servers, observers=observers, token_place=token_location(settings)) as plane,
    ):
        yield plane


def _log_config(config: McpConfig, place: str) -> None:
    """Log the configuration file in use, its warnings, and the enabled servers that are misconfigured."""
    enabled = [server for server in config.servers if server.enabled]
    logger.info("{} of {} MCP servers are enabled in {}", len(enabled), len(config.servers), place)
    for warning in config.warnings:
        logger.warning("{}", warning)
    for server in enabled:
        if server.misconfigured:
            logger.bind(server=server.name).error(
                "MCP server {} is misconfigured: {}", server.name, server.misconfigured
            )


class PlaneSlot:
    """Holds the process's tool plane; all methods may be called from any thread and any event loop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._plane: ToolPlane | None = None
        self._is_expected = False
        self._stop_background: Callable[[], None] | None = None
        """Stops the plane on the daemon thread; None if there is none."""
        self._waiters: list[Future[ToolPlane]] = []

    def expect_plane(self) -> None:
        """Make `get_plane` wait for `set_plane` instead of opening a plane of its own."""
        self._is_expected = True

    def set_plane(self, plane: ToolPlane) -> None:
        """Store the plane, pass it to all waiting callers, and close a plane that was opened in the background."""
        with self._lock:
            stop, self._stop_background = self._stop_background, None
        if stop is not None:
            stop()
        self._publish(plane)

    def clear_plane(self, plane: ToolPlane) -> None:
        """Remove `plane` if it is the current one, and stop expecting another."""
        with self._lock:
            self._is_expected = False
            if self._plane is plane:
                self._plane = None

    def is_current(self, plane: ToolPlane) -> bool:
        """Return whether `plane` is the current plane."""
        return self._plane is plane

    async def get_plane(self, timeout_s: float = 2.0) -> ToolPlane:
        """Return the process's tool plane; open one on a daemon thread if none is set or expected.

        Raises:
            ServerUnavailable: the plane did not open within `timeout_s`.
            ConfigError: this call opened a plane, and the settings or mcp.jsonc are invalid.
        """
        waiter: Future[ToolPlane] = Future()
        with self._lock:
            if self._plane is not None:
                return self._plane
            self._waiters.append(waiter)
            if not self._is_expected and self._stop_background is None:
                self._open_in_background()
        try:
            return await asyncio.wait_for(asyncio.wrap_future(waiter), timeout_s)
        except TimeoutError:
            raise ServerUnavailable(f"The tool plane did not open within {timeout_s:g} seconds.", server="*") from None

    def _open_in_background(self) -> None:
        """Open a plane with the process's settings on a daemon thread; it closes when the process exits.

        The plane has its own event loop: the caller's may end long before the process, as with `asyncio.run`.
        """
        loop, stopped = asyncio.new_event_loop(), asyncio.Event()

        def request_stop() -> None:
            with suppress(RuntimeError):  # the loop is already closed
                loop.call_soon_threadsafe(stopped.set)

        async def serve() -> None:
            async with open_configured_plane(load_settings()) as plane:
                if self._stop_background is request_stop:
                    self._publish(plane)
                await stopped.wait()

        def run() -> None:
            try:
                with asyncio.Runner(loop_factory=lambda: loop) as runner:
                    runner.run(serve())
            except Exception as error:  # noqa: BLE001 - the top-level handler of this thread
                self._stop_background = None
                for waiter in self._pop_waiters():
                    waiter.set_exception(error)

        def stop_at_exit() -> None:
            request_stop()
            thread.join(CLOSE_TIMEOUT_S)

        thread = threading.Thread(target=run, name="toolweave-tool-plane", daemon=True)
        self._stop_background = request_stop
        atexit.register(stop_at_exit)
        thread.start()

    def _publish(self, plane: ToolPlane) -> None:
        self._plane = plane
        for waiter in self._pop_waiters():
            waiter.set_result(plane)

    def _pop_waiters(self) -> list[Future[ToolPlane]]:
        with self._lock:
            waiters, self._waiters = self._waiters, []
        return [waiter for waiter in waiters if waiter.set_running_or_notify_cancel()]


plane_slot = PlaneSlot()
