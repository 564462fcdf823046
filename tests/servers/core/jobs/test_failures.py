"""The errors of the job tools when a service is gone or slow, or its response is no job (C-04)."""

import asyncio
import base64
import json
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.loop_clock import pass_time
from tests.outbound.peers import Answer, Received, always, certificates, serving, text
from tests.servers.core.jobs.job_client import at, job_client

TIMEOUT_S = 3.5
RUNNING = text(body=b'{"status": "running"}')


async def never(_request: Received, _writer: asyncio.StreamWriter) -> None:
    pass_time(TIMEOUT_S)
    await asyncio.Event().wait()


async def hangs_up(_request: Received, writer: asyncio.StreamWriter) -> None:
    writer.close()


def answer(value: Any, status: str = "200 OK") -> bytes:
    return text(status, json.dumps(value).encode(), "Content-Type: application/json")


async def test_a_service_that_is_not_there_is_named_with_the_time_and_no_job_was_started() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        closed = f"http://127.0.0.1:{taken.getsockname()[1]}/jobs"
    for endpoint in (closed, "https://nowhere.invalid/jobs"):
        async with job_client(job_endpoints=endpoint) as jobs:
            error = await jobs.error("execute_job", {"endpoint": endpoint, "params": {}})
        assert (error["type"], error["code"]) == ("unavailable", "endpoint_unreachable")
        assert f"POST {endpoint} failed after" in error["message"]
        assert " ms: " in error["message"]
        assert "no job was started" in error["suggestion"]


@pytest.mark.requirement("C-04")
@pytest.mark.parametrize(
    ("tool", "reply", "code", "message", "suggestion"),
    [
        ("execute_job", never, "endpoint_timeout", "No complete answer came within 3.5 s.", "may have started"),
        ("check_job_status", never, "endpoint_timeout", "No complete answer came", "it only reads the status"),
        ("execute_job", hangs_up, "endpoint_unreachable", "broke off", "may have started"),
        ("execute_job", always(answer({}, "403 Forbidden")), "endpoint_error", "403", "TOOLWEAVE_JOB_HEADERS"),
        ("execute_job", always(answer({}, "404 Not Found")), "endpoint_error", "404", "params or the endpoint"),
        ("execute_job", always(answer({}, "429 Too Many Requests")), "endpoint_error", "429", "again later"),
        ("execute_job", always(answer({}, "500 No")), "endpoint_error", "500", "may have started"),
        ("check_job_status", always(answer({"job_id": "1"})), "endpoint_error", "it has no status", ""),
    ],
)
async def test_a_failed_request_is_sent_once_and_the_error_says_what_to_do(
    tool: str, reply: Answer, code: str, message: str, suggestion: str
) -> None:
    arguments: dict[str, Any] = {"job_id": "1"} if tool == "check_job_status" else {"params": {}}
    async with serving(reply) as peer, job_client(job_endpoints=at(peer), job_timeout_s=TIMEOUT_S) as jobs:
        error = await jobs.error(tool, {"endpoint": at(peer), **arguments})
        assert error["code"] == code
        assert message in error["message"]
        assert at(peer) in error["message"]
        assert suggestion in error["suggestion"]
        assert len(peer.requests) == 1


@pytest.mark.parametrize("code", [301, 303, 307])
async def test_no_redirect_is_followed_not_even_to_the_same_host(code: int) -> None:
    async with serving(always(RUNNING)) as other:
        moved = text(f"{code} Moved", b"", f"Location: {at(other)}")
        async with serving(always(moved)) as peer, job_client(job_endpoints=[at(peer), at(other)]) as jobs:
            error = await jobs.error("execute_job", {"endpoint": at(peer), "params": {}})
            assert error["code"] == "endpoint_error"
            assert "Redirects are not followed" in error["suggestion"]
            assert (len(peer.requests), other.requests) == (1, [])


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[1]", "not an object"),
        (b'{"status": "queued"}', "no job_id"),
        (b'{"job_id": "../x", "status": "queued"}', "no job_id"),
        (b'{"job_id": true}', "no job_id"),
        (b'{"job_id": "1", "status": 7}', "its status"),
        (b'{"job_id": "1", "result": NaN}', "not JSON"),
        (b'{"job_id": "1", "result": "\\ud800"}', "not JSON"),
        (b'{"job_id": ' + b"[" * 100_000, "not JSON"),
        (b'{"job_id": "1", "result": ' + b"[" * 240 + b"]" * 240 + b"}", "not JSON"),
    ],
)
async def test_an_answer_that_is_no_job_is_an_error_that_says_why(body: bytes, why: str) -> None:
    async with serving(always(text(body=body))) as peer, job_client(job_endpoints=at(peer)) as jobs:
        error = await jobs.error("execute_job", {"endpoint": at(peer), "params": {}})
    assert error["code"] == "endpoint_error"
    assert "is not a job" in error["message"]
    assert why in error["message"]
    assert "may have started" in error["suggestion"]


