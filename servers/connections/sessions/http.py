"""Return a JSON-RPC error to the caller of an MCP request when HTTP fails (mcp.md 3.1: the SDK waits for the timeout).

The SDK posts each request in a background task. There a dead server, an error status or an invalid body either ends in
a debug log or ends the session with all its calls. This client returns a JSON-RPC error for exactly the failed request
and reports the fault; the owner then sends a ping to check the session. It is an httpx client and not an httpx
transport, so that proxies from the environment and authentication flows of `httpx.AsyncClient` see the real statuses.
"""

import asyncio
import contextlib
import json
import re
import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import anyio
import httpx
from loguru import logger
from mcp.shared._httpx_utils import next_request_within_origin
from mcp.types import JSONRPCError, JSONRPCMessage, JSONRPCResponse
from pydantic_core import from_json

from toolweave.config.mcp import McpServerConfig
from toolweave.json_values import has_more_values, pause_gc
from toolweave.servers.connections.oauth.exchange import status_line
from toolweave.servers.connections.sessions import faults
from toolweave.servers.connections.sessions.elicitations import Elicitations
from toolweave.servers.connections.sessions.monitor import SessionMonitor

STREAM_ENDED_TEXT = "the event stream ended without an answer"
ELICITATION_METHOD = b"elicitation/create"
EVENT_END = re.compile(rb"(?:\r\n|\n|\r(?!\n)){2}")
"""A blank line, for each of the three line ends."""
OnElicitation = Callable[[int | str, int | str], None]
"""Called with the id of a server's question and the id of the request on whose stream it arrived."""
ResponseProblem = tuple[int, str]
"""A JSON-RPC error code of `faults` and the text for the log."""
ACCEPTED_ENCODINGS = ("gzip", "deflate")
"""The encodings of httpx with which one read (64 KiB) always decompresses to a size that fits into memory."""
MAX_CHECKED_BYTES = 1024 * 1024
"""Larger responses are not parsed twice: their errors appear as timeouts."""
MAX_DISCARDED_BYTES = 64 * 1024
BODY_HEADERS = frozenset({"content-encoding", "content-length", "transfer-encoding"})
CANCELLED_METHOD = "notifications/cancelled"
MAX_STREAM_ATTEMPTS = 2
"""After this number of failures in a row the SDK stops opening the stream of the server's own messages."""
CLOSE_TIMEOUT_S = 1.0
NOTIFICATION_TIMEOUT_S = 2.0
STREAM_INTERVAL_S = 0.25
"""The minimum time between two openings of the stream: a server can make the SDK reopen it without a pause."""
CONNECTION_LIMITS = httpx.Limits(max_connections=1_000, max_keepalive_connections=100, keepalive_expiry=3.0)
"""Enough for all calls at once; idle connections are closed before servers close them (mostly after 5 s)."""


def error_event(request_id: int | str, code: int, message: str) -> bytes:
    """Return a JSON-RPC error as a server-sent event."""
    return f"event: message\ndata: {json.dumps(faults.jsonrpc_error(request_id, code, message))}\n\n".encode()


def do_nothing(*_: int | str) -> None:
    """Ignore the call."""


