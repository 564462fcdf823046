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
from toolweave.servers.connections.oauth import token_place
from toolweave.servers.connections.observability import open_call_log
from toolweave.servers.connections.plane import ToolPlane, open_tool_plane

CLOSE_TIMEOUT_S = 8.0


@asynccontextmanager
async def open_configured_plane(settings: Settings) -> AsyncIterator[ToolPlane]:
    """Open the plane, and close it with the block: first its servers, then the log, which has their last calls.

    Raises:
        ConfigError: mcp.jsonc is wrong.
    """
    config = served_mcp_config(settings)
    # A graph server of another project does not prepare the folder. Without it, the call log says what is wrong.
    with suppress(OSError):
        await asyncio.to_thread(make_data_folder, settings.data_dir)
    _log_config(config, find_mcp_config(settings).describe())
    async with (
        open_call_log(settings.data_dir, settings.mcp_log) as observers,
        open_tool_plane(config.servers, observers=observers, token_place=token_place(settings)) as plane,
    ):
        yield plane


def _log_config(config: McpConfig, place: str) -> None:
    """Log which file counts, what in it was passed over, and which enabled servers cannot be started as they are."""
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
    """Room for one plane, used from any thread and any event loop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._plane: ToolPlane | None = None
        self._is_expected = False
        self._stop_background: Callable[[], None] | None = None
        """Ends the plane on the daemon thread, where there is one."""
        self._waiters: list[Future[ToolPlane]] = []

    def expect_plane(self) -> None:
        """Note that a plane is about to be published."""
        self._is_expected = True

    def set_plane(self, plane: ToolPlane) -> None:
        """Fill the slot and let everybody who waits have the plane; one opened in the background is closed."""
        with self._lock:
            release, self._stop_background = self._stop_background, None
        if release is not None:
            release()
        self._resolve_waiters(plane)

    def clear_plane(self, plane: ToolPlane) -> None:
        """Empty the slot if it holds `get_plane`; nothing is expected any more."""
        with self._lock:
            self._is_expected = False
            if self._plane is plane:
                self._plane = None

    def is_current(self, plane: ToolPlane) -> bool:
        """Return whether it is `get_plane` that is in the slot."""
        return self._plane is plane

    async def get_plane(self, timeout_s: float = 2.0) -> ToolPlane:
        """Return the process's tool plane, waiting at most `timeout_s` for it to open.

        Raises:
            ServerUnavailable: it did not open in time.
            ConfigError: it was opened here, and the settings or mcp.jsonc are wrong.
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
        """Open a plane from the process's own settings on a daemon thread, closed at exit.

        The caller's loop is not used: it may end (`asyncio.run` of one request) long before the process does.
        """
        loop, released = asyncio.new_event_loop(), asyncio.Event()

        def release() -> None:
            with suppress(RuntimeError):  # the loop has closed already
                loop.call_soon_threadsafe(released.set)

        async def serve() -> None:
            async with open_configured_plane(load_settings()) as plane:
                if self._stop_background is release:
                    self._resolve_waiters(plane)
                await released.wait()

        def run() -> None:
            try:
                with asyncio.Runner(loop_factory=lambda: loop) as runner:
                    runner.run(serve())
            except Exception as error:  # noqa: BLE001 - the top-level handler of this thread
                self._stop_background = None
                for waiter in self._pop_waiters():
                    waiter.set_exception(error)

        def stop() -> None:
            release()
            thread.join(CLOSE_TIMEOUT_S)

        thread = threading.Thread(target=run, name="toolweave-tool-plane", daemon=True)
        self._stop_background = release
        atexit.register(stop)
        thread.start()

    def _resolve_waiters(self, plane: ToolPlane) -> None:
        self._plane = plane
        for waiter in self._pop_waiters():
            waiter.set_result(plane)

    def _pop_waiters(self) -> list[Future[ToolPlane]]:
        with self._lock:
            waiting, self._waiters = self._waiters, []
        return [waiter for waiter in waiting if waiter.set_running_or_notify_cancel()]


plane_slot = PlaneSlot()
