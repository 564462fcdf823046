"""The example's job runner: what its README promises."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest_asyncio

from tests.fixtures.job_service import job_service_at
from tests.fixtures.mcp_server import held

BOUND_S = 60.0


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def runner() -> AsyncIterator[httpx.AsyncClient]:
    async with (
        held(job_service_at(workers=1, most_queued=1)) as url,
        httpx.AsyncClient(base_url=url, timeout=60) as client,
    ):
        yield client


async def until(client: httpx.AsyncClient, path: str, *statuses: str) -> dict[str, Any]:
    async with asyncio.timeout(BOUND_S):
        while True:
            job: dict[str, Any] = (await client.get(path)).json()
            if job["status"] in statuses:
                return job


async def test_a_long_job_shows_progress_is_cancelled_and_makes_room(runner: httpx.AsyncClient) -> None:
    long = {"seconds": 600, "steps": 1}
    first = (await runner.post("/jobs/sleep", json=long)).json()
    await until(runner, f"/jobs/sleep/{first['job_id']}", "running")
    second = (await runner.post("/jobs/sleep", json=long)).json()
    full = await runner.post("/jobs/sleep", json=long)
    assert (full.status_code, full.headers["retry-after"]) == (429, "5")
    for job in (second, first):
        assert (await runner.post(f"/jobs/sleep/{job['job_id']}/cancel")).status_code == 200
        await until(runner, f"/jobs/sleep/{job['job_id']}", "cancelled")
    third = (await runner.post("/jobs/sleep", json={"seconds": 0})).json()
    done = await until(runner, f"/jobs/sleep/{third['job_id']}", "succeeded")
    assert done["progress"] == 100


async def test_unknown_kinds_and_jobs_are_not_found(runner: httpx.AsyncClient) -> None:
    assert (await runner.post("/jobs/fly", json={})).status_code == 404
    assert (await runner.get("/jobs/count/nobody")).status_code == 404
    assert (await runner.post("/jobs/count/nobody/cancel")).status_code == 404


async def test_a_job_is_only_found_under_its_kind(runner: httpx.AsyncClient) -> None:
    job = (await runner.post("/jobs/count", json={"text": "a"})).json()
    await until(runner, f"/jobs/count/{job['job_id']}", "succeeded")
    assert (await runner.get(f"/jobs/sleep/{job['job_id']}")).status_code == 404


async def test_what_is_still_running_is_dropped_when_the_service_ends() -> None:
    async with job_service_at() as url, httpx.AsyncClient(base_url=url, timeout=60) as client:
        job = (await client.post("/jobs/sleep", json={"seconds": 600, "steps": 1})).json()
        await until(client, f"/jobs/sleep/{job['job_id']}", "running")
