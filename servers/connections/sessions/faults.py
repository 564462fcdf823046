"""Translate a session's exceptions into Toolweave's errors (mcp.md section 4) and describe them for operators."""

import asyncio
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import anyio
import httpx
from mcp.shared.exceptions import McpError
from mcp.types import CONNECTION_CLOSED

from toolweave.errors import ToolError
from toolweave.files import open_files_advice
from toolweave.json_values import MAX_VALUES, has_more_values
from toolweave.servers.connections import results
from toolweave.servers.connections.oauth.exchange import AuthorizationFault, status_line
from toolweave.servers.connections.redaction import describe_error

TRANSPORT_FAULT = -32080
NOT_MCP = -32081
OVERSIZE = -32082
ABANDONED = "the caller no longer waits for the response"
MAX_MESSAGE_BYTES = 32 * 1024 * 1024
# One message can list thousands of tools.
MAX_MESSAGE_VALUES = 2 * MAX_VALUES
TOO_LARGE = f"it sent a message of more than {MAX_MESSAGE_BYTES >> 20} MiB or {MAX_MESSAGE_VALUES} values"
ID_SEARCH_BYTES = 256
# A message is a whole line, or follows `data:` in an event.
_ID_FIRST = re.compile(
    rb'(?:[^{]*\bdata:)?\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,18})\s*,\s*"(?:result|error)"'
)
_ID_LAST = re.compile(rb'"id"\s*:\s*(\d{1,18})\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*\Z')
BAD_REQUEST = 400
SESSION_NOT_FOUND = 404
UNAUTHORIZED_STATUSES = (401, 403)
RETRYABLE = (None, BAD_REQUEST, SESSION_NOT_FOUND, 408, 425, 429)
"""Statuses of requests that may succeed later; older servers return 400 for an unknown session."""
CLOSED_STREAM_ERRORS = (anyio.ClosedResourceError, anyio.BrokenResourceError, anyio.EndOfStream)


def jsonrpc_error(request_id: int | str, code: int, message: str, **data: Any) -> dict[str, Any]:
    """Return a JSON-RPC error response in place of the server's response."""
    return {"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": message, "data": data}}


def describe_http_error(error: httpx.HTTPError) -> str:
    """Describe a transport error without the URL, which may contain credentials."""
    if isinstance(error, AuthorizationFault):
        return str(error)
    return f"{type(error).__name__}: {error}".rstrip(": ")


def execution_status(error: httpx.RequestError) -> str:
    """Return "no" if the server cannot have executed a request that failed with `error`, else "maybe" (D-5)."""
    never_sent = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
    return "no" if never_sent else "maybe"


