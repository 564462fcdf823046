"""Run background tasks: cleanup at intervals, a task for the length of a block, the event loop's watchdog (R-03)."""

import asyncio
import inspect
import sys
import sysconfig
import threading
import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from itertools import takewhile
from types import CodeType, FrameType
from typing import Any

from loguru import logger

from toolweave.errors import PersistenceError


async def clear_regularly(clear: Callable[[], Awaitable[int]], interval_s: float, done: str, failed: str) -> None:
    """Call `clear` now and then every `interval_s`; log its count with `done`, or a database error with `failed`."""
    while True:
        try:
            cleared = await clear()
        except PersistenceError as error:
            logger.warning(failed, error)
        else:
            if cleared:
                logger.info(done, cleared)
        await asyncio.sleep(interval_s)


CANCEL_INTERVAL_S = 1.0


@asynccontextmanager
async def background_task(work: Coroutine[None, None, None], name: str) -> AsyncIterator[None]:
    """Run `work` in a task of this name, which is cancelled when the block ends."""
    task = asyncio.create_task(work, name=name)
    try:
        yield
    finally:
        # Before Python 3.12, `asyncio.wait_for`, which psycopg uses, can swallow a cancellation.
        while not task.done():
            task.cancel()
            await asyncio.wait([task], timeout=CANCEL_INTERVAL_S)
        await asyncio.gather(task, return_exceptions=True)


MAX_BLOCKED_S = 0.1
HEARTBEAT_INTERVAL_S = 0.05
REPEAT_INTERVAL_S = 60.0
MAX_LOGGED_FRAMES = 30
LIBRARY_PATHS = ("<frozen ", *(sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")))
SELECTOR_FILES = ("selectors.py", "windows_events.py")
LOGGED_METADATA = {"graph_id": "graph_id", "node": "langgraph_node", "thread_id": "thread_id", "run_id": "run_id"}
BLOCKING_ADVICE = (
    "Until it returns, the server cannot answer requests. If this is your node or tool, make it a plain `def`, which "
    "runs on a thread, or await asyncio.to_thread(…) for the blocking part."
)


@asynccontextmanager
async def watch_event_loop(limit_s: float = MAX_BLOCKED_S) -> AsyncIterator[None]:
    """Inside the block, log code that blocks the running event loop for longer than `limit_s`."""
    outermost = reversed([frame.f_code for frame, _ in traceback.walk_stack(None)])
    codes = takewhile(lambda code: not code.co_flags & (inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR), outermost)
    watchdog = LoopWatchdog(asyncio.get_running_loop(), limit_s, frozenset(codes))
    watchdog.send_heartbeat()
    watchdog.start()
    try:
        yield
    finally:
        watchdog.stop()


class LoopWatchdog(threading.Thread):
    """Log the stack of the event loop's thread when the loop's heartbeat is late.

    `loop_code` is the code that runs the loop; its frames and those of its callers are left out of the stack. Each
    location is logged once per `REPEAT_INTERVAL_S`.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, limit_s: float, loop_code: frozenset[CodeType]) -> None:
        super().__init__(name="loop-watchdog", daemon=True)
        self._loop = loop
        self._limit_s = limit_s
        self._loop_code = loop_code
        self._loop_thread = threading.get_ident()
        self._stopping = threading.Event()
        self._due = 0.0
        self._logged: dict[tuple[Any, ...], float] = {}

    def stop(self) -> None:
        """Request the end of the thread and the heartbeat."""
        self._stopping.set()

    def send_heartbeat(self) -> None:
        """Record that the loop is not blocked, and schedule the next heartbeat; call it on the loop's thread."""
        self._due = time.monotonic() + HEARTBEAT_INTERVAL_S
        if not self._stopping.is_set():
            self._loop.call_later(HEARTBEAT_INTERVAL_S, self.send_heartbeat)

    def run(self) -> None:
        """Watch the heartbeat."""
        reported = 0.0
        while not self._stopping.wait(max(HEARTBEAT_INTERVAL_S, self._due + self._limit_s - time.monotonic())):
            due = self._due
            # Report once per blocked period.
            if due != reported and time.monotonic() >= due + self._limit_s:
                reported = due
                self._log_blocked(due)

    def _log_blocked(self, due: float) -> None:
        frame = sys._current_frames().get(self._loop_thread)  # noqa: SLF001 - the one way to see another thread
        innermost = () if frame is None else traceback.walk_stack(frame)
        frames = list(takewhile(lambda shown: shown[0].f_code not in self._loop_code, innermost))
        # The loop may have continued by now, or only the machine was slow.
        if not frames or due != self._due or frames[0][0].f_code.co_filename.endswith(SELECTOR_FILES):
            return
        in_no_library = (shown for shown in frames if not shown[0].f_code.co_filename.startswith(LIBRARY_PATHS))
        culprit, line = next(in_no_library, frames[0])
        location = _graph_location(frame for frame, _ in frames)
        place = (culprit.f_code, location.get("graph_id"), location.get("node"))
        now = time.monotonic()
        if now - self._logged.get(place, -REPEAT_INTERVAL_S) < REPEAT_INTERVAL_S:
            return
        self._logged[place] = now
        logger.bind(**location).warning(
            "the event loop has been blocked for more than {:.0f} ms by {}, {}:{}{}. {}\n{}",
            self._limit_s * 1000,
            culprit.f_code.co_qualname,
            culprit.f_code.co_filename,
            line,
            f" (graph {location.get('graph_id', 'unknown')}, node {location['node']})" if location else "",
            BLOCKING_ADVICE,
            "".join(traceback.StackSummary.extract(reversed(frames[:MAX_LOGGED_FRAMES])).format()).rstrip(),
        )


def _graph_location(frames: Iterable[FrameType]) -> dict[str, Any]:
    """Return graph, node, thread and run of the frames; empty outside of graphs.

    The values come from the frames' local variables, because the watchdog's thread cannot read the context variables of
    the blocking task.
    """
    for frame in frames:
        config = frame.f_locals.get("config")
        metadata = config.get("metadata") if isinstance(config, dict) else None
        if isinstance(metadata, dict) and "langgraph_node" in metadata:
            return {shown: metadata[name] for shown, name in LOGGED_METADATA.items() if name in metadata}
    return {}
