"""Run coroutines for callers that have no event loop, all on one loop.

Clients of model endpoints are bound to the loop on which they were first used: with a loop per call the second call
finds their connections on a closed one. The loop starts with the first call and ends with the process.
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
        """Wait for `work`; an interrupt (Ctrl-C) cancels it and waits until it has cleaned up."""
        loop = self._started()
        answer: Future[T] = Future()
        begun: list[asyncio.Task[T]] = []

        def begin() -> None:
            begun.append(loop.create_task(work))
            begun[0].add_done_callback(partial(_hand_over, answer))

        def leave() -> None:
            if begun:
                begun[0].cancel()
            else:
                work.close()
                answer.set_exception(CancelledError())

        try:
            # The loop may be at work, and the interrupt here, before this returns.
            loop.call_soon_threadsafe(begin)
            return answer.result()
        except BaseException:
            if not answer.done():
                loop.call_soon_threadsafe(leave)
                wait([answer], CLEANUP_TIMEOUT_S)
            raise

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                thread = threading.Thread(target=self._loop.run_forever, name="toolweave-run-sync", daemon=True)
                thread.start()
                atexit.register(_stop, self._loop, thread)
            return self._loop


def refuse_event_loop(called: str, instead: str) -> None:
    """Refuse to wait in a thread whose event loop would stand still meanwhile.

    Raises:
        RuntimeError: an event loop runs in this thread; names what to do.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError(f"{called} was called inside a running event loop: use `{instead}` there.")


def _hand_over(answer: "Future[T]", task: "asyncio.Task[T]") -> None:
    if task.cancelled():
        answer.set_exception(CancelledError())
    elif error := task.exception():
        answer.set_exception(error)
    else:
        answer.set_result(task.result())


def _stop(loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
    loop.call_soon_threadsafe(loop.stop)
    thread.join(CLEANUP_TIMEOUT_S)
    loop.close()


background_loop = BackgroundLoop()
