"""Store a run's progress in its metadata while it executes, so that clients can poll the run as a job (A-05).

The tokens of a run's model calls are stored with its end (S-12).

Any node reports progress by a custom stream event `{"type": "progress", "progress": 0 … 100, "message": str}`. Runs
without progress have the same metadata as on the official server.
"""

import asyncio
import math
import threading
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from itertools import chain
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.outputs import LLMResult
from loguru import logger

from toolweave.errors import PersistenceError
from toolweave.runtime.models import JOB_ERROR_KEY, JsonObject, Outcome, Run

WRITE_INTERVAL_S = 0.5
"""The interval between two writes for a run; only the latest progress is written."""
MAX_MESSAGE_CHARS = 500
ELLIPSIS = "…"
WriteProgress = Callable[[JsonObject], Awaitable[object]]


TOKEN_COUNTS = ("input_tokens", "output_tokens", "total_tokens")


class TokenUsage(BaseCallbackHandler):
    """The tokens of a graph's model calls, those of subgraphs too; `counts` is empty until a model reports some."""

    # Otherwise LangChain would call this in a thread, and for all events.
    run_inline = True
    ignore_agent = ignore_chain = ignore_chat_model = ignore_custom_event = ignore_retriever = ignore_retry = True

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def on_llm_end(self, response: LLMResult, **_: Any) -> None:
        """Add the tokens of one model call."""
        for generation in chain.from_iterable(response.generations):
            usage = getattr(getattr(generation, "message", None), "usage_metadata", None)
            if usage:
                with self._lock:
                    self.counts.update({name: usage.get(name, 0) for name in TOKEN_COUNTS})
                # Each generation has the tokens of the whole call.
                break


class RunProgress:
    """The progress of a run's execution: `latest` is {percent, message}, or None before the first event.

    The percent may fall, such as when a stage restarts after a crash. `usage` counts tokens as a callback of the graph.
    """

    def __init__(self, interval_s: float = WRITE_INTERVAL_S) -> None:
        self.latest: JsonObject | None = None
        self.usage = TokenUsage()
        self._interval_s = interval_s
        self._loop: asyncio.AbstractEventLoop | None = None
        self._write: WriteProgress | None = None
        self._is_scheduled = False
        self._write_task: asyncio.Task[None] | None = None

    def record_event(self, event: object) -> None:
        """Store the progress that a custom event reports. Any thread may call this; it never raises or blocks."""
        progress = parse_progress(event)
        if progress is None:
            return
        self.latest = progress
        if self._is_scheduled or self._loop is None:
            return
        self._is_scheduled = True
        # A node's thread may outlive the loop.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._start_writing)

    @asynccontextmanager
    async def autosave(self, write: WriteProgress) -> AsyncIterator[None]:
        """Write the progress inside the block: the first event at once, then the latest one at each interval.

        Progress that is unwritten at the end is stored together with the run's end.
        """
        self._loop, self._write = asyncio.get_running_loop(), write
        try:
            yield
        finally:
            self._loop = self._write = None
            if self._write_task is not None:
                self._write_task.cancel()
                await asyncio.gather(self._write_task, return_exceptions=True)

    def _start_writing(self) -> None:
        self._is_scheduled = False
        if self._write_task is None and self._write is not None:
            self._write_task = asyncio.create_task(self._write_latest(self._write), name="run-progress")

    async def _write_latest(self, write: WriteProgress) -> None:
        written: JsonObject | None = None
        while (progress := self.latest) is not None and progress is not written:
            try:
                await write(progress)
                written = progress
            except PersistenceError as error:
                logger.warning("the progress of a run cannot be written yet: {}", error)
            await asyncio.sleep(self._interval_s)
        self._write_task = None


def parse_progress(event: object) -> JsonObject | None:
    """Return the progress of an event, with the percent clamped and the message cut; None for other events.

    A message that is not text becomes empty.
    """
    if not isinstance(event, dict):
        return None
    kind, percent, message = (event.get(name) for name in ("type", "progress", "message"))
    if not isinstance(kind, str) or kind != "progress":
        return None
    if not isinstance(percent, int | float):
        return None
    if isinstance(percent, bool) or (isinstance(percent, float) and math.isnan(percent)):
        return None
    # Clamp before the conversion: an integer may be larger than any float.
    within = float(min(100, max(0, percent)))
    return {"percent": within, "message": shorten(message, MAX_MESSAGE_CHARS)}


def shorten(text: object, max_chars: int) -> str:
    """Return a text cut to `max_chars`; empty if it is not text."""
    if not isinstance(text, str):
        return ""
    return text[:max_chars] if len(text) <= max_chars else text[: max_chars - len(ELLIPSIS)] + ELLIPSIS


MAX_ERROR_CHARS = 2_000
PROGRESS_KEY, USAGE_KEY = "progress", "usage"


def add_job_metadata(outcome: Outcome, run: Run, progress: RunProgress) -> Outcome:
    """Add the last progress, the error message of a failure and the token usage to the run's metadata."""
    added: JsonObject = {} if progress.latest is None else {PROGRESS_KEY: progress.latest}
    failed = outcome.status in ("error", "timeout") and outcome.error is not None
    if failed and (added or _has_earlier_progress(run)):
        added[JOB_ERROR_KEY] = shorten((outcome.error or {}).get("message"), MAX_ERROR_CHARS)
    if progress.usage.counts:
        added[USAGE_KEY] = dict(progress.usage.counts)
    return replace(outcome, run_metadata=added) if added else outcome


def requested_metadata(run: Run) -> JsonObject:
    """Return a run's metadata without the progress of an earlier attempt."""
    if not _has_earlier_progress(run):
        return run.metadata
    return {name: item for name, item in run.metadata.items() if name != PROGRESS_KEY}


def _has_earlier_progress(run: Run) -> bool:
    stored = run.metadata.get(PROGRESS_KEY)
    return run.attempt > 1 and isinstance(stored, dict) and stored.keys() == {"percent", "message"}