@dataclass(eq=False)
class McpEventStream(httpx.AsyncByteStream):
    """An event stream that reports its end and ends with an error event for the request that waits for it.

    Args:
        response: the server's response.
        on_end: called with the reason for the end.
        request_id: the request whose response the stream carries; None for the stream of all other messages.
        on_elicitation: called for each question on the stream.
        on_close: called when the SDK closes the stream.
    """

    response: httpx.Response
    on_end: Callable[[str], None]
    request_id: int | str | None = None
    on_elicitation: OnElicitation = do_nothing
    on_close: Callable[[], None] = do_nothing
    _abandoned: bool = field(default=False, init=False)
    _scope: anyio.CancelScope = field(default_factory=anyio.CancelScope, init=False)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        resumable = False
        code, fault = faults.TRANSPORT_FAULT, STREAM_ENDED_TEXT
        try:
            async for event in self._events():
                if isinstance(event, bytes):
                    # The SDK itself resumes a stream that has event ids.
                    resumable = resumable or event.startswith(b"id:") or b"\nid:" in event
                    self._report_elicitation(event)
                    yield event
                elif self.request_id is not None:
                    code, fault = faults.OVERSIZE, faults.TOO_LARGE
                    break
                elif event.request_id is not None:
                    yield error_event(event.request_id, faults.OVERSIZE, faults.TOO_LARGE)
        except httpx.RequestError as error:
            fault = faults.describe_http_error(error)
        if self._abandoned:
            fault = faults.ABANDONED
        else:
            self.on_end(fault)
        if self.request_id is not None and (self._abandoned or code == faults.OVERSIZE or not resumable):
            yield b"\n\n" + error_event(self.request_id, code, fault)

    async def aclose(self) -> None:
        """Close the connection."""
        self.on_close()
        await self.response.aclose()

    def abandon(self) -> None:
        """End the stream, because its caller no longer waits."""
        self._abandoned = True
        self._scope.cancel()

    async def _events(self) -> AsyncIterator[bytes | faults.Oversize]:
        """Yield the events of the stream; stop at an oversize event if the stream belongs to one request."""
        splitter = faults.MessageSplitter(EVENT_END, max_end_bytes=4)
        chunks = self.response.aiter_bytes()
        while (chunk := await self._next_chunk(chunks)) is not None:
            for event in splitter.feed(chunk):
                yield await faults.limit_values(event)
            if splitter.is_dropping and self.request_id is not None:
                break
        yield await faults.limit_values(splitter.flush())

    async def _next_chunk(self, chunks: AsyncIterator[bytes]) -> bytes | None:
        if self._abandoned:
            return None
        with anyio.CancelScope() as self._scope:
            return await anext(chunks, None)
        return None

    def _report_elicitation(self, event: bytes) -> None:
        """Report each question in the event with the id of the stream's request."""
        if self.request_id is None or ELICITATION_METHOD not in event:
            return
        for line in event.splitlines():
            if line.startswith(b"data:"):
                with contextlib.suppress(ValueError, TypeError, KeyError):
                    message = json.loads(line[5:])
                    if message["method"] == ELICITATION_METHOD.decode():
                        self.on_elicitation(message["id"], self.request_id)


def check_head(response: httpx.Response, *, expects_answer: bool) -> ResponseProblem | None:
    """Return the problem with the status and headers of a response, None if they are valid."""
    line = status_line(response)
    if not response.is_success:
        return faults.TRANSPORT_FAULT, line
    if not expects_answer:
        return None
    if response.status_code == httpx.codes.ACCEPTED:
        return faults.NOT_MCP, f"{line} instead of a response"
    if response.headers.get("content-encoding", "identity").lower() not in {"identity", *ACCEPTED_ENCODINGS}:
        return faults.NOT_MCP, f"{line} in an encoding that was not requested"
    if not content_type(response).startswith(("application/json", "text/event-stream")):
        return faults.NOT_MCP, f"{line} with content type {content_type(response) or 'none'}"
    return None


async def check_body(body: bytes | None, request_id: int | str) -> ResponseProblem | None:
    """Return the problem with a JSON body, None if it is the response to that request; `body` None means too large."""
    if body is None or await has_more_values(body, faults.MAX_MESSAGE_VALUES):
        return faults.OVERSIZE, faults.TOO_LARGE
    if len(body) > MAX_CHECKED_BYTES:
        return None
    try:
        with pause_gc():
            value = from_json(body)
        message = JSONRPCMessage.model_validate(value).root
    except ValueError:
        return faults.NOT_MCP, "the body is not a JSON-RPC message"
    if isinstance(message, JSONRPCResponse | JSONRPCError) and str(message.id) == str(request_id):
        return None
    return faults.NOT_MCP, "the body is not the response to the request"


def content_type(response: httpx.Response) -> str:
    """Return the content type in lower case, "" if it is missing."""
    return str(response.headers.get("content-type", "")).lower()


async def read_body(response: httpx.Response, max_bytes: int = faults.MAX_MESSAGE_BYTES) -> bytes | None:
    """Return the decoded body, None if it has more than `max_bytes` bytes."""
    parts, size = [], 0
    async for part in response.aiter_bytes():
        size += len(part)
        if size > max_bytes:
            return None
        parts.append(part)
    return b"".join(parts)


async def discard_body(response: httpx.Response) -> httpx.Response:
    """Return `response` without its body; the connection is reused if the body is short."""
    await read_body(response, MAX_DISCARDED_BYTES)
    await response.aclose()
    return replace_body(response, b"")


