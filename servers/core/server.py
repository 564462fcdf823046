"""Build the MCP server `core` from its tools, and provide those for jobs at HTTP services (C-01, C-02, C-04).

For execute_job and check_job_status the operator allows services: one POST without retries starts a job; GETs read its
status; redirects are not followed. Every failure message contains the endpoint and the duration.
"""

import asyncio
import json
import re
import ssl
import time
from base64 import b64decode
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import Annotated, Any, TypedDict
from urllib.parse import quote

from fastmcp import Context, FastMCP
from fastmcp.server.auth import AuthProvider
from fastmcp.tools import ToolResult
from pydantic import AfterValidator, Field, SecretStr, StringConstraints

from toolweave.config.outbound_allow import JobEndpoint, path_segments
from toolweave.config.settings import Settings
from toolweave.errors import OutboundFailed, OutboundRefused
from toolweave.outbound import OutboundLimits, OutboundPolicy, OutboundRequest, OutboundResponse, open_outbound_client
from toolweave.outbound_policy import OutboundTarget, parse_target
from toolweave.redact import KnownSecrets, redact_text, sort_longest_first
from toolweave.servers import tool_server
from toolweave.servers.core.files.tools import FileTools
from toolweave.servers.core.query.tools import open_query_tools
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

ENDPOINTS_SETTING = "TOOLWEAVE_JOB_ENDPOINTS"
# The job ids that services may return: no character has a meaning in a URL path.
JOB_ID_PATTERN = r"[A-Za-z0-9_~.:=@+,-]{1,200}"
MAX_WAIT_S = 3.0
POLL_INTERVAL_S = 0.25
# The last status request needs at least this time.
MIN_POLL_TIME_S = 0.2
# Of a job's params as JSON.
MAX_SENT_BYTES = 1_000_000
# Below the limit of a tool result, so that the job's data always fits into one.
MAX_READ_BYTES = 500_000
MAX_STATUS_LENGTH = 100
# A shorter secret could be part of any word, which would then be hidden.
MIN_SECRET_LENGTH = 4
_MAX_LISTED_ENDPOINTS = 5
_MAX_URL_LENGTH = 200
_MAX_PROBLEM_LENGTH = 400
_FINAL_STATUS = re.compile(
    r"(?i)succe(?:ss|ssful|eded)|complete[d]?|done|finished|fail(?:ed|ure)|error(?:ed)?|cancel+ed|aborted"
)
_MAY_HAVE_STARTED = (
    "The job may have started: check at the service before you run it again, because a second call could run it twice."
)
_RETRY_ADVICE = "Call check_job_status again in a moment; it only reads the status."
_NOT_STARTED = "Check the endpoint and that its service runs, then call again: no job was started."
_AUTH_ADVICE = "The service requires credentials: ask the operator to set them in TOOLWEAVE_JOB_HEADERS."
_NO_REDIRECTS = "Redirects are not followed: use the service's final URL, if the operator allows it."
_FIX_REQUEST = "Correct the params or the endpoint as the service's message requires."
_ADVICE_BY_STATUS = {401: _AUTH_ADVICE, 403: _AUTH_ADVICE, 429: "The service limits its requests: call again later."}


def _no_dot_segment(text: str) -> str:
    if text in (".", ".."):
        raise ValueError("must be the id that execute_job returned")
    return text


Endpoint = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=2000),
    Field(
        description="URL of the job service, to which the job is posted. The operator allows certain URLs only.",
        examples=["https://jobs.example.org/v1/reports"],
    ),
]
Params = Annotated[
    dict[str, Any],
    Field(
        description="The job's parameters, as the service defines them; sent as a JSON object.",
        examples=[{"report": "sales", "month": "2026-10"}],
    ),
]
JobId = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=200, pattern=f"^{JOB_ID_PATTERN}$"),
    AfterValidator(_no_dot_segment),
    Field(description="The job's id, as execute_job returned it.", examples=["job-42"]),
]
WaitSeconds = Annotated[
    float,
    Field(
        ge=0,
        le=MAX_WAIT_S,
        allow_inf_nan=False,
        description="How many seconds to wait for the job to finish, with progress reports; 0 returns at once.",
        examples=[2],
    ),
]


class StartedJob(TypedDict):
    """A job as the tools return it. Values that the service omits are None; `progress` is usually a percentage."""

    job_id: str
    status: str | None
    progress: Any
    result: Any
    error: Any