def leaf_errors(error: BaseException) -> Iterator[BaseException]:
    """Yield the errors inside nested exception groups: the SDK's task groups wrap errors twice."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from leaf_errors(inner)
    else:
        yield error


def ends_session(error: BaseException) -> bool:
    """Return whether no further request can succeed on the session that raised `error`."""
    if isinstance(error, McpError):
        closed = error.error.code == CONNECTION_CLOSED and error.error.message == "Connection closed"
        return closed or _status(error) == SESSION_NOT_FOUND
    return isinstance(error, CLOSED_STREAM_ERRORS)


def is_server_error(error: BaseException) -> bool:
    """Return whether the server itself sent `error` as a JSON-RPC error."""
    faults = (TRANSPORT_FAULT, NOT_MCP, OVERSIZE)
    return isinstance(error, McpError) and not ends_session(error) and error.error.code not in faults


def is_session_rejection(error: BaseException) -> bool:
    """Return whether a reachable server refused to open a session; any JSON-RPC error at this point is a refusal."""
    return is_unauthorized(error) or any(
        is_server_error(leaf) or _status(leaf) == BAD_REQUEST for leaf in leaf_errors(error)
    )


def is_unauthorized(error: BaseException) -> bool:
    """Return whether the server rejected the credentials of a request."""
    return any(_status(leaf) in UNAUTHORIZED_STATUSES for leaf in leaf_errors(error))


def was_not_executed(error: BaseException) -> bool:
    """Return whether a request failed before the server could execute it (D-5).

    That is certain if the transport was closed, if HTTP got no connection, or if the response was a 4xx.
    """
    if isinstance(error, anyio.ClosedResourceError | anyio.BrokenResourceError):
        return True
    return _fault_data(error).get("executed") == "no"


def to_tool_error(error: BaseException, server: str, tool: str | None = None) -> ToolError:
    """Return the ToolError for `error`, without its raw text."""
    if isinstance(error, ToolError):
        return error
    if is_unauthorized(error):
        return results.credentials_rejected(server, tool)
    if was_not_executed(error):
        return results.unavailable(server, tool) if _status(error) in RETRYABLE else results.bad_request(server, tool)
    if ends_session(error) or (isinstance(error, McpError) and error.error.code == TRANSPORT_FAULT):
        return results.connection_lost(server, tool)
    if isinstance(error, McpError) and error.error.code == OVERSIZE:
        return results.response_too_large(server, tool)
    return results.bad_response(server, tool)


def describe_errors(error: BaseException) -> str:
    """Describe `error` in one line for a log, `last_error` and `doctor`."""
    errors = list(leaf_errors(error))
    # The SDK cancels its other tasks after an error, so a cancellation beside an error carries no information.
    real = [leaf for leaf in errors if not isinstance(leaf, asyncio.CancelledError)] or errors
    text = "; ".join(dict.fromkeys(map(_describe_one, real)))
    advice = open_files_advice(error)
    return f"{text}. {advice}" if advice else text


def _status(error: BaseException) -> int | None:
    if isinstance(error, httpx.HTTPStatusError):
        return error.response.status_code
    return _fault_data(error).get("http_status")


def _fault_data(error: BaseException) -> dict[str, Any]:
    """Return the data that FaultReportingClient attached to its error response."""
    data = error.error.data if isinstance(error, McpError) and error.error.code == TRANSPORT_FAULT else None
    return data if isinstance(data, dict) else {}


def _describe_one(error: BaseException) -> str:
    match error:
        case McpError():
            return error.error.message
        case OSError() if error.filename:
            return f"{error.filename} {error.strerror}"
        case httpx.HTTPStatusError():
            return status_line(error.response)
        case httpx.HTTPError():
            return describe_http_error(error)
        case asyncio.CancelledError():
            return "the transport failed"
        case _:
            return describe_error(error)


@dataclass(frozen=True, slots=True)
class Oversize:
    """A message over the size limit, which was dropped; `request_id` is the request it answers, None if unknown."""

    request_id: int | None


class MessageSplitter:
    """Splits a stream of bytes into messages in bounded memory; a message over `max_bytes` becomes an `Oversize`.

    A message over the limit is dropped while it is received. The id of its request is still found, because every JSON
    library writes the id near the start or the end of a response.

    Args:
        end: the pattern that ends a message.
        max_end_bytes: the maximum length of that pattern's matches.
        max_bytes: the maximum size of a message.
    """

    def __init__(self, end: re.Pattern[bytes], max_end_bytes: int, max_bytes: int = MAX_MESSAGE_BYTES) -> None:
        self._end = end
        self._overlap = max_end_bytes - 1
        self._max_bytes = max_bytes
        self._pending = b""
        self._reset()

    @property
    def is_dropping(self) -> bool:
        """Return whether the current message is over the limit."""
        return self._size > self._max_bytes

    def feed(self, data: bytes) -> list[bytes | Oversize]:
        """Return the messages that `data` completes, including their ends."""
        data, start, messages = self._pending + data, 0, []
        for match in self._end.finditer(data):
            self._append(data[start : match.end()])
            start = match.end()
            messages.append(self._pop_message())
        # An end can be split between two calls.
        pending_from = max(start, len(data) - self._overlap)
        self._append(data[start:pending_from])
        self._pending = data[pending_from:]
        return messages

    def flush(self) -> bytes | Oversize:
        """Return the bytes after the last separator, when the stream has ended."""
        self._append(self._pending)
        self._pending = b""
        return self._pop_message()

    def _reset(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0
        self._head = self._tail = b""

    def _append(self, part: bytes) -> None:
        self._size += len(part)
        self._parts.append(part)
        if self.is_dropping:
            text = b"".join(self._parts)
            self._head = self._head or text[:ID_SEARCH_BYTES]
            self._tail = (self._tail + text)[-ID_SEARCH_BYTES:]
            self._parts.clear()

    def _pop_message(self) -> bytes | Oversize:
        message = Oversize(response_id(self._head, self._tail)) if self.is_dropping else b"".join(self._parts)
        self._reset()
        return message


async def limit_values(message: bytes | Oversize) -> bytes | Oversize:
    """Replace a message with too many values by an `Oversize`: parsing it would block the event loop."""
    if isinstance(message, bytes) and await has_more_values(message, MAX_MESSAGE_VALUES):
        return Oversize(response_id(message[:ID_SEARCH_BYTES], message[-ID_SEARCH_BYTES:]))
    return message


def response_id(head: bytes, tail: bytes) -> int | None:
    """Return the id of a JSON-RPC response from the first and last bytes of its text, None if it is not there."""
    errors = _ID_FIRST.match(head) or _ID_LAST.search(tail)
    return int(errors[1]) if errors else None
