"""The two job tools (C-04)."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from urllib.parse import quote

from fastmcp import Context
from fastmcp.tools import ToolResult

from toolweave.config.settings import Settings
from toolweave.servers.call_meta import idempotency_key
from toolweave.servers.core.jobs.answers import Job, is_over, percentage
from toolweave.servers.core.jobs.calls import JobCalls
from toolweave.servers.core.jobs.endpoints import AllowedEndpoints, CalledEndpoint
from toolweave.servers.core.jobs.parameters import Absent, Endpoint, JobId, Params, WaitSeconds
from toolweave.servers.envelope import success
from toolweave.servers.error_codes import ENDPOINT_TIMEOUT, ToolFailed

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 0.5
# A last question needs this long to be worth asking.
LEAST_TIME_S = 0.2


class JobTools:
    """The tools as methods; their docstrings and annotations are what a model reads about them."""

    def __init__(self, settings: Settings) -> None:
        self._endpoints = AllowedEndpoints(settings.job_endpoints, settings.job_headers)
        self._timeout_s = settings.job_timeout_s
        self._calls = JobCalls(settings.outbound_allow, settings.job_timeout_s)

    async def execute_job(self, context: Context, endpoint: Endpoint, params: Params | Absent = None) -> ToolResult:
        """Start a job at an HTTP service, such as a report or an import, and return its job_id and status.

        The job goes on at the service: follow it with check_job_status. Every call may start another job.
        """
        called = self._endpoints.called(endpoint)
        job = await self._calls.post(called, params or {}, _header_value(idempotency_key(context)))
        return success(job, endpoint=called.shown)

    async def check_job_status(
        self, context: Context, endpoint: Endpoint, job_id: JobId, wait_s: WaitSeconds = 0
    ) -> ToolResult:
        """Tell how a job is that execute_job started: its status, progress (percent), result and error.

        Use it until the status says that the job is over. With wait_s it waits a little for that, instead of your
        asking again at once.
        """
        called = self._endpoints.called(endpoint)
        progress = _Progress(context)
        job, questions = await self._followed(called, job_id, wait_s, progress.tell)
        return success(job, endpoint=called.shown, finished=is_over(job), questions=questions)

    async def _followed(
        self, called: CalledEndpoint, job_id: str, wait_s: float, tell: Callable[[Job], Awaitable[None]]
    ) -> tuple[Job, int]:
        """Ask until the job is over or the time is; give the last answer, and how often was asked."""
        started = time.perf_counter()
        job = await self._calls.get(called, job_id, within_s=self._timeout_s)
        questions, pause = 1, FIRST_PAUSE_S
        await tell(job)
        while not is_over(job):
            passed = time.perf_counter() - started
            if passed + pause > min(wait_s, self._timeout_s - LEAST_TIME_S):
                break
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE_S)
            try:
                left = self._timeout_s - (time.perf_counter() - started)
                job = await self._calls.get(called, job_id, within_s=left)
            except ToolFailed as failed:
                if failed.code is not ENDPOINT_TIMEOUT:
                    raise
                # There is an answer already, only not the newest.
                break
            questions += 1
            await tell(job)
        return job, questions


class _Progress:
    """Tells the caller of a call how far the job is, whenever it has got further."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._told = -1.0

    async def tell(self, job: Job) -> None:
        progress = percentage(job)
        if progress is not None and progress > self._told:
            self._told = progress
            await self._context.report_progress(progress, total=100, message=job["status"])


def _header_value(key: str | None) -> str | None:
    """Write a key so that a header can carry it."""
    return key if key is None or key.isascii() else quote(key, safe="")
