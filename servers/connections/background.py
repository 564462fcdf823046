"""Open a tool plane on a daemon thread's own loop, for a process in which no lifespan opens one."""

import asyncio
import contextlib
import threading
from collections.abc import Callable

from toolweave.config.settings import load_settings
from toolweave.servers.connections.plane import ToolPlane
from toolweave.servers.connections.served_plane import open_served_plane

CLOSING_LIMIT_S = 8.0


class BackgroundPlane:
    """A tool plane from the process's own settings that lives until `stop`.

    The caller's loop is not used: it may end (`asyncio.run` of one request) long before the process does.

    Args:
        on_open: called on the thread with the plane.
        on_failure: called on the thread instead, when the settings or the MCP configuration are wrong.
    """

    def __init__(self, on_open: Callable[[ToolPlane], None], on_failure: Callable[[BaseException], None]) -> None:
        self._on_open = on_open
        self._on_failure = on_failure
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wanted = True
        self._stopped = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="toolweave-tool-plane", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def release(self) -> None:
        """Let the plane close in its own time."""
        self._wanted = False
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has closed already
                self._loop.call_soon_threadsafe(self._stopped.set)

    def stop(self) -> None:
        """Close the plane and wait, bounded, until its servers have ended."""
        self.release()
        self._thread.join(CLOSING_LIMIT_S)

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except Exception as error:  # noqa: BLE001 - the top-level handler of this thread
            self._on_failure(error)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        async with open_served_plane(load_settings()) as plane:
            self._on_open(plane)
            if self._wanted:
                await self._stopped.wait()
