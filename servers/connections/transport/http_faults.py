"""Give the caller of an MCP request its answer when HTTP fails (mcp.md 3.1: the SDK lets it wait for its deadline).

The SDK posts each request in a background task. There a dead server, an error status or a body that is no answer
either vanishes in a debug log or tears down the session with every other call on it. This client answers such a
request in the server's place, with a JSON-RPC error for exactly that request, and reports the fault, upon which the
owner's ping decides whether the session still lives. It is a client and not a transport on purpose: proxies from the
environment and authentication flows, which live in `httpx.AsyncClient`, keep working and see the real statuses.
"""

import asyncio
import json
import ssl
from collections.abc import Callable, Coroutine
from functools import cache
from typing import Any, Protocol

import anyio
import httpx
from mcp.shared._httpx_utils import next_request_within_origin

from toolweave.servers.connections.transport.event_stream import EventStream
from toolweave.servers.connections.transport.faults import (
    ABANDONED,
    NOT_MCP,
    TRANSPORT_FAULT,
    error_message,
    executed_after,
    in_short,
)
from toolweave.servers.connections.transport.http_answers import (
    ENCODINGS,
    content_type,
    emptied,
    problem_in,
    problem_of,
    read_body,
    with_body,
)

CANCELLED = "notifications/cancelled"
CLOSING_LIMIT_S = 1.0
NOTICE_LIMIT_S = 2.0
STREAM_PAUSE_S = 0.25
"""How long a stream is not opened again at least: a server may ask the SDK to do so without a pause."""

LIMITS = httpx.Limits(max_connections=1_000, max_keepalive_connections=100, keepalive_expiry=3.0)
"""Room for all calls at once; idle connections go before servers (mostly after 5 s) close them under a call."""


class Listener(Protocol):
    """Who is told what becomes of the requests of a session."""

    def fault(self, reason: str) -> None:
        """Something failed; a ping should tell whether the session lives."""

    def reject(self, request_id: int | str, error: dict[str, Any]) -> None:
        """A request will not be answered; the JSON-RPC error message stands for the answer."""

    def elicited(self, question_id: int | str, request_id: int | str) -> None:
        """A question of the server's came with the answer to this request."""

    def stream_opened(self) -> None:
        """The stream of the server's own messages was opened; what it would have said before is lost."""

    def stream_refused(self) -> None:
        """That stream could not be opened."""

    def stream_ended(self, reason: str) -> None:
        """That stream has ended."""

    def beside(self, work: Coroutine[Any, Any, object]) -> object:
        """Do this meanwhile, as long as the session lives."""


@cache
def _trust() -> ssl.SSLContext:
    """Read the trusted certificates once: for each caller's session that would block the event loop for 30 ms."""
    return httpx.create_ssl_context()


