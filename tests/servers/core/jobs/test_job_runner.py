"""execute_job and check_job_status with the job runner of the examples, over real HTTP (C-04)."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.fixtures.job_service import job_service_at
from tests.fixtures.mcp_server import held
from tests.servers.core.jobs.job_client import JobClient, job_client

TEXT = "to be or not to be"


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def service() -> AsyncIterator[str]:
    async with held(job_service_at()) as url:
        yield f"{url}/jobs"


@pytest_asyncio.fixture(loop_scope="module")
async def jobs(service: str) -> AsyncIterator[JobClient]:
    async with held(job_client(job_endpoints=service)) as client:
        yield client


async def finished(jobs: JobClient, endpoint: str, started: dict[str, Any]) -> dict[str, Any]:
    """Request the status of a job until it is over: on a busy machine that may take longer than one call waits."""
    async with asyncio.timeout(60):
        while True:
            call = {"endpoint": endpoint, "job_id": started["job_id"], "wait_s": 3}
            answer = await jobs.call("check_job_status", call)
            assert answer["status"] == "success", answer
            if answer["metadata"]["finished"]:
                return answer


@pytest.mark.requirement("C-04")
async def test_a_job_is_run_and_its_result_read(jobs: JobClient, service: str) -> None:
    endpoint = f"{service}/count"
    started = await jobs.data("execute_job", {"endpoint": endpoint, "params": {"text": TEXT}})
    assert set(started) == {"job_id", "status", "progress", "result", "error"}
    assert started["status"] == "queued"
    answer = await finished(jobs, endpoint, started)
    assert answer["data"] == {
        "job_id": started["job_id"],
        "status": "succeeded",
        "progress": 100,
        "result": {"to": 2, "be": 2, "or": 1, "not": 1},
        "error": None,
    }
    assert answer["metadata"]["endpoint"] == endpoint
    assert answer["metadata"]["finished"] is True


async def test_the_error_of_a_failed_job_is_a_success_of_the_tool(jobs: JobClient, service: str) -> None:
    endpoint = f"{service}/count"
    started = await jobs.data("execute_job", {"endpoint": endpoint, "params": {"text": " "}})
    job = (await finished(jobs, endpoint, started))["data"]
    assert (job["status"], job["error"]) == ("failed", "there are no words in the text")


async def test_a_repeated_idempotency_key_gives_the_first_job(jobs: JobClient, service: str) -> None:
    call = {"endpoint": f"{service}/count", "params": {"text": TEXT}}
    first = await jobs.data("execute_job", call, idempotency_key="run-1:call-1")
    again = await jobs.data("execute_job", call, idempotency_key="run-1:call-1")
    other = await jobs.data("execute_job", call, idempotency_key="run-1:call-2")
    assert first["job_id"] == again["job_id"] != other["job_id"]


async def test_the_error_of_a_service_is_part_of_the_message(jobs: JobClient, service: str) -> None:
    error = await jobs.error("execute_job", {"endpoint": f"{service}/sleep", "params": {"seconds": "long"}})
    assert error["code"] == "endpoint_error"
    assert "422" in error["message"]
    assert "seconds must be a number from 0 to 600" in error["message"]
    without_params = await jobs.error("execute_job", {"endpoint": f"{service}/count"})
    assert "text must be a text" in without_params["message"]
    absent = await jobs.error("check_job_status", {"endpoint": f"{service}/count", "job_id": "nobody"})
    assert absent["code"] == "not_found"
    assert f"GET {service}/count/<job_id>" in absent["message"]


async def test_a_token_is_sent_to_its_endpoint_only() -> None:
    token = "s3cr3t-of-the-runner"
    async with job_service_at(token=token) as url:
        endpoint = f"{url}/jobs/count"
        headers = {endpoint: {"Authorization": f"Bearer {token}"}}
        call = {"endpoint": endpoint, "params": {"text": TEXT}}
        async with job_client(job_endpoints=url) as without_token:
            error = await without_token.error("execute_job", call)
        assert error["code"] == "endpoint_error"
        assert "TOOLWEAVE_JOB_HEADERS" in error["suggestion"]
        async with job_client(job_endpoints=url, job_headers=headers) as with_token:
            started = await with_token.data("execute_job", call)
            assert started["status"] == "queued"
            other = await with_token.error("execute_job", {**call, "endpoint": f"{url}/jobs/sleep"})
            assert "401" in other["message"]