class JobTools:
    """The tools as methods. Models read their docstrings and annotations."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._timeout_s = settings.job_timeout_s

    async def execute_job(
        self, context: Context, endpoint: Endpoint, params: Params | tool_server.Absent = None
    ) -> ToolResult:
        """Start a job at an HTTP service, such as a report or an import, and return its job_id and status.

        The job continues at the service: follow it with check_job_status. Every call may start another job.
        """
        allowed = resolve_endpoint(endpoint, self._settings)
        try:
            content = json.dumps(params or {}, allow_nan=False, ensure_ascii=False).encode()
        except (ValueError, RecursionError):
            raise ToolFailed(INVALID_PARAMETER, "Parameter 'params' must be plain JSON, with finite numbers.") from None
        if len(content) > MAX_SENT_BYTES:
            raise ToolFailed(INVALID_PARAMETER, f"Parameter 'params' must be at most {MAX_SENT_BYTES} bytes as JSON.")
        headers = [("Content-Type", "application/json")]
        if key := tool_server.idempotency_key(context):
            headers.append(("Idempotency-Key", key if key.isascii() else quote(key, safe="")))
        request = OutboundRequest("POST", allowed.target.url, tuple(headers), content)
        job = await self._request_job(allowed, request, self._timeout_s)
        return tool_server.success(job, endpoint=allowed.display_url)

    async def check_job_status(
        self, context: Context, endpoint: Endpoint, job_id: JobId, wait_s: WaitSeconds = 0
    ) -> ToolResult:
        """Return the status, progress (percent), result and error of a job that execute_job started.

        Call it until the status shows that the job has finished. With wait_s it waits up to that long for the job to
        finish, so that you need fewer calls.
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
                return tool_server.success(job, endpoint=allowed.display_url, finished=finished, questions=polls)
            await asyncio.sleep(POLL_INTERVAL_S)

    async def _request_job(
        self, endpoint: "AllowedEndpoint", request: OutboundRequest, timeout_s: float, job_id: str | None = None
    ) -> StartedJob:
        """Send a request and parse the job in its response; without `job_id` the request starts a job.

        Raises:
            ToolFailed: the service is unreachable or did not return a job. The suggestion says whether a job may have
                started.
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
            raise failed(code, str(error), if_sent if error.was_sent else _NOT_STARTED) from None
        if response.is_redirect or response.status >= 400:
            problem = f"status {response.status} {_error_text(response.body, secrets)}"
            if response.status in (404, 410) and job_id is not None:
                raise failed(NOT_FOUND, problem, "Check the job_id and the endpoint; the service may have deleted it.")
            other = _NO_REDIRECTS if response.status < 400 else _FIX_REQUEST if response.status < 500 else if_sent
            raise failed(ENDPOINT_ERROR, problem, _ADVICE_BY_STATUS.get(response.status, other))
        try:
            return _parse_job(response.body, job_id, secrets)
        except ValueError as error:
            raise failed(ENDPOINT_ERROR, f"the answer is not a job: {error}.", if_sent) from None

    async def _send(self, request: OutboundRequest, endpoint: "AllowedEndpoint", timeout_s: float) -> OutboundResponse:
        caps = OutboundLimits(
            connect_timeout_s=timeout_s, total_timeout_s=timeout_s, max_response_bytes=MAX_READ_BYTES, max_redirects=0
        )
        policy = OutboundPolicy(allow=tuple(self._settings.outbound_allow), only=(endpoint.target.peer,), limits=caps)
        # For http: a context that trusts no certificate, because loading the trusted ones takes time.
        trust = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if endpoint.target.scheme == "http" else None
        async with open_outbound_client(policy, trust=trust) as client:
            return await client.send(request)


@dataclass(frozen=True, slots=True)
class AllowedEndpoint:
    """An endpoint that a call may use, with the headers that the operator has set for it."""

    target: OutboundTarget
    headers: tuple[tuple[str, SecretStr], ...]

    @property
    def display_url(self) -> str:
        """Return the URL for messages: shortened, and without anything that looks like a secret."""
        return redact_text(self.target.url)[:_MAX_URL_LENGTH]


def resolve_endpoint(endpoint: str, settings: Settings) -> AllowedEndpoint:
    """Return the allowed endpoint for the URL in a call.

    Raises:
        ToolFailed: no endpoint is configured, the URL is not allowed, or it is not the plain URL of an endpoint.
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
        urls = ", ".join(entry.url for entry in allowed[:_MAX_LISTED_ENDPOINTS])
        more = " and others" if len(allowed) > _MAX_LISTED_ENDPOINTS else ""
        raise ToolFailed(
            FORBIDDEN_ENDPOINT,
            f"The endpoint is not among those that may be called. Allowed: {urls}{more}, and paths below them.",
        )
    # The longest prefix comes last, so that its headers replace others of the same name.
    matching = [entry for entry in settings.job_headers if covers(entry.endpoint)]
    matching.sort(key=lambda entry: len(entry.endpoint.segments))
    headers = {name.lower(): (name, value) for entry in matching for name, value in entry.headers}
    return AllowedEndpoint(target, tuple(headers.values()))


