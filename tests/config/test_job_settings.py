"""The settings of jobs: which endpoints, with which headers, for how long (C-04)."""

import json

import pytest

from toolweave.config.settings import load_settings
from toolweave.errors import ConfigError

ENDPOINTS = "TOOLWEAVE_JOB_ENDPOINTS"
HEADERS = "TOOLWEAVE_JOB_HEADERS"


def test_endpoints_are_urls_separated_by_commas() -> None:
    given = " https://Jobs.Example.org/v1/ , http://10.0.0.5:8090,, http://[fd00::1]/a%20b"
    assert [entry.url for entry in load_settings({ENDPOINTS: given}).job_endpoints] == [
        "https://jobs.example.org/v1",
        "http://10.0.0.5:8090",
        "http://[fd00::1]/a%20b",
    ]
    assert load_settings({}).job_endpoints == ()


@pytest.mark.parametrize(
    "entry",
    [
        "jobs.example.org",
        "ftp://jobs.example.org",
        "https://user:s3cr3t@jobs.example.org/",
        "https://jobs.example.org/?key=s3cr3t",
        "https://jobs.example.org/%2e%2e/b",
        "https://jobs.example.org//b",
        "https://jobs.example.org:0/",
        "https://*.example.org/",
        "https://jobs.exämple.org/",
    ],
)
def test_an_entry_that_is_no_plain_url_is_a_named_error_that_repeats_nothing(entry: str) -> None:
    with pytest.raises(ConfigError, match=ENDPOINTS) as caught:
        load_settings({ENDPOINTS: f"https://fine.example, {entry}"})
    assert "each entry must be" in str(caught.value)
    assert "s3cr3t" not in str(caught.value)


def test_headers_of_an_endpoint_are_secrets() -> None:
    settings = load_settings({HEADERS: json.dumps({"https://a.example/v1": {"X-Api-Key": "s3cr3t"}})})
    ((name, value),) = settings.job_headers[0].headers
    assert (name, value.get_secret_value()) == ("X-Api-Key", "s3cr3t")
    assert "s3cr3t" not in f"{settings!r} {settings.job_headers!r} {settings.model_dump_json()}"


@pytest.mark.parametrize(
    "given",
    [
        "s3cr3t",
        '{"X-Api-Key": "s3cr3t"}',
        '{"https://a.example/?k=s3cr3t": {"A": "b"}}',
        '{"https://a.example/": {"X Key": "s3cr3t"}}',
        '{"https://a.example/": {"A": "s3cr3t\\n"}}',
        '{"https://a.example/": {"A": "s3cr3tß"}}',
        '{"https://a.example/": {"Host": "s3cr3t"}}',
        '{"https://a.example/": {"Idempotency-Key": "s3cr3t"}}',
        '{"https://a.example/": {"A": "s3cr3t", "a": "b"}}',
    ],
)
def test_headers_that_cannot_be_sent_are_a_named_error_that_repeats_nothing(given: str) -> None:
    with pytest.raises(ConfigError, match=HEADERS) as caught:
        load_settings({HEADERS: given})
    assert "s3cr3t" not in str(caught.value)


@pytest.mark.parametrize("seconds", ["0", "-1", "4", "nan", "inf", "soon"])
def test_the_time_limit_stays_below_that_of_every_tool(seconds: str) -> None:
    with pytest.raises(ConfigError, match="TOOLWEAVE_JOB_TIMEOUT_S"):
        load_settings({"TOOLWEAVE_JOB_TIMEOUT_S": seconds})
