"""Keep the process's one tool plane where served graphs find it.

A lifespan calls `expect` of the `plane_slot` first thing, then `publish` and at its end `withdraw`; a run that starts
meanwhile waits in `plane`. Where nothing is published or expected, as in a script that imports a served graph, the
first use opens a plane on a daemon thread, closed at exit.
"""

import asyncio
import atexit
import contextlib
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress

from loguru import logger

from toolweave.config.mcp import McpConfig, mcp_place, served_mcp_config
from toolweave.config.settings import Settings, load_settings
from toolweave.errors import ServerUnavailable
from toolweave.files import make_data_folder
from toolweave.servers.connections.oauth import token_place
from toolweave.servers.connections.observation import open_call_log
from toolweave.servers.connections.plane import ToolPlane, open_tool_plane

CLOSING_LIMIT_S = 8.0


@asynccontextmanager
async def open_served_plane(settings: Settings) -> AsyncIterator[ToolPlane]:
    """Open the plane, and close it with the block: first its servers, then the log, which has their last calls.

    Raises:
        ConfigError: mcp.jsonc is wrong.
    """
    config = served_mcp_config(settings)
    # A graph server of another project does not prepare the folder. Without it, the call log says what is wrong.
    with suppress(OSError):
        await asyncio.to_thread(make_data_folder, settings.data_dir)
    _log_config(config, mcp_place(settings).in_words())
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


class BackgroundPlane(threading.Thread):
    """A thread with a tool plane from the process's own settings that lives until `stop`.

    The caller's loop is not used: it may end (`asyncio.run` of one request) long before the process does.

    Args:
        on_open: called on the thread with the plane.
        on_failure: called on the thread instead, when the settings or the MCP configuration are wrong.
    """

    def __init__(self, on_open: Callable[[ToolPlane], None], on_failure: Callable[[BaseException], None]) -> None:
        super().__init__(name="toolweave-tool-plane", daemon=True)
        self._on_open = on_open
        self._on_failure = on_failure
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wanted = True
        self._released = asyncio.Event()

    def release(self) -> None:
        """Let the plane close in its own time."""
        self._wanted = False
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has closed already
                self._loop.call_soon_threadsafe(self._released.set)

    def stop(self) -> None:
        """Close the plane and wait, bounded, until its servers have ended."""
        self.release()
        self.join(CLOSING_LIMIT_S)

    def run(self) -> None:
        """Hold the plane open until it is released."""
        try:
            asyncio.run(self._serve())
        except Exception as error:  # noqa: BLE001 - the top-level handler of this thread
            self._on_failure(error)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        async with open_served_plane(load_settings()) as plane:
            self._on_open(plane)
            if self._wanted:
                await self._released.wait()


class Slot:
    """Room for one plane, used from any thread and any event loop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._plane: ToolPlane | None = None
        self._expected = False
        self._background: BackgroundPlane | None = None
        self._waiting: list[Future[ToolPlane]] = []

    def expect(self) -> None:
        """Note that a plane is about to be published."""
        with self._lock:
            self._expected = True

    def publish(self, plane: ToolPlane) -> None:
        """Fill the slot and let everybody who waits have the plane; one opened in the background is let go."""
        with self._lock:
            background, self._background = self._background, None
        if background is not None:
            background.release()
        self._fill(plane)

    def withdraw(self, plane: ToolPlane) -> None:
        """Empty the slot if it holds `plane`; nothing is expected any more."""
        with self._lock:
            self._expected = False
            if self._plane is plane:
                self._plane = None

    def holds(self, plane: ToolPlane) -> bool:
        """Return whether it is `plane` that is in the slot."""
        return self._plane is plane

    async def plane(self, timeout_s: float = 2.0) -> ToolPlane:
        """Return the process's tool plane, waiting at most `timeout_s` for it to open.

        Raises:
            ServerUnavailable: it did not open in time.
            ConfigError: it was opened here, and the settings or mcp.jsonc are wrong.
        """
        try:
            return await asyncio.wait_for(asyncio.wrap_future(self._opened()), timeout_s)
        except TimeoutError:
            raise ServerUnavailable(f"The tool plane did not open within {timeout_s:g} seconds.", server="*") from None

    def _opened(self) -> "Future[ToolPlane]":
        waiter: Future[ToolPlane] = Future()
        with self._lock:
            if self._plane is not None:
                waiter.set_result(self._plane)
                return waiter
            self._waiting.append(waiter)
            if not self._expected and self._background is None:
                self._background = BackgroundPlane(self._fill_if_empty, self._fail)
                atexit.register(self._background.stop)
                self._background.start()
        return waiter

    def close_background(self) -> None:
        """Close the plane on the daemon thread, if there is one."""
        with self._lock:
            background, self._background = self._background, None
            if background is not None:
                self._plane = None
        if background is not None:
            atexit.unregister(background.stop)
            background.stop()

    def _fill_if_empty(self, plane: ToolPlane) -> None:
        if self._background is not None:
            self._fill(plane)

    def _fill(self, plane: ToolPlane) -> None:
        with self._lock:
            self._plane = plane
            waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if waiter.set_running_or_notify_cancel():
                waiter.set_result(plane)

    def _fail(self, error: BaseException) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, []
            self._background = None
        for waiter in waiting:
            if waiter.set_running_or_notify_cancel():
                waiter.set_exception(error)


plane_slot = Slot()
