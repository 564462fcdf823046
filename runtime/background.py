"""Run work beside a block of code: once, again and again, or as the watchdog of its event loop (R-03)."""

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
    """Clear something at once and then in intervals; log the count as `done`, and the database's error as `failed`."""
    while True:
        try:
            cleared = await clear()
        except PersistenceError as error:
            logger.warning(failed, error)
        else:
            if cleared:
                logger.info(done, cleared)
        await asyncio.sleep(interval_s)


@asynccontextmanager
async def background_task(work: Coroutine[None, None, None], name: str) -> AsyncIterator[None]:
    """Run work in a task of this name, and cancel it when the block ends."""
    task = asyncio.create_task(work, name=name)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


MAX_BLOCKED_S = 0.1
HEARTBEAT_INTERVAL_S = 0.05
REPEAT_INTERVAL_S = 60.0
MAX_LOGGED_FRAMES = 30
LIBRARY_PATHS = ("<frozen ", *(sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")))
SELECTOR_FILES = ("selectors.py", "windows_events.py")
LOGGED_METADATA = {"graph_id": "graph_id", "node": "langgraph_node", "thread_id": "thread_id", "run_id": "run_id"}
BLOCKING_ADVICE = (
    "The server answers nobody meanwhile. If this is a node or tool of yours, make it a plain `def`, which runs on a "
    "thread, or await asyncio.to_thread(…) for the blocking part."
)


@asynccontextmanager
async def watch_event_loop(limit_s: float = MAX_BLOCKED_S) -> AsyncIterator[None]:
    """Log whatever blocks the running event loop for longer than `limit_s` until the block ends."""
    outermost = reversed([frame.f_code for frame, _ in traceback.walk_stack(None)])
    below = takewhile(lambda code: not code.co_flags & (inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR), outermost)
    watchdog = LoopWatchdog(asyncio.get_running_loop(), limit_s, frozenset(below))
    watchdog.send_heartbeat()
    watchdog.start()
    try:
        yield
    finally:
        watchdog.stop()


class LoopWatchdog(threading.Thread):
    """Log the stack of the event loop's thread when the loop's heartbeat is late.

    `below` is the code that runs the loop: frames of it and outside of it belong to no callback. Each place is logged
    once per `QUIET_S`.
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
        """End the thread and the heartbeat soon."""
        self._stopping.set()

    def send_heartbeat(self) -> None:
        """Say that the loop is not blocked, again and again; call it on the loop's thread."""
        self._due = time.monotonic() + HEARTBEAT_INTERVAL_S
        if not self._stopping.is_set():
            self._loop.call_later(HEARTBEAT_INTERVAL_S, self.send_heartbeat)

    def run(self) -> None:
        """Watch the heartbeat."""
        reported = 0.0
        while not self._stopping.wait(max(HEARTBEAT_INTERVAL_S, self._due + self._limit_s - time.monotonic())):
            due = self._due
            # One report for each time that the loop is blocked.
            if due != reported and time.monotonic() >= due + self._limit_s:
                reported = due
                self._log_blocked(due)

    def _log_blocked(self, due: float) -> None:
        frame = sys._current_frames().get(self._loop_thread)  # noqa: SLF001 - the one way to see another thread
        innermost = () if frame is None else traceback.walk_stack(frame)
        frames = list(takewhile(lambda shown: shown[0].f_code not in self._loop_code, innermost))
        # The loop may have gone on by now, or nothing but the machine was slow.
        if not frames or due != self._due or frames[0][0].f_code.co_filename.endswith(SELECTOR_FILES):
            return
        in_no_library = (shown for shown in frames if not shown[0].f_code.co_filename.startswith(LIBRARY_PATHS))
        blamed, line = next(in_no_library, frames[0])
        of_run = _graph_location(frame for frame, _ in frames)
        place = (blamed.f_code, of_run.get("graph_id"), of_run.get("node"))
        now = time.monotonic()
        if now - self._logged.get(place, -REPEAT_INTERVAL_S) < REPEAT_INTERVAL_S:
            return
        self._logged[place] = now
        logger.bind(**of_run).warning(
            "the event loop has been blocked for more than {:.0f} ms by {}, {}:{}{}. {}\n{}",
            self._limit_s * 1000,
            blamed.f_code.co_qualname,
            blamed.f_code.co_filename,
            line,
            f" (graph {of_run.get('graph_id', 'unknown')}, node {of_run['node']})" if of_run else "",
            BLOCKING_ADVICE,
            "".join(traceback.StackSummary.extract(reversed(frames[:MAX_LOGGED_FRAMES])).format()).rstrip(),
        )


def _graph_location(frames: Iterable[FrameType]) -> dict[str, Any]:
    """Read from the frames' variables in which node of which run they are; empty outside of graphs.

    The watchdog's thread cannot read the context variables of the task that blocks.
    """
    for frame in frames:
        config = frame.f_locals.get("config")
        metadata = config.get("metadata") if isinstance(config, dict) else None
        if isinstance(metadata, dict) and "langgraph_node" in metadata:
            return {shown: metadata[name] for shown, name in LOGGED_METADATA.items() if name in metadata}
    return {}
