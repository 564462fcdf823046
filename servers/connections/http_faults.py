"""Give the caller of an MCP request its answer when HTTP fails (mcp.md 3.1: the SDK lets it wait for its deadline).

The SDK posts each request in a background task. There a dead server or an error status either vanishes in a debug
log or tears down the session with every other call on it. This client answers such a request in the server's place,
with a JSON-RPC error for exactly that request, and reports the fault, upon which the owner's ping decides whether the
session still lives. It is a client and not a transport on purpose: proxies from the environment and authentication
flows, which live in `httpx.AsyncClient`, keep working and see the real statuses.
"""

import contextlib
import json
from collections.abc import AsyncIterator, Callable
from http import HTTPStatus
from typing import Any

import httpx

TRANSPORT_FAULT = -32080
NOT_MCP = -32081
ELICITATION = b"elicitation/create"
CLOSING_LIMIT_S = 1.0

OnElicitation = Callable[[int | str, int | str], None]


class FaultReportingClient(httpx.AsyncClient):
    """An HTTP client for MCP transports that turns faults into JSON-RPC errors.

    Args:
        report: called with one line about every fault.
        on_elicitation: called with the ids of a question of the server and of the request on whose stream it came.
        answers_in_posts: a request's answer comes with its POST (streamable HTTP), not over another stream (SSE).
        **options: as for `httpx.AsyncClient`.
    """

    def __init__(
        self, report: Callable[[str], None], on_elicitation: OnElicitation, *, answers_in_posts: bool, **options: Any
    ) -> None:
        super().__init__(**options)
        self._report = report
        self._on_elicitation = on_elicitation
        self._answers_in_posts = answers_in_posts

    async def send(self, request: httpx.Request, **options: Any) -> httpx.Response:
        """Send one request; a POST always comes back with something the SDK can pass on."""
        if request.method == "DELETE":
            # A frozen server must not hold up the closing of a session, and through it our shutdown.
            request.extensions["timeout"] = httpx.Timeout(CLOSING_LIMIT_S).as_dict()
            return await super().send(request, **options)
        try:
            response = await super().send(request, **options)
        except httpx.TransportError as error:
            self._report(in_short(error))
            if request.method != "POST":
                raise
            return _answer_for(request, TRANSPORT_FAULT, in_short(error), executed=_after(error))
        if request.method == "POST":
            return await self._checked(request, response)
        if response.is_success:
            response.stream = _WatchedStream(response.stream, self._report)
        return response

    async def _checked(self, request: httpx.Request, response: httpx.Response) -> httpx.Response:
        request_id = _request_id(request)
        content_type = response.headers.get("content-type", "").lower()
        problem: tuple[int, str] | None = None
        if response.is_error:
            problem = TRANSPORT_FAULT, status_line(response.status_code)
        elif self._answers_in_posts and request_id is not None and response.is_success:
            if not content_type.startswith(("application/json", "text/event-stream")):
                problem = NOT_MCP, f"{status_line(response.status_code)} with content type {content_type or 'none'}"
            elif content_type.startswith("text/event-stream") and "content-encoding" not in response.headers:
                response.stream = _WatchedStream(response.stream, self._report, request_id, self._on_elicitation)
        if problem is None:
            return response
        await response.aclose()
        self._report(problem[1])
        # A server that refuses a request by a 4xx has not begun with it; what a 5xx has done nobody knows.
        executed = "no" if response.is_client_error else "maybe"
        return _answer_for(request, *problem, http_status=response.status_code, executed=executed)


class _WatchedStream(httpx.AsyncByteStream):
    """An event stream that says when it ends, and ends with an error event for the request that waits on it."""

    def __init__(
        self,
        stream: Any,
        report: Callable[[str], None],
        request_id: int | str | None = None,
        on_elicitation: OnElicitation | None = None,
    ) -> None:
        self._stream = stream
        self._report = report
        self._request_id = request_id
        self._on_elicitation = on_elicitation

    async def __aiter__(self) -> AsyncIterator[bytes]:
        resumable = False
        fault = "the event stream ended without an answer"
        try:
            async for chunk in self._stream:
                # A stream with event ids is one the SDK itself takes up again.
                resumable = resumable or chunk.startswith(b"id:") or b"\nid:" in chunk
                if ELICITATION in chunk:
                    self._note_elicitations(chunk)
                yield chunk
        except httpx.TransportError as error:
            fault = in_short(error)
        self._report(fault)
        if self._request_id is not None and not resumable:
            body = json.dumps(_error(self._request_id, TRANSPORT_FAULT, fault))
            yield f"\n\nevent: message\ndata: {body}\n\n".encode()

    def _note_elicitations(self, chunk: bytes) -> None:
        """Tell whose stream a question came on; one whose event came in pieces is left to be guessed."""
        if self._on_elicitation is None or self._request_id is None:
            return
        for line in chunk.splitlines():
            if line.startswith(b"data:") and ELICITATION in line:
                with contextlib.suppress(ValueError, TypeError, KeyError):
                    message = json.loads(line[5:])
                    if message["method"] == ELICITATION.decode():
                        self._on_elicitation(message["id"], self._request_id)

    async def aclose(self) -> None:
        await self._stream.aclose()


def in_short(error: httpx.HTTPError) -> str:
    """Describe a transport error without the URL, which may hold credentials."""
    return f"{type(error).__name__}: {error}".rstrip(": ")


def status_line(status: int) -> str:
    """Write a status as `HTTP 503 Service Unavailable`."""
    known = {entry.value: entry.phrase for entry in HTTPStatus}
    return f"HTTP {status} {known.get(status, '')}".rstrip()


def _after(error: httpx.TransportError) -> str:
    never_sent = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
    return "no" if never_sent else "maybe"


def _request_id(request: httpx.Request) -> int | str | None:
    message = json.loads(request.content)
    return message.get("id") if "method" in message else None


def _error(request_id: int | str, code: int, message: str, **data: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": message, "data": data}}


def _answer_for(request: httpx.Request, code: int, message: str, **data: Any) -> httpx.Response:
    request_id = _request_id(request)
    if request_id is None:
        return httpx.Response(202, request=request)
    return httpx.Response(200, json=_error(request_id, code, message, **data), request=request)
