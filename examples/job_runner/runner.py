"""Keep jobs in memory and run them, a few at a time."""

import asyncio
import logging
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from examples.job_runner.kinds import KINDS, JobFailed

Status = Literal["queued", "running", "succeeded", "failed", "cancelled"]
_LOG = logging.getLogger(__name__)


@dataclass
class Job:
    """A job and how it is."""

    kind: str
    params: dict[str, Any]
    job_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    status: Status = "queued"
    progress: float = 0
    result: Any = None
    error: str | None = None
    task: asyncio.Task[Any] | None = None

    @property
    def over(self) -> bool:
        """Say whether nothing happens to it any more."""
        return self.status in ("succeeded", "failed", "cancelled")

    def told(self, progress: float) -> None:
        """Note how far it is, in per cent."""
        self.progress = round(progress, 1)


class QueueFull(Exception):
    """No further job is taken now."""


class Runner:
    """The queue, and the last jobs by id."""

    def __init__(self, *, most_queued: int = 100, most_kept: int = 1_000) -> None:
        self._queue: asyncio.Queue[Job] = asyncio.Queue(most_queued)
        self._most_kept = most_kept
        self._jobs: dict[str, Job] = {}
        self._by_key: dict[tuple[str, str], Job] = {}

    def submit(self, kind: str, params: dict[str, Any], key: str | None = None) -> tuple[Job, bool]:
        """Queue a job; with a key that was there before, give that job and False. Raises QueueFull."""
        if key is not None and (known := self._by_key.get((kind, key))):
            return known, False
        job = Job(kind, params)
        try:
            self._queue.put_nowait(job)
        except asyncio.QueueFull:
            raise QueueFull from None
        self._jobs[job.job_id] = job
        if key is not None:
            self._by_key[kind, key] = job
        self._forget_old()
        return job, True

    def job(self, kind: str, job_id: str) -> Job | None:
        """Find a job."""
        job = self._jobs.get(job_id)
        return job if job and job.kind == kind else None

    def cancel(self, job: Job) -> None:
        """Stop a job unless it is over."""
        if not job.over:
            job.status = "cancelled"
            if job.task is not None:
                job.task.cancel()

    @asynccontextmanager
    async def running(self, workers: int = 2) -> AsyncIterator[None]:
        """Run jobs while the context is open; what is left then is dropped."""
        tasks = [asyncio.create_task(self._work()) for _ in range(workers)]
        try:
            yield
        finally:
            for job in self._jobs.values():
                self.cancel(job)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _work(self) -> None:
        while True:
            job = await self._queue.get()
            if job.over:
                continue
            job.status = "running"
            run, _ = KINDS[job.kind]
            job.task = asyncio.ensure_future(run(job.params, job.told))
            await asyncio.wait({job.task})
            _note_end(job, job.task)

    def _forget_old(self) -> None:
        for job_id in [job_id for job_id, job in self._jobs.items() if job.over][: -self._most_kept]:
            del self._jobs[job_id]
        self._by_key = {key: job for key, job in self._by_key.items() if job.job_id in self._jobs}


def _note_end(job: Job, task: asyncio.Task[Any]) -> None:
    if task.cancelled():
        job.status = "cancelled"
    elif (error := task.exception()) is None:
        job.status, job.progress, job.result = "succeeded", 100, task.result()
    elif isinstance(error, JobFailed):
        job.status, job.error = "failed", str(error)
    else:
        _LOG.error("job %s failed", job.job_id, exc_info=error)
        job.status, job.error = "failed", "internal error"
