"""Store a run's progress in its metadata while it executes: such a run is a job that can be looked up (A-05).

Any node reports by a custom stream event `{"type": "progress", "progress": 0 … 100, "message": str}`. Runs that report
none have the metadata that they have on the official server.
"""

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

from loguru import logger

from toolweave.errors import PersistenceError
from toolweave.runtime.models import JOB_ERROR, JsonObject, Outcome, Run

PAUSE_S = 0.5
"""Between two writes of a run: what is told meanwhile waits, and only the last of it is written."""
LONGEST_MESSAGE = 500
CUT = "…"
Write = Callable[[JsonObject], Awaitable[object]]


class RunProgress:
    """What an execution of a run has told last: `latest`, {percent, message}, or None as long as it has told nothing.

    It is as told: a later event may be lower, such as when a stage begins anew after a crash.
    """

    def __init__(self, pause_s: float = PAUSE_S) -> None:
        self.latest: JsonObject | None = None
        self._pause_s = pause_s
        self._loop: asyncio.AbstractEventLoop | None = None
        self._write: Write | None = None
        self._noticed = False
        self._writing: asyncio.Task[None] | None = None

    def hear(self, event: object) -> None:
        """Take a custom event of any kind, from any thread; it raises nothing and waits for nothing."""
        told = progress_in(event)
        if told is None:
            return
        self.latest = told
        if self._noticed or self._loop is None:
            return
        self._noticed = True
        # A node's thread may outlive the loop.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._notice)

    @asynccontextmanager
    async def kept(self, write: Write) -> AsyncIterator[None]:
        """Write what is told in the block: the first at once, then the latest after each pause, one at a time.

        What is left at the end is for whoever writes how the run ended, so that both are seen at once.
        """
        self._loop, self._write = asyncio.get_running_loop(), write
        try:
            yield
        finally:
            self._loop = self._write = None
            if self._writing is not None:
                self._writing.cancel()
                await asyncio.gather(self._writing, return_exceptions=True)

    def _notice(self) -> None:
        self._noticed = False
        if self._writing is None and self._write is not None:
            self._writing = asyncio.create_task(self._write_latest(self._write), name="run-progress")

    async def _write_latest(self, write: Write) -> None:
        written: JsonObject | None = None
        while (told := self.latest) is not None and told is not written:
            try:
                await write(told)
                written = told
            except PersistenceError as error:
                logger.warning("the progress of a run cannot be written yet: {}", error)
            await asyncio.sleep(self._pause_s)
        self._writing = None


def progress_in(event: object) -> JsonObject | None:
    """Read a progress event, bounding the percent and cutting the message; None for anything else.

    A message that is no text counts as none.
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
    # Compared before it is converted: an integer may be larger than any float.
    within = float(min(100, max(0, percent)))
    return {"percent": within, "message": shortened(message, LONGEST_MESSAGE)}


def shortened(text: object, longest: int) -> str:
    """Cut a text to so many characters; empty for what is none."""
    if not isinstance(text, str):
        return ""
    return text[:longest] if len(text) <= longest else text[: longest - len(CUT)] + CUT


LONGEST_ERROR = 2_000
PROGRESS = "progress"


def with_job_metadata(outcome: Outcome, run: Run, progress: RunProgress) -> Outcome:
    """Add what a job's metadata are to say: its last progress, and the text of its failure."""
    told: JsonObject = {} if progress.latest is None else {PROGRESS: progress.latest}
    failed = outcome.status in ("error", "timeout") and outcome.error is not None
    if failed and (told or _progress_of_earlier_attempt(run)):
        told[JOB_ERROR] = shortened((outcome.error or {}).get("message"), LONGEST_ERROR)
    return replace(outcome, run_metadata=told) if told else outcome


def asked_metadata(run: Run) -> JsonObject:
    """Give a run's metadata without the progress that an earlier attempt has told."""
    if not _progress_of_earlier_attempt(run):
        return run.metadata
    return {name: item for name, item in run.metadata.items() if name != PROGRESS}


def _progress_of_earlier_attempt(run: Run) -> bool:
    told = run.metadata.get(PROGRESS)
    return run.attempt > 1 and isinstance(told, dict) and told.keys() == {"percent", "message"}
