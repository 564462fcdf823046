"""Which endpoints may be called: those of the setting and what is below them, however a URL is written (C-04, W-09)."""

import posixpath
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.outbound.peers import always, serving, text
from tests.servers.core.jobs.job_client import at, job_client
from toolweave.config.settings import Settings
from toolweave.servers.core.server import resolve_endpoint
from toolweave.servers.error_codes import ToolFailed

ALLOWED = Settings(job_endpoints="https://jobs.example.org/v1, http://10.0.0.5:8090/, http://[fd00::1]/runs/")


def code_of(endpoint: str) -> str:
    try:
        resolve_endpoint(endpoint, ALLOWED)
    except ToolFailed as failed:
        return failed.code.code
    return "allowed"


@pytest.mark.parametrize(
    ("endpoint", "expected"),
    [
        ("https://jobs.example.org/v1", "allowed"),
        ("https://jobs.example.org/v1/reports/daily", "allowed"),
        ("HTTPS://Jobs.Example.ORG.:443/v1/reports", "allowed"),
        ("https://jobs.example.org/%76%31/reports", "allowed"),
        ("http://10.0.0.5:8090/anything", "allowed"),
        ("http://[FD00:0::1]:80/runs", "allowed"),
        ("http://jobs.example.org/v1", "forbidden_endpoint"),
        ("https://jobs.example.org:8443/v1", "forbidden_endpoint"),
        ("https://jobs.example.org/v10", "forbidden_endpoint"),
        ("https://jobs.example.org.evil.example/v1", "forbidden_endpoint"),
        ("https://evil.example/https://jobs.example.org/v1", "invalid_parameter"),
        ("http://10.0.0.5/", "forbidden_endpoint"),
        ("https://jobs.example.org/v1/../admin", "invalid_parameter"),
        ("https://jobs.example.org/v1/%252e%252e/admin", "invalid_parameter"),
        ("https://jobs.example.org/v1/..%2fadmin", "invalid_parameter"),
        ("https://jobs.example.org/v1/..;/admin", "invalid_parameter"),
        ("https://jobs.example.org/v1//admin", "invalid_parameter"),
        ("https://jobs.example.org/v1/%0d%0aX", "invalid_parameter"),
        ("https://jobs.example.org/v1/%zz", "invalid_parameter"),
        ("https://jobs.example.org/v1\\..\\admin", "invalid_parameter"),
        ("https://jobs.example.org/v1?token=abc", "invalid_parameter"),
        ("https://jobs.example.org/v1#part", "invalid_parameter"),
        ("https://user:password@jobs.example.org/v1", "invalid_parameter"),
        ("https://jobs.example.org /v1", "invalid_parameter"),
        ("//jobs.example.org/v1", "invalid_parameter"),
        ("file:///etc/passwd", "invalid_parameter"),
        ("http://0x0a000005:8090/", "invalid_parameter"),
        ("jobs.example.org/v1", "invalid_parameter"),
    ],
)
def test_an_endpoint_is_allowed_forbidden_or_has_two_readings(endpoint: str, expected: str) -> None:
    assert code_of(endpoint) == expected


@pytest.mark.requirement("C-04")
@given(
    st.lists(
        st.sampled_from(
            ["/", "v1", "..", ".", "%2e", "%2F", "%5c", "%25", ";", "a", "V1", "%76", "\\", "?", "#", "@", ":443", "é"]
        ),
        max_size=8,
    )
)
def test_no_spelling_of_a_path_leads_out_of_the_allowed_one(pieces: list[str]) -> None:
    endpoint = "https://jobs.example.org" + "".join(pieces)
    if code_of(endpoint) != "allowed":
        return
    sent = urlsplit(resolve_endpoint(endpoint, ALLOWED).target.url)
    read_by_a_careless_server = posixpath.normpath(unquote(unquote(sent.path)).replace("\\", "/"))
    assert sent.netloc == "jobs.example.org"
    assert read_by_a_careless_server.split("/")[:2] == ["", "v1"]


async def test_a_forbidden_endpoint_gets_no_request_and_the_error_names_the_allowed_ones() -> None:
    async with serving(always(text(body=b"{}"))) as peer, job_client(job_endpoints=at(peer, "/jobs")) as jobs:
        error = await jobs.error("execute_job", {"endpoint": at(peer, "/admin"), "params": {}})
        assert error["code"] == "forbidden_endpoint"
        assert at(peer, "/jobs") in error["message"]
        assert peer.requests == []


async def test_an_allowed_endpoint_at_a_private_address_needs_the_outbound_setting_too() -> None:
    async with serving(always(text(body=b"{}"))) as peer, job_client(job_endpoints=at(peer), outbound_allow="") as jobs:
        error = await jobs.error("execute_job", {"endpoint": at(peer), "params": {}})
        assert error["code"] == "forbidden_endpoint"
        assert "TOOLWEAVE_OUTBOUND_ALLOW" in error["message"]
        assert peer.requests == []


@pytest.mark.parametrize("job_id", ["", "a/b", "..", "a%2Fb", "a\nb", "ü", "a" * 201])
async def test_a_job_id_that_no_service_gave_is_refused_by_name(job_id: str) -> None:
    async with serving(always(text(body=b"{}"))) as peer, job_client(job_endpoints=at(peer)) as jobs:
        error = await jobs.error("check_job_status", {"endpoint": at(peer), "job_id": job_id})
        assert error["code"] == "invalid_parameter"
        assert "Parameter 'job_id' must " in error["message"]
        assert peer.requests == []


async def test_the_id_is_one_segment_below_the_endpoint() -> None:
    async with serving(always(text(body=b'{"status": "running"}'))) as peer:
        async with job_client(job_endpoints=at(peer)) as jobs:
            for endpoint in (at(peer, "/jobs"), at(peer, "/jobs/")):
                await jobs.data("check_job_status", {"endpoint": endpoint, "job_id": "a:b=+@,~1"})
        assert [request.line for request in peer.requests] == ["GET /jobs/a%3Ab%3D%2B%40%2C~1 HTTP/1.1"] * 2
