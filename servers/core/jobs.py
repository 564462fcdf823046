"""The tools execute_job and check_job_status: run jobs at HTTP services that the operator allows (C-04).

A POST, which is sent once, starts a job; GETs read its status; no redirect is followed. Messages of failures always
name the endpoint and the duration.
"""

import asyncio
import json
import re
import ssl
import time
from base64 import b64decode
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Annotated, Any, TypedDict
from urllib.parse import quote

from fastmcp import Context
from fastmcp.tools import ToolResult
from pydantic import AfterValidator, Field, SecretStr, StringConstraints

from toolweave.config.outbound_allow import JobEndpoint, path_segments
from toolweave.config.settings import Settings
from toolweave.errors import OutboundFailed, OutboundRefused
from toolweave.outbound import OutboundLimits, OutboundPolicy, OutboundRequest, OutboundResponse, open_outbound_client
from toolweave.outbound_policy import OutboundTarget, read_target
from toolweave.redact import KnownSecrets, longest_first, redact_text
from toolweave.servers.envelope import parse_json, success
from toolweave.servers.error_codes import (
    ENDPOINT_ERROR,
    ENDPOINT_TIMEOUT,
    ENDPOINT_UNREACHABLE,
    FORBIDDEN_ENDPOINT,
    INVALID_PARAMETER,
    NOT_CONFIGURED,
    NOT_FOUND,
    TOO_LARGE,
    ErrorCode,
    ToolFailed,
)
from toolweave.servers.tool_server import Absent, idempotency_key

ENDPOINTS_SETTING = "TOOLWEAVE_JOB_ENDPOINTS"
# The ids that services may give to jobs: no character in it means anything in a path.
JOB_ID_PATTERN = r"[A-Za-z0-9_~.:=@+,-]{1,200}"
MAX_WAIT_S = 3.0
POLL_INTERVAL_S = 0.25
# A last question needs this long to be worth asking.
MIN_POLL_TIME_S = 0.2
MAX_SENT_BYTES = 1_000_000
# Less than an answer of ours may have, so that no job is lost in one that is too large.
MAX_READ_BYTES = 500_000
MAX_STATUS_LENGTH = 100
# A shorter secret could be a part of any word.
MIN_SECRET_LENGTH = 4
_MAX_LISTED_ENDPOINTS = 5
_MAX_URL_LENGTH = 200
_MAX_PROBLEM_LENGTH = 400
_FINAL_STATUS = re.compile(
    r"(?i)succe(?:ss|ssful|eded)|complete[d]?|done|finished|fail(?:ed|ure)|error(?:ed)?|cancel+ed|aborted"
)
_MAY_HAVE_STARTED = (
    "The job may have begun: find out at the service before you run it again, since a second call could run it twice."
)
_RETRY_ADVICE = "Call check_job_status again in a moment; asking changes nothing."
_NOT_STARTED = "Check the endpoint and that its service runs, then call again: nothing has begun."
_AUTH_ADVICE = "The service wants credentials: ask the operator, who sets TOOLWEAVE_JOB_HEADERS."
_NO_REDIRECTS = "Redirects are not followed: use the URL that the service itself answers at, if the operator allows it."
_FIX_REQUEST = "Correct the params, or the endpoint, as the service says."
_ADVICE_BY_STATUS = {401: _AUTH_ADVICE, 403: _AUTH_ADVICE, 429: "The service asks to wait: call again later."}


def _no_dot_segment(text: str) -> str:
    if text in (".", ".."):
        raise ValueError("must be the id that execute_job gave")
    return text


Endpoint = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=2000),
    Field(
        description="URL of the job service: where jobs are posted to. Only those that the operator allows.",
        examples=["https://jobs.example.org/v1/reports"],
    ),
]
Params = Annotated[
    dict[str, Any],
    Field(
        description="What the job needs to know, as the service asks for it: sent as a JSON object.",
        examples=[{"report": "sales", "month": "2026-10"}],
    ),
]
JobId = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=200, pattern=f"^{JOB_ID_PATTERN}$"),
    AfterValidator(_no_dot_segment),
    Field(description="The job's id, as execute_job gave it.", examples=["job-42"]),
]
WaitSeconds = Annotated[
    float,
    Field(
        ge=0,
        le=MAX_WAIT_S,
        allow_inf_nan=False,
        description="How many seconds to wait for the job's end; 0 answers at once. Progress is reported meanwhile.",
        examples=[2],
    ),
]


class StartedJob(TypedDict):
    """A job as the tools answer it; what the service leaves out is None, `progress` is a percentage by custom."""

    job_id: str
    status: str | None
    progress: Any
    result: Any
    error: Any


