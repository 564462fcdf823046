"""Keep the process's one tool plane where served graphs find it.

A lifespan calls `expect_plane` first thing, then `publish` and at its end `withdraw`; a run that starts meanwhile
waits in `current_plane`. Where nothing is published or expected, as in a script that imports a served graph, the first
use opens a plane on a daemon thread, closed at exit.
"""

import asyncio
import atexit
import threading
from concurrent.futures import Future

from toolweave.errors import ServerUnavailable
from toolweave.servers.connections.background import BackgroundPlane
from toolweave.servers.connections.plane import ToolPlane


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
        """Say whether it is `plane` that is in the slot."""
        return self._plane is plane

    def wait(self) -> "Future[ToolPlane]":
        """Return the plane, or a promise of it; open one in the background if nobody else will."""
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


_slot = Slot()


def expect_plane() -> None:
    """Say that a lifespan is about to publish a plane, so that nobody opens another one."""
    _slot.expect()


def publish(plane: ToolPlane) -> None:
    """Make `plane` the process's tool plane."""
    _slot.publish(plane)


def is_current(plane: ToolPlane) -> bool:
    """Say whether `plane` is the process's tool plane."""
    return _slot.holds(plane)


def withdraw(plane: ToolPlane) -> None:
    """Take `plane` out again, before it closes."""
    _slot.withdraw(plane)


def close_background_plane() -> None:
    """Close the plane that was opened because no lifespan did; the process's exit does it, too."""
    _slot.close_background()


async def current_plane(timeout_s: float = 2.0) -> ToolPlane:
    """Return the process's tool plane, waiting at most `timeout_s` for it to open.

    Raises:
        ServerUnavailable: it did not open in time.
        ConfigError: it was opened here, and the settings or mcp.jsonc are wrong.
    """
    try:
        return await asyncio.wait_for(asyncio.wrap_future(_slot.wait()), timeout_s)
    except TimeoutError:
        raise ServerUnavailable(f"The tool plane did not open within {timeout_s:g} seconds.", server="*") from None
