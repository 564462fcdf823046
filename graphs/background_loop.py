"""Run coroutines for synchronous callers, all on one background event loop.

HTTP clients of model endpoints are bound to the loop of their first use. With one loop per call, the second call would
find their connections on a closed loop. The loop starts with the first call and stops when the process exits.
"""

import asyncio
import atexit
import threading
from collections.abc import Coroutine
from concurrent.futures import CancelledError, Future, wait
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")
CLEANUP_TIMEOUT_S = 10.0


class BackgroundLoop:
    """An event loop on a daemon thread, started by the first call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` and return its result; an interrupt (Ctrl-C) cancels it and waits until it has cleaned up."""
        loop = self._ensure_loop()
        future: Future[T] = Future()
        started: list[asyncio.Task[T]] = []

        def start_task() -> None:
            started.append(loop.create_task(work))
            started[0].add_done_callback(partial(_transfer_result, future))

        def cancel_work() -> None:
            if started:
                started[0].cancel()
            else:
                work.close()
                future.set_exception(CancelledError())

        try:
            # The task may run, and the interrupt arrive, before this call returns.
            loop.call_soon_threadsafe(start_task)
            return future.result()
        except BaseException:
            if not future.done():
                loop.call_soon_threadsafe(cancel_work)
                wait([future], CLEANUP_TIMEOUT_S)
            raise

    def _ensure_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                thread = threading.Thread(target=self._loop.run_forever, name="toolweave-run-sync", daemon=True)
                thread.start()
                atexit.register(_stop_loop, self._loop, thread)
            return self._loop


def require_no_event_loop(called: str, instead: str) -> None:
    """Check that no event loop runs in this thread: a blocking wait would stall it.

    Raises:
        RuntimeError: an event loop runs in this thread; the text names what to call instead.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError(f"{called} was called inside a running event loop: use `{instead}` there.")


def _transfer_result(future: "Future[T]", task: "asyncio.Task[T]") -> None:
    if task.cancelled():
        future.set_exception(CancelledError())
    elif error := task.exception():
        future.set_exception(error)
    else:
        future.set_result(task.result())


def _stop_loop(loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
    loop.call_soon_threadsafe(loop.stop)
    thread.join(CLEANUP_TIMEOUT_S)
    loop.close()


background_loop = BackgroundLoop()
