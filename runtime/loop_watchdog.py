"""Log what blocks the event loop: while it is blocked, the server answers nobody (R-03)."""

import asyncio
import inspect
import sys
import sysconfig
import threading
import time
import traceback
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from types import CodeType, FrameType
from typing import Any

from loguru import logger

LIMIT_S = 0.1
BEAT_S = 0.05
QUIET_S = 60.0
SHOWN_FRAMES = 30
MAX_PLACES = 1000
LIBRARIES = ("<frozen ", *(sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")))
WAITING = ("selectors.py", "windows_events.py")
SHOWN_NAMES = {"graph_id": "graph_id", "node": "langgraph_node", "thread_id": "thread_id", "run_id": "run_id"}
ADVICE = (
    "The server answers nobody meanwhile. If this is a node or tool of yours, make it a plain `def`, which runs on a "
    "thread, or await asyncio.to_thread(…) for the blocking part."
)


@asynccontextmanager
async def watching_event_loop(limit_s: float = LIMIT_S) -> AsyncIterator[None]:
    """Log whatever blocks the running event loop for longer than `limit_s` until the block ends."""
    watchdog = LoopWatchdog(asyncio.get_running_loop(), limit_s, _codes_below(inspect.currentframe()))
    watchdog.start()
    try:
        yield
    finally:
        watchdog.stop()


class LoopWatchdog:
    """A thread that logs the stack of the event loop's thread when the loop's heartbeat is late.

    `below` is the code that runs the loop: frames of it and outside of it belong to no callback. Each place is logged
    once per `QUIET_S`.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, limit_s: float, below: frozenset[CodeType]) -> None:
        self._loop = loop
        self._limit_s = limit_s
        self._below = below
        self._loop_thread = threading.get_ident()
        self._thread = threading.Thread(target=self._watch, name="loop-watchdog", daemon=True)
        self._stopping = threading.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0
        self._logged: dict[tuple[CodeType, Any, Any], float] = {}

    def start(self) -> None:
        """Start the heartbeat and the thread; call it on the loop's thread."""
        self._beat()
        self._thread.start()

    def stop(self) -> None:
        """Stop both; the thread ends soon."""
        self._stopping.set()
        if self._timer is not None:
            self._timer.cancel()

    def _beat(self) -> None:
        self._timer = self._loop.call_later(BEAT_S, self._beat)
        self._due = time.monotonic() + BEAT_S

    def _watch(self) -> None:
        reported = 0.0
        while not self._stopping.wait(max(BEAT_S, self._due + self._limit_s - time.monotonic())):
            due = self._due
            # One report for each time that the loop is blocked.
            if due != reported and time.monotonic() >= due + self._limit_s:
                reported = due
                self._report(due)

    def _report(self, due: float) -> None:
        frame = sys._current_frames().get(self._loop_thread)  # noqa: SLF001 - the one way to see another thread
        frames = [] if frame is None else list(self._callback_frames(frame))
        # The loop may have gone on by now, or nothing but the machine was slow.
        if not frames or due != self._due or frames[0].f_code.co_filename.endswith(WAITING):
            return
        now = time.monotonic()
        blamed, of_run = _application_frame(frames), _place_in_graph(frames)
        code = blamed.f_code
        place = (code, of_run.get("graph_id"), of_run.get("node"))
        if now - self._logged.get(place, -QUIET_S) < QUIET_S:
            return
        if len(self._logged) >= MAX_PLACES:
            self._logged.clear()
        self._logged[place] = now
        where = f"{code.co_qualname}, {code.co_filename}:{blamed.f_lineno}"
        shown = ((frame, frame.f_lineno) for frame in reversed(frames[:SHOWN_FRAMES]))
        stack = "".join(traceback.StackSummary.extract(shown).format())
        logger.bind(**of_run).warning(
            "the event loop has been blocked for more than {:.0f} ms by {}{}. {}\n{}",
            self._limit_s * 1000,
            where,
            _named(of_run),
            ADVICE,
            stack.rstrip(),
        )

    def _callback_frames(self, frame: FrameType | None) -> Iterator[FrameType]:
        """Give the frames of the callback that the loop is in, the innermost first."""
        while frame is not None and frame.f_code not in self._below:
            yield frame
            frame = frame.f_back


def _codes_below(frame: FrameType | None) -> frozenset[CodeType]:
    """Give the code that runs the loop: of all frames outside of the outermost coroutine."""
    frames = []
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back
    below = []
    for outer in reversed(frames):
        if outer.f_code.co_flags & (inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
            break
        below.append(outer.f_code)
    return frozenset(below)


def _application_frame(frames: list[FrameType]) -> FrameType:
    """Give the innermost frame that is in no library; in a library, the innermost one."""
    return next((frame for frame in frames if not frame.f_code.co_filename.startswith(LIBRARIES)), frames[0])


def _place_in_graph(frames: list[FrameType]) -> dict[str, Any]:
    """Read from the frames' variables in which node of which run they are; empty outside of graphs.

    The watchdog's thread cannot read the context variables of the task that blocks.
    """
    for frame in frames:
        config = frame.f_locals.get("config")
        metadata = config.get("metadata") if isinstance(config, dict) else None
        if isinstance(metadata, dict) and "langgraph_node" in metadata:
            return {shown: metadata[name] for shown, name in SHOWN_NAMES.items() if name in metadata}
    return {}


def _named(of_run: dict[str, Any]) -> str:
    if not of_run:
        return ""
    return f" (graph {of_run.get('graph_id', 'unknown')}, node {of_run['node']})"