async def test_an_answer_that_is_too_large_is_not_read_to_its_end() -> None:
    async with serving(always(text(body=b"x" * 2_000_000))) as peer, job_client(job_endpoints=at(peer)) as jobs:
        error = await jobs.error("check_job_status", {"endpoint": at(peer), "job_id": "1"})
    assert (error["type"], error["code"]) == ("content", "too_large")


async def test_params_that_are_too_large_are_refused_before_anything_is_sent() -> None:
    async with serving(always(RUNNING)) as peer, job_client(job_endpoints=at(peer)) as jobs:
        error = await jobs.error("execute_job", {"endpoint": at(peer), "params": {"text": "x" * 1_100_000}})
        assert error["code"] == "invalid_parameter"
        assert "Parameter 'params' must be" in error["message"]
        assert peer.requests == []


async def test_a_number_or_another_name_serves_as_the_id_and_a_status_may_be_missing() -> None:
    async with serving(always(answer({"id": 42}, "202 Accepted"))) as peer, job_client(job_endpoints=at(peer)) as jobs:
        job = await jobs.data("execute_job", {"endpoint": at(peer), "params": {"a": [1, None, "ü"]}})
        assert job == {"job_id": "42", "status": None, "progress": None, "result": None, "error": None}
        (request,) = peer.requests
        assert json.loads(request.body) == {"a": [1, None, "ü"]}
        assert request.header("content-type") == "application/json"


async def test_the_idempotency_key_is_a_header_even_where_headers_cannot_carry_it() -> None:
    async with serving(always(answer({"job_id": "1"}))) as peer, job_client(job_endpoints=at(peer)) as jobs:
        call = {"endpoint": at(peer), "params": {}}
        await jobs.data("execute_job", call, idempotency_key="run:call")
        await jobs.data("execute_job", call, idempotency_key="rün")
        await jobs.data("execute_job", call)
        assert [request.header("idempotency-key") for request in peer.requests] == ["run:call", "r%C3%BCn", None]


async def test_a_secret_that_a_service_repeats_is_blanked() -> None:
    token = "tok-3n-of-ours"

    async def echo(request: Received, writer: asyncio.StreamWriter) -> None:
        sent = request.header("authorization")
        writer.write(answer({"status": "done", "result": {"headers": [sent, f"only {token}"], token: 1}}))

    async with serving(echo) as peer:
        headers = {at(peer): {"Authorization": f"Bearer {token}"}}
        async with job_client(job_endpoints=at(peer), job_headers=headers) as jobs:
            answered = await jobs.call("check_job_status", {"endpoint": at(peer), "job_id": "1"})
    assert answered["data"]["result"]["headers"] == ["***", "only ***"]
    assert token not in json.dumps(answered)


async def test_an_error_of_a_service_is_shortened_and_its_secrets_are_blanked_however_json_writes_them() -> None:
    async def echo(request: Received, writer: asyncio.StreamWriter) -> None:
        sent = (request.header("authorization") or "").replace("/", "\\/")
        foreign = '"header": "Authorization: Bearer abcdef123456"'
        body = f'{{"detail": "no {sent}", "password": "and p\\u0061ss-of-ours", {foreign}, "trace": "{"x" * 5000}"}}'
        writer.write(text("500 No", body.encode()))

    secret = base64.b64encode(b"user???:pass-of-ours").decode()
    async with serving(echo) as peer:
        headers = {at(peer): {"Authorization": f"Basic {secret}"}}
        async with job_client(job_endpoints=at(peer), job_headers=headers) as jobs:
            error = await jobs.error("check_job_status", {"endpoint": at(peer), "job_id": "1"})
    assert "/" in secret
    assert '"no ***"' in error["message"]
    assert not any(secret in error["message"] for secret in ("ours", "abcdef123456"))
    assert len(error["message"]) < 500


async def test_a_service_is_reached_over_tls_if_its_certificate_is_trusted_and_not_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server_tls, client_tls = certificates(tmp_path, "127.0.0.1")
    async with serving(always(answer({"job_id": "1"})), server_tls) as peer:
        url = at(peer).replace("http:", "https:")
        async with job_client(job_endpoints=url) as jobs:
            error = await jobs.error("execute_job", {"endpoint": url})
            assert (error["code"], "certificate verify failed" in error["message"]) == ("endpoint_unreachable", True)
            monkeypatch.setattr("httpx.create_ssl_context", lambda: client_tls)
            assert (await jobs.data("execute_job", {"endpoint": url}))["job_id"] == "1"
        assert len(peer.requests) == 1
