"""Carry work to the event loop that sessions live on, and see all of it through before that loop may end."""

import asyncio
import contextlib
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from toolweave.errors import ServerUnavailable

T = TypeVar("T")

CLOSED = "The connections to the tool servers are being closed."


class HomeLoop:
    """The running event loop, to be used from any other.

    A loop that ends forgets what it was given by other threads, whose callers would wait for ever: `close` lets
    nothing more in, `drain` waits for what is in.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._closed = False
        self._open: set[Future[Any]] = set()

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` here and return what it returns; a cancelled caller cancels it.

        Raises:
            ServerUnavailable: the caller is on another loop, and this one is closed.
        """
        if asyncio.get_running_loop() is self._loop:
            return await work
        with self._lock:
            if self._closed:
                work.close()
                raise ServerUnavailable(CLOSED, server="*", executed="no")
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
            self._open.add(future)
        future.add_done_callback(self._open.discard)
        return await asyncio.wrap_future(future)

    def close(self) -> None:
        """Let no more work in from other loops."""
        with self._lock:
            self._closed = True

    async def drain(self, limit_s: float) -> None:
        """Wait, at most `limit_s`, until the work from other loops has ended; call it on this loop, once closed."""
        still_open = [asyncio.wrap_future(future) for future in list(self._open)]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                await asyncio.gather(*still_open, return_exceptions=True)
