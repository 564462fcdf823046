"""check_job_status waits a little and reports the progress of the job (C-04)."""

import asyncio
import json
from typing import Any

import pytest

from tests.outbound.peers import Answer, Received, always, serving, text
from tests.servers.core.jobs.job_client import at, job_client


def one_after_the_other(*jobs: dict[str, Any]) -> Answer:
    """Give each of these answers once, and the last one for ever."""
    left = list(jobs)

    async def give(_request: Received, writer: asyncio.StreamWriter) -> None:
        job = left.pop(0) if len(left) > 1 else left[0]
        writer.write(text(body=json.dumps(job).encode()))

    return give


def running(progress: Any) -> dict[str, Any]:
    return {"status": "running", "progress": progress}


@pytest.mark.requirement("C-04")
async def test_progress_is_reported_as_it_grows_until_the_job_is_over() -> None:
    done = {"status": "succeeded", "progress": 100, "result": "report.pdf"}
    steps = one_after_the_other(running(10), running(5), running(60), done)
    async with serving(steps) as peer, job_client(job_endpoints=at(peer)) as jobs:
        answer = await jobs.call("check_job_status", {"endpoint": at(peer), "job_id": "1", "wait_s": 3})
        assert jobs.progress == [(10, 100, "running"), (60, 100, "running"), (100, 100, "succeeded")]
    assert answer["data"]["result"] == "report.pdf"
    assert answer["metadata"]["finished"] is True
    assert answer["metadata"]["questions"] == 4


async def test_without_waiting_it_sends_one_request_and_reports_the_progress() -> None:
    async with serving(always(text(body=b'{"status": "running", "progress": 40}'))) as peer:
        async with job_client(job_endpoints=at(peer)) as jobs:
            answer = await jobs.call("check_job_status", {"endpoint": at(peer), "job_id": "1"})
            assert jobs.progress == [(40, 100, "running")]
        assert len(peer.requests) == 1
    assert answer["metadata"]["finished"] is False


async def test_waiting_ends_with_its_time() -> None:
    async with serving(one_after_the_other(running(1))) as peer, job_client(job_endpoints=at(peer)) as jobs:
        answer = await jobs.call("check_job_status", {"endpoint": at(peer), "job_id": "1", "wait_s": 3})
        assert 2 <= len(peer.requests) <= 13
    assert answer["data"]["status"] == "running"


async def test_progress_that_is_no_percentage_is_returned_and_not_reported() -> None:
    for progress in (True, "40 %", {"done": 1, "of": 3}, -1, 101):
        async with serving(one_after_the_other(running(progress))) as peer, job_client(job_endpoints=at(peer)) as jobs:
            job = await jobs.data("check_job_status", {"endpoint": at(peer), "job_id": "1"})
            assert job["progress"] == progress
            assert jobs.progress == []