class JobTools:
    """The tools as methods; their docstrings and annotations are what a model reads about them."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._timeout_s = settings.job_timeout_s

    async def execute_job(self, context: Context, endpoint: Endpoint, params: Params | Absent = None) -> ToolResult:
        """Start a job at an HTTP service, such as a report or an import, and return its job_id and status.

        The job goes on at the service: follow it with check_job_status. Every call may start another job.
        """
        allowed = resolve_endpoint(endpoint, self._settings)
        try:
            content = json.dumps(params or {}, allow_nan=False, ensure_ascii=False).encode()
        except (ValueError, RecursionError):
            raise ToolFailed(INVALID_PARAMETER, "Parameter 'params' must be plain JSON, with finite numbers.") from None
        if len(content) > MAX_SENT_BYTES:
            raise ToolFailed(INVALID_PARAMETER, f"Parameter 'params' must be at most {MAX_SENT_BYTES} bytes as JSON.")
        headers = [("Content-Type", "application/json")]
        if key := idempotency_key(context):
            headers.append(("Idempotency-Key", key if key.isascii() else quote(key, safe="")))
        request = OutboundRequest("POST", allowed.target.url, tuple(headers), content)
        job = await self._request_job(allowed, request, self._timeout_s)
        return success(job, endpoint=allowed.display_url)

    async def check_job_status(
        self, context: Context, endpoint: Endpoint, job_id: JobId, wait_s: WaitSeconds = 0
    ) -> ToolResult:
        """Tell how a job is that execute_job started: its status, progress (percent), result and error.

        Use it until the status says that the job is over. With wait_s it waits a little for that, instead of your
        asking again at once.
        """
        allowed = resolve_endpoint(endpoint, self._settings)
        request = OutboundRequest("GET", f"{allowed.target.url.rstrip('/')}/{quote(job_id, safe='')}")
        started, polls, reported = time.perf_counter(), 0, -1.0
        while True:
            remaining_s = round(self._timeout_s - (time.perf_counter() - started), 2)
            job, polls = await self._request_job(allowed, request, remaining_s, job_id), polls + 1
            progress = job["progress"]
            if isinstance(progress, int | float) and not isinstance(progress, bool) and reported < progress <= 100:
                reported = float(progress)
                await context.report_progress(reported, total=100, message=job["status"])
            finished = _FINAL_STATUS.fullmatch(job["status"] or "") is not None
            elapsed_s = time.perf_counter() - started
            if finished or elapsed_s + POLL_INTERVAL_S > min(wait_s, self._timeout_s - MIN_POLL_TIME_S):
                return success(job, endpoint=allowed.display_url, finished=finished, questions=polls)
            await asyncio.sleep(POLL_INTERVAL_S)

    async def _request_job(
        self, endpoint: "AllowedEndpoint", request: OutboundRequest, timeout_s: float, job_id: str | None = None
    ) -> StartedJob:
        """Send a request and read the job in its answer; None as the `job_id` starts one.

        Raises:
            ToolFailed: the service cannot be reached or answered with no job; says whether a job may have begun.
        """
        own_headers = [(name, value.get_secret_value()) for name, value in endpoint.headers]
        secrets = _header_secrets(own_headers)
        started = time.perf_counter()
        label = f"{request.method} {endpoint.display_url}" + ("" if job_id is None else "/<job_id>")
        if_sent = _MAY_HAVE_STARTED if job_id is None else _RETRY_ADVICE

        def failed(code: ErrorCode, problem: str, advice: str) -> ToolFailed:
            elapsed_ms = (time.perf_counter() - started) * 1000
            text = " ".join(redact_text(secrets.hide(problem)).split())[:_MAX_PROBLEM_LENGTH]
            return ToolFailed(code, f"{label} failed after {elapsed_ms:.0f} ms: {text}", advice)

        try:
            with_headers = replace(request, headers=(("Accept", "application/json"), *request.headers, *own_headers))
            response = await self._send(with_headers, endpoint, timeout_s)
        except OutboundRefused as error:
            raise failed(FORBIDDEN_ENDPOINT, str(error), "Use another, or ask the operator to allow it.") from None
        except OutboundFailed as error:
            code = {"timeout": ENDPOINT_TIMEOUT, "too_large": TOO_LARGE}.get(error.reason, ENDPOINT_UNREACHABLE)
            raise failed(code, str(error), if_sent if error.sent else _NOT_STARTED) from None
        if response.redirects or response.status >= 400:
            problem = f"status {response.status} {_error_text(response.body, secrets)}"
            if response.status in (404, 410) and job_id is not None:
                raise failed(NOT_FOUND, problem, "Check the job_id and the endpoint; finished jobs may be forgotten.")
            other = _NO_REDIRECTS if response.status < 400 else _FIX_REQUEST if response.status < 500 else if_sent
            raise failed(ENDPOINT_ERROR, problem, _ADVICE_BY_STATUS.get(response.status, other))
        try:
            return _parse_job(response.body, job_id, secrets)
        except ValueError as error:
            raise failed(ENDPOINT_ERROR, f"the answer is no job: {error}.", if_sent) from None

    async def _send(self, request: OutboundRequest, endpoint: "AllowedEndpoint", timeout_s: float) -> OutboundResponse:
        caps = OutboundLimits(
            connect_seconds=timeout_s, total_seconds=timeout_s, response_bytes=MAX_READ_BYTES, redirects=0
        )
        policy = OutboundPolicy(allow=tuple(self._settings.outbound_allow), only=(endpoint.target.place,), limits=caps)
        # No certificate satisfies this one, and making it takes no time.
        trust = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if endpoint.target.scheme == "http" else None
        async with open_outbound_client(policy, trust=trust) as client:
            return await client.send(request)


@dataclass(frozen=True, slots=True)
class AllowedEndpoint:
    """An allowed endpoint as a call uses it, with the headers that go along."""

    target: OutboundTarget
    headers: tuple[tuple[str, SecretStr], ...]

    @property
    def display_url(self) -> str:
        """Return the URL for messages: short, without what has the form of a secret."""
        return redact_text(self.target.url)[:_MAX_URL_LENGTH]


def resolve_endpoint(endpoint: str, settings: Settings) -> AllowedEndpoint:
    """Read the endpoint of a call.

    Raises:
        ToolFailed: nothing is allowed, this is not, or it is not the plain URL of an endpoint.
    """
    allowed = settings.job_endpoints
    if not allowed:
        raise ToolFailed(
            NOT_CONFIGURED,
            f"No job endpoint may be called: {ENDPOINTS_SETTING} is not set.",
            f"Ask the operator to set {ENDPOINTS_SETTING} to the URLs of the services that may be called.",
        )
    target, segments = _parse_endpoint(endpoint)

    def covers(entry: JobEndpoint) -> bool:
        return entry.covers(target.scheme, target.host, target.port, target.address, segments)

    if not any(map(covers, allowed)):
        shown = ", ".join(entry.url for entry in allowed[:_MAX_LISTED_ENDPOINTS])
        more = " and others" if len(allowed) > _MAX_LISTED_ENDPOINTS else ""
        raise ToolFailed(
            FORBIDDEN_ENDPOINT,
            f"The endpoint is not among those that may be called. Allowed: {shown}{more}, and what is below.",
        )
    # The longest prefix last: it wins over headers of the same name.
    matching = [entry for entry in settings.job_headers if covers(entry.endpoint)]
    matching.sort(key=lambda entry: len(entry.endpoint.segments))
    headers = {name.lower(): (name, value) for entry in matching for name, value in entry.headers}
    return AllowedEndpoint(target, tuple(headers.values()))


def _parse_endpoint(endpoint: str) -> tuple[OutboundTarget, tuple[str, ...]]:
    try:
        if "?" in endpoint or "#" in endpoint:
            raise ValueError("What the job needs goes into params.")
        # From the text, not from the target: there, dot segments have been carried out already.
        path = endpoint.partition("://")[2].partition("/")[2]
        return read_target(endpoint), path_segments(f"/{path}")
    except (OutboundRefused, ValueError) as refused:
        raise ToolFailed(
            INVALID_PARAMETER,
            "Parameter 'endpoint' must be an http:// or https:// URL without credentials, query, fragment, empty or "
            f"dot segments. {refused}",
        ) from None


def _parse_job(body: bytes, job_id: str | None, secrets: KnownSecrets) -> StartedJob:
    """Read the answer to a POST, `{job_id | id, status?}`, or to a GET, `{status, progress?, result?, error?}`.

    Raises:
        ValueError: it is no job; says what is wrong with it.
    """
    try:
        answer = secrets.hide_in(parse_json(body))
    except ValueError:
        raise ValueError("its body is not JSON that can be read") from None
    if not isinstance(answer, dict):
        raise ValueError("its JSON is not an object")  # noqa: TRY004 - the one that the caller catches
    status, own_id = answer.get("status"), job_id
    if own_id is None:
        own_id = answer.get("job_id", answer.get("id"))
        own_id = str(own_id) if isinstance(own_id, int) and not isinstance(own_id, bool) else own_id
        if not isinstance(own_id, str) or not re.fullmatch(JOB_ID_PATTERN, own_id) or own_id in (".", ".."):
            raise ValueError("it has no job_id (nor id) that can be asked about")
    if status is not None and (not isinstance(status, str) or not 0 < len(status) <= MAX_STATUS_LENGTH):
        raise ValueError(f"its status is not a text of 1 to {MAX_STATUS_LENGTH} characters")
    if status is None and job_id is not None:
        raise ValueError("it has no status")
    progress, result, error = (answer.get(name) for name in ("progress", "result", "error"))
    return StartedJob(job_id=own_id, status=status, progress=progress, result=result, error=error)


def _header_secrets(headers: Iterable[tuple[str, str]]) -> KnownSecrets:
    """Find what would reveal a secret: a value, what stands behind a word such as Bearer, a name with its password."""
    found = []
    for _, value in headers:
        scheme, _, rest = value.rpartition(" ")
        found += [value, rest]
        with suppress(ValueError):  # it is no base64
            pair = b64decode(f"{rest}==").decode() if scheme.strip().lower() == "basic" else ""
            found += [pair, pair.partition(":")[2]]
    return KnownSecrets(longest_first(found, MIN_SECRET_LENGTH))


def _error_text(body: bytes, secrets: KnownSecrets) -> str:
    """Return the text of an error's body, without what was sent in headers."""
    try:
        # Read first: JSON may write a secret with escapes in it.
        return json.dumps(secrets.hide_in(json.loads(body)), ensure_ascii=False)
    except (ValueError, RecursionError):
        return secrets.hide(body.decode(errors="replace"))
