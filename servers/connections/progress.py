"""Show how far a tool call has come, as `custom` events of the graph's stream."""

import asyncio
import contextlib
import contextvars
import math
from collections.abc import Callable, Iterator
from typing import Any

from langgraph.config import get_stream_writer

from toolweave.servers.connections.call_context import OnProgress
from toolweave.servers.connections.untrusted import note

EVENT_TYPE = "tool_progress"
INTERVAL_S = 0.1

Write = Callable[[dict[str, Any]], None]


class ProgressEvents:
    """Write one call's progress while it runs: at most one event per interval, the newest, and always the last one.

    `report` may be called from any thread, as the tool plane's loop need not be the graph's. What a server reports
    after the call has ended, or in numbers that are none, is dropped.

    Args:
        write: takes an event; called on the loop that made this object.
        facts: what every event says of the call.
        interval_s: how long to wait between two events.
    """

    def __init__(self, write: Write, facts: dict[str, Any], interval_s: float = INTERVAL_S) -> None:
        self._write = write
        self._facts = {"type": EVENT_TYPE, **facts}
        self._interval_s = interval_s
        self._loop = asyncio.get_running_loop()
        # LangGraph's writer looks into the context for where in the graph it is.
        self._context = contextvars.copy_context()
        self._pause: asyncio.TimerHandle | None = None
        self._newest: dict[str, Any] | None = None
        self._ended = False

    def report(self, progress: float, total: float | None, message: str | None) -> None:
        """Take note of what a server says."""
        if self._ended or not math.isfinite(progress):
            return
        known_total = total if total is not None and math.isfinite(total) else None
        words = note(message) if message else None
        event = {**self._facts, "progress": progress, "total": known_total, "message": words}
        with contextlib.suppress(RuntimeError):  # the graph's loop has closed: nobody is there any more
            self._loop.call_soon_threadsafe(self._take, event, context=self._context)

    def end(self) -> None:
        """Write what waits, and nothing after that."""
        self._ended = True
        if self._pause is not None:
            self._pause.cancel()
        self._write_newest()

    def _take(self, event: dict[str, Any]) -> None:
        if self._ended:
            return
        self._newest = event
        if self._pause is None:
            self._write_and_pause()

    def _write_and_pause(self) -> None:
        if self._newest is not None:
            self._pause = self._loop.call_later(self._interval_s, self._after_pause, context=self._context)
        self._write_newest()

    def _after_pause(self) -> None:
        self._pause = None
        self._write_and_pause()

    def _write_newest(self) -> None:
        event, self._newest = self._newest, None
        if event is not None:
            self._write(event)


@contextlib.contextmanager
def progress_events(**facts: Any) -> Iterator[OnProgress | None]:
    """Give what takes a call's progress, inside a graph; None outside of one."""
    try:
        write = get_stream_writer()
    except (RuntimeError, KeyError):
        yield None
        return
    events = ProgressEvents(write, facts)
    try:
        yield events.report
    finally:
        events.end()