def replace_body(response: httpx.Response, body: bytes | McpEventStream) -> httpx.Response:
    """Return `response` with another body, which is not encoded."""
    headers = [(name, value) for name, value in response.headers.multi_items() if name not in BODY_HEADERS]
    new_body = {"content": body} if isinstance(body, bytes) else {"stream": body}
    changed = httpx.Response(response.status_code, headers=headers, request=response.request, **new_body)
    changed.next_request = response.next_request
    return changed


@cache
def _ssl_context() -> ssl.SSLContext:
    """Load the trusted certificates once: loading them for each caller's session blocks the event loop for 30 ms."""
    return httpx.create_ssl_context()


class FaultReportingClient(httpx.AsyncClient):
    """An HTTP client for MCP transports that converts faults to JSON-RPC errors and reports them to the session.

    Args:
        config: the server; streamable HTTP returns a response with its POST, SSE on another stream.
        monitor: the session.
        handler: records on which request's stream each question arrives.
        **options: as for `httpx.AsyncClient`.
    """

    def __init__(self, config: McpServerConfig, monitor: SessionMonitor, handler: Elicitations, **options: Any) -> None:
        super().__init__(limits=CONNECTION_LIMITS, verify=_ssl_context(), **options)
        self.headers["accept-encoding"] = ", ".join(ACCEPTED_ENCODINGS)
        self._monitor = monitor
        self._elicitations = handler
        self._answers_in_posts = config.transport == "http"
        self._cancel_callbacks: dict[int | str, Callable[[], object]] = {}
        self._next_stream_at = 0.0
        self._stream_was_opened = False
        self._refused_streams = 0

    async def send(self, request: httpx.Request, **options: Any) -> httpx.Response:
        """Send one request; a POST always returns a response that the SDK can process."""
        if request.method == "POST":
            return await self._post(request, **options)
        if request.method == "GET":
            return await self._open_stream(request, **options)
        # A frozen server must not delay the closing of a session, and with it the shutdown of Toolweave.
        request.extensions["timeout"] = httpx.Timeout(CLOSE_TIMEOUT_S).as_dict()
        # The SDK cancels the DELETE when a late response finds the session closed; the server would keep the session.
        with anyio.CancelScope(shield=True):
            response = await super().send(request, **options)
            await read_body(response, MAX_DISCARDED_BYTES)
            await response.aclose()
        return replace_body(response, b"")

    async def _open_stream(self, request: httpx.Request, **options: Any) -> httpx.Response:
        now = asyncio.get_running_loop().time()
        delay_s = max(0.0, self._next_stream_at - now)
        self._next_stream_at = now + delay_s + STREAM_INTERVAL_S
        await asyncio.sleep(delay_s)
        try:
            response = await super().send(request, **options)
        except httpx.RequestError as error:
            self._report_fault(faults.describe_http_error(error))
            self._on_stream_refused()
            raise
        if next_request_within_origin(response) is not None:
            return await discard_body(response)
        if not response.is_success:
            if response.status_code != httpx.codes.METHOD_NOT_ALLOWED:
                self._on_stream_refused()
            return response
        self._on_stream_opened()
        return replace_body(response, McpEventStream(response, self._on_stream_ended))

    async def _post(self, request: httpx.Request, **options: Any) -> httpx.Response:
        message = json.loads(request.content)
        request_id = message.get("id") if "method" in message else None
        if message.get("method") == CANCELLED_METHOD:
            # The SDK sends notifications one after the other, which takes too long for many cancellations.
            self._monitor.start_task(self._send_cancellation(request, message, **options))
            return httpx.Response(httpx.codes.ACCEPTED, request=request)
        if request_id is None:
            return await self._notify(request, **options)
        with anyio.CancelScope() as scope:
            cancel = self._cancel_callbacks[request_id] = scope.cancel
            try:
                response = await super().send(request, **options)
                return await self._check_response(request_id, response)
            except httpx.RequestError as error:
                return self._fault_response(
                    request,
                    request_id,
                    faults.TRANSPORT_FAULT,
                    faults.describe_http_error(error),
                    executed=faults.execution_status(error),
                )
            finally:
                if self._cancel_callbacks[request_id] == cancel:
                    del self._cancel_callbacks[request_id]
        return self._fault_response(request, request_id, faults.TRANSPORT_FAULT, faults.ABANDONED, reported=False)

    async def _send_cancellation(self, request: httpx.Request, message: dict[str, Any], **options: Any) -> None:
        """Send the cancellation of a request to the server, and stop waiting for the request."""
        next_request: httpx.Request | None = request
        try:
            for _ in range(1 + self.max_redirects):
                next_request = next_request and next_request_within_origin(await self._notify(next_request, **options))
        finally:
            # Otherwise a hanging server keeps the connection of the cancelled request open for minutes.
            self._cancel_callbacks.get(message["params"]["requestId"], bool)()

    async def _notify(self, request: httpx.Request, **options: Any) -> httpx.Response:
        """Send a notification and return 202, whatever the server responds."""
        # The SDK sends nothing else until this notification is sent.
        request.extensions["timeout"] = httpx.Timeout(NOTIFICATION_TIMEOUT_S).as_dict()
        try:
            response = await super().send(request, **options)
            if next_request_within_origin(response) is not None:
                return await discard_body(response)
            await discard_body(response)
            if problem := check_head(response, expects_answer=False):
                self._report_fault(problem[1])
        except httpx.RequestError as error:
            self._report_fault(faults.describe_http_error(error))
        return httpx.Response(httpx.codes.ACCEPTED, request=request)

    async def _check_response(self, request_id: int | str, response: httpx.Response) -> httpx.Response:
        if next_request_within_origin(response) is not None:
            return await discard_body(response)
        problem = check_head(response, expects_answer=self._answers_in_posts)
        if problem is None and not self._answers_in_posts:
            return await discard_body(response)
        if problem is None and content_type(response).startswith("text/event-stream"):
            return replace_body(response, self._response_stream(request_id, response))
        if problem is None:
            body = await read_body(response)
            problem = await check_body(body, request_id)
            if problem is None and body is not None:
                await response.aclose()
                return replace_body(response, body)
        await response.aclose()
        # A server that rejects a request has not executed it; after a 5xx this is unknown.
        executed = "no" if 300 <= response.status_code < 500 else "maybe"
        code, text = problem or (faults.NOT_MCP, "")
        return self._fault_response(
            response.request, request_id, code, text, http_status=response.status_code, executed=executed
        )

    def _response_stream(self, request_id: int | str, response: httpx.Response) -> McpEventStream:
        def on_close() -> None:
            self._cancel_callbacks.pop(request_id, None)

        stream = McpEventStream(response, self._report_fault, request_id, self._elicitations.record_request, on_close)
        self._cancel_callbacks[request_id] = stream.abandon
        return stream

    def _fault_response(
        self, request: httpx.Request, request_id: int | str, code: int, text: str, *, reported: bool = True, **data: Any
    ) -> httpx.Response:
        """Return an error in place of the server: in the response to the POST, or for SSE directly to the SDK."""
        if reported:
            self._report_fault(text)
        error = faults.jsonrpc_error(request_id, code, text, **data)
        if self._answers_in_posts:
            return httpx.Response(httpx.codes.OK, json=error, request=request)
        if self._monitor.requests is None:
            self._monitor.mark_lost(text)
        else:
            self._monitor.requests.inject_response(request_id, JSONRPCError.model_validate(error))
        return httpx.Response(httpx.codes.ACCEPTED, request=request)

    def _report_fault(self, reason: str) -> None:
        """Log a fault and request a ping that checks the session."""
        logger.bind(server=self._monitor.server).debug("MCP server {}: {}", self._monitor.server, reason)
        self._monitor.request_ping()

    def _on_stream_opened(self) -> None:
        """Request the tool list: the server may have announced a change while there was no stream."""
        self._refused_streams = 0
        self._stream_was_opened = True
        self._monitor.must_poll_tools = False
        self._monitor.request_tool_list()

    def _on_stream_refused(self) -> None:
        """Count the failure; when the SDK stops opening the stream, the owner lists the tools at intervals instead."""
        self._refused_streams += 1
        self._monitor.must_poll_tools = self._stream_was_opened and self._refused_streams >= MAX_STREAM_ATTEMPTS

    def _on_stream_ended(self, reason: str) -> None:
        """End an SSE session, whose responses arrive on this stream; the SDK reopens a stream of streamable HTTP."""
        if self._answers_in_posts:
            self._report_fault(reason)
        else:
            self._monitor.mark_lost(reason)