class FaultReportingClient(httpx.AsyncClient):
    """An HTTP client for MCP transports that turns faults into JSON-RPC errors.

    Args:
        listener: is told about faults.
        answers_in_posts: a request's answer comes with its POST (streamable HTTP), not over another stream (SSE).
        **options: as for `httpx.AsyncClient`.
    """

    def __init__(self, listener: Listener, *, answers_in_posts: bool, **options: Any) -> None:
        super().__init__(limits=LIMITS, verify=_trust(), **options)
        self.headers["accept-encoding"] = ", ".join(ENCODINGS)
        self._listener = listener
        self._answers_in_posts = answers_in_posts
        self._waiting: dict[int | str, Callable[[], object]] = {}
        self._next_stream_at = 0.0

    async def send(self, request: httpx.Request, **options: Any) -> httpx.Response:
        """Send one request; a POST always comes back with something the SDK can pass on."""
        if request.method == "POST":
            return await self._post(request, **options)
        if request.method == "GET":
            return await self._open_stream(request, **options)
        # A frozen server must not hold up the closing of a session, and through it our shutdown.
        request.extensions["timeout"] = httpx.Timeout(CLOSING_LIMIT_S).as_dict()
        return await super().send(request, **options)

    async def _open_stream(self, request: httpx.Request, **options: Any) -> httpx.Response:
        now = asyncio.get_running_loop().time()
        early_s = max(0.0, self._next_stream_at - now)
        self._next_stream_at = now + early_s + STREAM_PAUSE_S
        await asyncio.sleep(early_s)
        try:
            response = await super().send(request, **options)
        except httpx.RequestError as error:
            self._listener.fault(in_short(error))
            self._listener.stream_refused()
            raise
        if next_request_within_origin(response) is not None:
            return await emptied(response)
        if not response.is_success:
            if response.status_code != httpx.codes.METHOD_NOT_ALLOWED:
                self._listener.stream_refused()
            return response
        self._listener.stream_opened()
        return with_body(response, EventStream(response, self._listener.stream_ended))

    async def _post(self, request: httpx.Request, **options: Any) -> httpx.Response:
        message = json.loads(request.content)
        request_id = message.get("id") if "method" in message else None
        if message.get("method") == CANCELLED:
            # One after the other, as the SDK sends what has no answer, many would take too long.
            self._listener.beside(self._cancel(request, message, **options))
            return httpx.Response(httpx.codes.ACCEPTED, request=request)
        if request_id is None:
            return await self._notify(request, **options)
        with anyio.CancelScope() as scope:
            let_go = self._waiting[request_id] = scope.cancel
            try:
                response = await super().send(request, **options)
                return await self._checked(request_id, response)
            except httpx.RequestError as error:
                return self._failed(
                    request, request_id, TRANSPORT_FAULT, in_short(error), executed=executed_after(error)
                )
            finally:
                if self._waiting[request_id] == let_go:
                    del self._waiting[request_id]
        return self._failed(request, request_id, TRANSPORT_FAULT, ABANDONED, is_news=False)

    async def _cancel(self, request: httpx.Request, message: dict[str, Any], **options: Any) -> None:
        """Tell the server that nobody waits for a request, and wait no more."""
        following: httpx.Request | None = request
        try:
            for _ in range(1 + self.max_redirects):
                following = following and next_request_within_origin(await self._notify(following, **options))
        finally:
            # A server that hangs would hold the connection of the cancelled request for minutes.
            self._waiting.get(message["params"]["requestId"], bool)()

    async def _notify(self, request: httpx.Request, **options: Any) -> httpx.Response:
        """Send what has no answer; whatever comes back, the SDK is told that it is through."""
        # The SDK sends nothing else before this one is through.
        request.extensions["timeout"] = httpx.Timeout(NOTICE_LIMIT_S).as_dict()
        try:
            response = await super().send(request, **options)
            if next_request_within_origin(response) is not None:
                return await emptied(response)
            await emptied(response)
            if problem := problem_of(response, expects_answer=False):
                self._listener.fault(problem[1])
        except httpx.RequestError as error:
            self._listener.fault(in_short(error))
        return httpx.Response(httpx.codes.ACCEPTED, request=request)

    async def _checked(self, request_id: int | str, response: httpx.Response) -> httpx.Response:
        if next_request_within_origin(response) is not None:
            return await emptied(response)
        problem = problem_of(response, expects_answer=self._answers_in_posts)
        if problem is None and not self._answers_in_posts:
            return await emptied(response)
        if problem is None and content_type(response).startswith("text/event-stream"):
            return with_body(response, self._answering_stream(request_id, response))
        if problem is None:
            body = await read_body(response)
            problem = await problem_in(body, request_id)
            if problem is None and body is not None:
                await response.aclose()
                return with_body(response, body)
        await response.aclose()
        # A server that refuses a request has not begun with it; what a 5xx has done nobody knows.
        executed = "no" if 300 <= response.status_code < 500 else "maybe"
        code, text = problem or (NOT_MCP, "")
        return self._failed(
            response.request, request_id, code, text, http_status=response.status_code, executed=executed
        )

    def _answering_stream(self, request_id: int | str, response: httpx.Response) -> EventStream:
        def forget() -> None:
            self._waiting.pop(request_id, None)

        stream = EventStream(response, self._listener.fault, request_id, self._listener.elicited, forget)
        self._waiting[request_id] = stream.abandon
        return stream

    def _failed(
        self, request: httpx.Request, request_id: int | str, code: int, text: str, *, is_news: bool = True, **data: Any
    ) -> httpx.Response:
        """Answer a request in the server's place: in its POST, or past the event stream that brings answers."""
        if is_news:
            self._listener.fault(text)
        error = error_message(request_id, code, text, **data)
        if self._answers_in_posts:
            return httpx.Response(httpx.codes.OK, json=error, request=request)
        self._listener.reject(request_id, error)
        return httpx.Response(httpx.codes.ACCEPTED, request=request)