def _parse_endpoint(endpoint: str) -> tuple[OutboundTarget, tuple[str, ...]]:
    try:
        if "?" in endpoint or "#" in endpoint:
            raise ValueError("Put the job's parameters into params.")
        # From the text, because the parsed target has its dot segments resolved already.
        path = endpoint.partition("://")[2].partition("/")[2]
        return parse_target(endpoint), path_segments(f"/{path}")
    except (OutboundRefused, ValueError) as refused:
        raise ToolFailed(
            INVALID_PARAMETER,
            "Parameter 'endpoint' must be an http:// or https:// URL without credentials, query, fragment, empty or "
            f"dot segments. {refused}",
        ) from None


def _parse_job(body: bytes, job_id: str | None, secrets: KnownSecrets) -> StartedJob:
    """Parse the response to a POST, `{job_id | id, status?}`, or to a GET, `{status, progress?, result?, error?}`.

    Raises:
        ValueError: the response is not a job; the message contains the reason.
    """
    try:
        answer = secrets.hide_in_json(tool_server.parse_json(body))
    except ValueError:
        raise ValueError("its body is not JSON that can be read") from None
    if not isinstance(answer, dict):
        raise ValueError("its JSON is not an object")  # noqa: TRY004 - the caller catches ValueError
    status, own_id = answer.get("status"), job_id
    if own_id is None:
        own_id = answer.get("job_id", answer.get("id"))
        own_id = str(own_id) if isinstance(own_id, int) and not isinstance(own_id, bool) else own_id
        if not isinstance(own_id, str) or not re.fullmatch(JOB_ID_PATTERN, own_id) or own_id in (".", ".."):
            raise ValueError("it has no job_id (nor id) of a valid form")
    if status is not None and (not isinstance(status, str) or not 0 < len(status) <= MAX_STATUS_LENGTH):
        raise ValueError(f"its status is not a text of 1 to {MAX_STATUS_LENGTH} characters")
    if status is None and job_id is not None:
        raise ValueError("it has no status")
    progress, result, error = (answer.get(name) for name in ("progress", "result", "error"))
    return StartedJob(job_id=own_id, status=status, progress=progress, result=result, error=error)


def _header_secrets(headers: Iterable[tuple[str, str]]) -> KnownSecrets:
    """Return the secrets in headers: whole values, the part after a scheme such as Bearer, and decoded Basic pairs."""
    found = []
    for _, value in headers:
        scheme, _, rest = value.rpartition(" ")
        found += [value, rest]
        with suppress(ValueError):  # not base64
            pair = b64decode(f"{rest}==").decode() if scheme.strip().lower() == "basic" else ""
            found += [pair, pair.partition(":")[2]]
    return KnownSecrets(sort_longest_first(found, MIN_SECRET_LENGTH))


def _error_text(body: bytes, secrets: KnownSecrets) -> str:
    """Return the text of an error response, without the secrets in the request's headers."""
    try:
        # Parsed first, because JSON may contain a secret with escape sequences.
        return json.dumps(secrets.hide_in_json(json.loads(body)), ensure_ascii=False)
    except (ValueError, RecursionError):
        return secrets.hide(body.decode(errors="replace"))


_INSTRUCTIONS = (
    "Tools for common work: query the tables of a database, run jobs and check their status, read and search files. "
    "The operator limits what each tool may access; an error says what to do instead."
)


@asynccontextmanager
async def open_core_server(settings: Settings, *, auth: AuthProvider | None = None) -> AsyncIterator[FastMCP[None]]:
    """Open the tools' resources and build the server; the context closes the resources.

    `auth` authenticates callers over HTTP. The server connects to the database with the first call that needs it.

    Raises:
        ConfigError: a setting that a tool needs is invalid.
    """
    # The largest readable file has to fit, written as JSON.
    max_bytes = max(tool_server.MAX_BYTES, settings.file_max_bytes * 5 // 4)
    server = tool_server.tool_server("core", _INSTRUCTIONS, max_bytes=max_bytes, auth=auth)
    jobs, files = JobTools(settings), FileTools(settings)
    async with open_query_tools(settings) as queries:
        server.add_tool(tool_server.declare_tool(queries.query_database, "Query a database", tool_server.READ_ONLY))
        server.add_tool(tool_server.declare_tool(jobs.execute_job, "Run a job", tool_server.WRITE_EXTERNAL))
        server.add_tool(tool_server.declare_tool(jobs.check_job_status, "Check a job", tool_server.READ_EXTERNAL))
        server.add_tool(tool_server.declare_tool(files.read_file, "Read a file", tool_server.READ_ONLY))
        server.add_tool(tool_server.declare_tool(files.search_files, "Search files", tool_server.READ_ONLY))
        yield server
