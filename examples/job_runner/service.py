"""Serve the jobs over HTTP: `python -m uvicorn examples.job_runner.service:app`."""

import hmac
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import Body, Depends, FastAPI, Header, HTTPException, Request, Response

from examples.job_runner.kinds import KINDS, WrongParams
from examples.job_runner.runner import Job, QueueFull, Runner

LONGEST_KEY = 1_000


def job_service(*, token: str | None = None, workers: int = 2, most_queued: int = 100) -> FastAPI:
    """Make the service; with a token, only who sends it as a bearer token may use it."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.runner = Runner(most_queued=most_queued)
        async with app.state.runner.running(workers):
            yield

    def authorised(authorization: Annotated[str, Header()] = "") -> None:
        if token is not None and not hmac.compare_digest(authorization.encode(), f"Bearer {token}".encode()):
            raise HTTPException(401, "A bearer token is needed.", {"WWW-Authenticate": "Bearer"})

    app = FastAPI(title="Job runner", lifespan=lifespan, dependencies=[Depends(authorised)])
    app.post("/jobs/{kind}", status_code=202)(submit)
    app.get("/jobs/{kind}/{job_id}")(status)
    app.post("/jobs/{kind}/{job_id}/cancel")(cancel)
    return app


async def submit(
    kind: str,
    params: Annotated[dict[str, Any], Body()],
    request: Request,
    response: Response,
    idempotency_key: Annotated[str | None, Header(max_length=LONGEST_KEY)] = None,
) -> dict[str, Any]:
    """Queue a job."""
    if kind not in KINDS:
        raise HTTPException(404, f"There is no such kind of job; there are {', '.join(KINDS)}.")
    try:
        KINDS[kind][1](params)
        job, new = _runner(request).submit(kind, params, idempotency_key)
    except WrongParams as error:
        raise HTTPException(422, str(error)) from None
    except QueueFull:
        raise HTTPException(429, "The queue is full.", {"Retry-After": "5"}) from None
    if not new:
        response.status_code = 200
    return _shown(job)


async def status(kind: str, job_id: str, request: Request) -> dict[str, Any]:
    """Tell how a job is."""
    return _shown(_known(request, kind, job_id))


async def cancel(kind: str, job_id: str, request: Request) -> dict[str, Any]:
    """Stop a job unless it is over."""
    job = _known(request, kind, job_id)
    _runner(request).cancel(job)
    return _shown(job)


def _runner(request: Request) -> Runner:
    runner: Runner = request.app.state.runner
    return runner


def _known(request: Request, kind: str, job_id: str) -> Job:
    job = _runner(request).job(kind, job_id)
    if job is None:
        raise HTTPException(404, "There is no such job.")
    return job


def _shown(job: Job) -> dict[str, Any]:
    return {name: getattr(job, name) for name in ("job_id", "status", "progress", "result", "error")}


app = job_service(token=os.environ.get("JOB_RUNNER_TOKEN"))  # noqa: TID251 - a program of its own
